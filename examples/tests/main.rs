//! Runs every example, and checks its output and its exit code.

use lock_testkit::{RedisServer, unused_address};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

#[test]
fn hello_locks_and_releases() {
    shows(env!("CARGO_BIN_EXE_hello"), "the second task now holds it, with token ");
}

#[test]
fn try_once_does_something_else_when_the_lock_is_taken() {
    shows(env!("CARGO_BIN_EXE_try_once"), "not free: doing something else without waiting");
}

#[test]
fn timeout_distinguishes_busy_from_unavailable() {
    shows(env!("CARGO_BIN_EXE_timeout"), "response: 503: others hold the lock, try again");
}

#[test]
fn lost_lease_is_noticed() {
    shows(env!("CARGO_BIN_EXE_lost_lease"), "release() returns AlreadyExpired");
}

#[test]
fn fenced_write_refuses_the_zombie() {
    shows(
        env!("CARGO_BIN_EXE_fenced_write"),
        "A wakes up and writes: refused as stale\nB writes: accepted\n",
    );
}

#[test]
fn fenced_transaction_refuses_the_zombie() {
    shows(env!("CARGO_BIN_EXE_fenced_transaction"), "A is refused\n");
}

#[test]
fn reentrant_calls_share_one_hold() {
    shows(env!("CARGO_BIN_EXE_reentrant_calls"), "  book(bob) re-entered with the same token ");
}

#[test]
fn run_stops_work_that_outlives_the_lock() {
    shows(env!("CARGO_BIN_EXE_run"), "endless work was stopped: the lease ended without a renewal");
}

#[test]
fn backend_by_url_explains_an_unknown_scheme() {
    shows(
        env!("CARGO_BIN_EXE_backend_by_url"),
        "refused: the backend URL is invalid: the scheme `carrier-pigeon` is not supported",
    );
}

#[test]
fn backend_by_url_reads_the_environment() {
    let example = || Command::new(env!("CARGO_BIN_EXE_backend_by_url"));
    let named = finish(example().env("LOCK_URL", "memory:shop"));
    assert_eq!(named.code, Some(0), "{named:?}");
    let unknown = finish(example().env("LOCK_URL", "carrier-pigeon://coop"));
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.stderr.contains("the scheme `carrier-pigeon` is not supported"), "{unknown:?}");
    let server = RedisServer::start();
    let redis = finish(example().env("LOCK_URL", server.url()));
    assert_eq!(redis.code, Some(0), "{redis:?}");
    assert_eq!(server.keys(), ["redisson_lock_token:{stock:42}"], "held there");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("locks.db");
    let sqlite = finish(example().env("LOCK_URL", format!("sqlite:{}", file.display())));
    assert_eq!(sqlite.code, Some(0), "{sqlite:?}");
    assert!(file.exists());
}

#[test]
fn redis_excludes_and_wakes_another_process() {
    let server = RedisServer::start();
    let run = finish(Command::new(env!("CARGO_BIN_EXE_redis")).env("REDIS_URL", server.url()));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("there: held, with fencing token "), "{run:?}");
    assert_eq!(server.keys(), ["redisson_lock_token:{stock:42}"]);
}

#[test]
fn redis_without_a_server_explains_the_error() {
    let free = unused_address();
    let run = finish(Command::new(env!("CARGO_BIN_EXE_redis")).env("REDIS_URL", format!("redis://{free}")));
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains(&free.to_string()), "{run:?}");
}

#[test]
fn redis_settings_are_accepted_and_refused() {
    let server = RedisServer::builder().password("example").start();
    let url = format!("redis://:example@127.0.0.1:{}/1", server.port());
    let run = finish(Command::new(env!("CARGO_BIN_EXE_redis_settings")).env("REDIS_URL", url));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("refused: the backend URL is invalid: the database must be"), "{run:?}");
    assert!(!run.stdout.contains("ss/word"), "{run:?}");
}

#[test]
fn own_observer_counts_every_end() {
    shows(env!("CARGO_BIN_EXE_own_observer"), "acquired 4, timed out 1, held now 1, lost 1, dropped 1");
}

#[test]
fn axum_route_admits_one_request_per_key() {
    shows(
        env!("CARGO_BIN_EXE_axum_route"),
        "meanwhile, another request: 503 Service Unavailable\n{\"detail\":",
    );
}

#[test]
fn typed_key_locks_by_the_parsed_body() {
    shows(env!("CARGO_BIN_EXE_typed_key"), "2 of 7 under stock:7, token ");
    shows(
        env!("CARGO_BIN_EXE_typed_key"),
        "from 8 to 7 under 2 locks\nwhile a worker holds it: 503 Service Unavailable\n\
         a missing field: 422 Unprocessable Entity\n",
    );
}

#[test]
fn hyper_service_locks_by_header_and_query() {
    shows(
        env!("CARGO_BIN_EXE_hyper_service"),
        "POST ?account=7: 200 OK, account:acme%3Aeu:7 is locked, token ",
    );
}

#[test]
fn tonic_service_refuses_with_a_grpc_status() {
    shows(
        env!("CARGO_BIN_EXE_tonic_service"),
        "locked by another: Unavailable, this resource was locked by other requests for the entire waiting time",
    );
}

#[test]
fn idempotency_charges_once() {
    shows(env!("CARGO_BIN_EXE_idempotency"), "three requests, 1 charge\n");
}

#[test]
fn idempotency_recovers_a_charge_without_a_receipt() {
    shows(
        env!("CARGO_BIN_EXE_idempotency"),
        "recovered order-8: charge of order-8; Ok(Released)\ncharge of order-8 (stored before)\n2 charges in all\n",
    );
}

#[test]
fn drain_finishes_started_work() {
    shows(
        env!("CARGO_BIN_EXE_drain"),
        "handlers have finished, written: true\nreleased: true, left in the store: 0\n",
    );
}

#[test]
fn elect_hands_over_the_leadership() {
    shows(
        env!("CARGO_BIN_EXE_elect"),
        "first: 200 OK, second: 503 Service Unavailable\nrelaying messages under token ",
    );
    shows(env!("CARGO_BIN_EXE_elect"), "first: 503 Service Unavailable, second: 200 OK\n");
}

#[test]
fn cron_one_job_runs_at_its_times() {
    shows(env!("CARGO_BIN_EXE_cron_one_job"), " succeeded\n");
}

#[test]
fn cron_fleet_continues_without_its_leader() {
    let server = RedisServer::start();
    let run = finish(Command::new(env!("CARGO_BIN_EXE_cron_fleet")).env("REDIS_URL", server.url()));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("the fleet continues without "), "{run:?}");
}

#[test]
fn cron_fenced_refuses_the_suspended_run() {
    shows(env!("CARGO_BIN_EXE_cron_fenced"), ": refused as stale\n");
}

#[test]
fn cron_test_runs_in_virtual_time() {
    shows(
        env!("CARGO_BIN_EXE_cron_test"),
        "1 run until 2026-01-01T06:00:00Z\nin the night without 2:30: 2026-03-29T01:00:00Z\n",
    );
}

#[test]
fn cron_page_shows_the_outcome_of_runs() {
    shows(env!("CARGO_BIN_EXE_cron_page"), "\"outcome\":\"succeeded\"");
}

#[test]
fn every_example_is_short_tested_and_opens_with_a_question() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = include_str!("main.rs");
    let manifest = include_str!("../Cargo.toml");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(here).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        assert!(lines < 80, "{name} has {lines} lines: shorten it or split it");
        let opening = text.lines().next().unwrap();
        assert!(
            opening.starts_with("//! ") && opening.ends_with('?'),
            "{name} opens with `{opening}` instead of a question"
        );
        assert!(tests.contains(&format!("env!(\"CARGO_BIN_EXE_{name}\")")), "{name} has no test here");
        assert!(manifest.contains(&format!("path = \"{name}.rs\"")), "{name} is not in Cargo.toml");
        names.insert(name);
    }
    assert!(names.contains("hello"), "the examples are not in this folder: {names:?}");
}

/// Runs an example without its environment variables, and checks for a characteristic part of its output.
fn shows(program: &str, telling: &str) {
    let run = finish(Command::new(program).env_remove("LOCK_URL"));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains(telling), "missing `{telling}`: {run:?}");
    assert!(run.stderr.is_empty(), "{run:?}");
}

#[derive(Debug)]
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Longer than any example takes on a busy machine.
const HANGS: Duration = Duration::from_secs(120);

/// Waits for the end of an example. One that hangs is killed and has no exit code.
fn finish(command: &mut Command) -> Finished {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("starts");
    let began = Instant::now();
    // The output of an example fits into the pipe, so it need not be read while the example runs.
    while child.try_wait().expect("waitable child").is_none() {
        if began.elapsed() > HANGS {
            child.kill().expect("killable child");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("readable output");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8 output");
    Finished { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
