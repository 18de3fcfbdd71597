//! Tests over real processes and a real Redis: the sale goes as it must, and nothing is left of it, however it ends.

use crate::program::{command, text};
use lock_testkit::RedisServer;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// What hangs is not waited for longer; a busy machine may need some of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run with a directory for temporary files of its own, by which what it leaves behind is found.
struct Run {
    program: Program,
    directory: TempDir,
}

/// Gone with the test, also with one that fails.
struct Program(Option<Child>);

impl Program {
    fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Run {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = command(arguments);
        command.env("TMPDIR", directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { program: Program(Some(command.spawn().unwrap())), directory }
    }

    /// Waits until its progress says `text`.
    fn says(&mut self, text: &str) {
        let mut lines = BufReader::new(self.program.child().stderr.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(text)), "it ended and never said `{text}`");
    }

    /// Waits for its end, which must come.
    fn end(mut self) -> Ended {
        let begin = Instant::now();
        while self.program.child().try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            sleep(Duration::from_millis(10));
        }
        let program = self.program.0.take().unwrap();
        Ended { output: program.wait_with_output().unwrap(), directory: self.directory }
    }
}

struct Ended {
    output: Output,
    directory: TempDir,
}

impl Ended {
    fn out(&self) -> &str {
        text(&self.output.stdout)
    }

    fn err(&self) -> &str {
        text(&self.output.stderr)
    }

    /// No shop, no server, no file is left at the moment when the program has ended.
    fn leaves_nothing(&self) {
        assert_eq!(shops_below(self.directory.path()), Vec::<u32>::new());
        assert_eq!(working_below(self.directory.path()), Vec::<u32>::new());
        let files: Vec<_> = fs::read_dir(self.directory.path()).unwrap().collect();
        assert!(files.is_empty(), "{files:?}");
    }
}

fn processes(is: impl Fn(&Path) -> bool) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|process| is(&process.path()))
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

/// The shops of a run, by the database in their arguments.
fn shops_below(directory: &Path) -> Vec<u32> {
    let directory = directory.to_str().unwrap();
    processes(|process| {
        let arguments = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        arguments.contains("--shop-process") && arguments.contains(directory)
    })
}

/// The private Redis of a run, by its working directory.
fn working_below(directory: &Path) -> Vec<u32> {
    processes(|process| fs::read_link(process.join("cwd")).is_ok_and(|at| at.starts_with(directory)))
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// The locks of runs that are held.
fn locks_on(redis: &RedisServer) -> Vec<String> {
    redis.keys().into_iter().filter(|key| key.starts_with("demo:")).collect()
}

const SMALL: [&str; 6] = ["--orders", "1500", "--buyers", "50", "--stalls", "2"];
/// A sale that goes on for a few seconds after its first line of progress.
const LONG: [&str; 4] = ["--orders", "4000", "--stalls", "0"];

/// Waits until a lock of the run on `redis` is held.
fn until_locked(redis: &RedisServer) {
    let begin = Instant::now();
    while locks_on(redis).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "no lock is taken");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn three_processes_oversell_without_the_lock_and_not_with_it() {
    let ended = Run::start(&[&["--with-redis"][..], &SMALL].concat()).end();
    assert!(ended.output.status.success(), "{}{}", ended.out(), ended.err());
    for expected in [
        "The shops are 3 processes, and the locks are on a private redis-server.",
        "with it they sold none too many, and the store refused all 2 writes that came too late.",
    ] {
        assert!(ended.out().contains(expected), "`{expected}` is in {}", ended.out());
    }
    ended.leaves_nothing();
}

#[test]
fn on_a_redis_of_somebody_no_lock_is_left_and_no_counter_for_long() {
    let redis = RedisServer::start();
    let ended = Run::start(&[&["--redis", &redis.url(), "--processes", "2"][..], &SMALL].concat()).end();
    assert!(ended.output.status.success(), "{}{}", ended.out(), ended.err());
    let place = redis.url().replace("redis://", "the Redis at ");
    let expected = format!("The shops are 2 processes, and the locks are on {place}.");
    assert!(ended.out().contains(&expected), "`{expected}` is in {}", ended.out());
    ended.leaves_nothing();

    assert_eq!(locks_on(&redis), [""; 0]);
    let counters = redis.keys();
    assert!(
        counters[0].starts_with("redisson_lock_token:{demo:"),
        "the counters are there for a while: {counters:?}"
    );
    let lasts = redis.command(&["TTL", &counters[0]]).integer();
    assert!((1..=60).contains(&lasts), "{lasts}");
}

fn a_shop_is_killed_in_the_sale(strategy: &str) {
    let mut run = Run::start(&[&["--with-redis"], &LONG[..]].concat());
    run.says(&format!("{strategy}: "));
    let shops = shops_below(run.directory.path());
    assert_eq!(shops.len(), 3);
    signal("-KILL", shops[1]);
    let ended = run.end();
    assert_eq!(ended.output.status.code(), Some(2), "{}{}", ended.out(), ended.err());
    assert!(ended.err().contains("error: the process of shop "), "{}", ended.err());
    assert!(ended.err().contains("it was killed or crashed (signal: 9"), "{}", ended.err());
    ended.leaves_nothing();
}

#[test]
fn a_shop_that_is_killed_without_the_lock_ends_the_run_with_its_number() {
    a_shop_is_killed_in_the_sale("without lock");
}

#[test]
fn a_shop_that_is_killed_with_the_lock_ends_the_run_with_its_number() {
    a_shop_is_killed_in_the_sale("with lock");
}

#[test]
fn a_program_that_is_told_to_stop_gives_back_its_locks() {
    let redis = RedisServer::start();
    let mut run = Run::start(&[&["--redis", &redis.url()], &LONG[..]].concat());
    run.says("with lock: ");
    until_locked(&redis);
    signal("-INT", run.program.child().id());
    let ended = run.end();
    assert_eq!(ended.output.status.code(), Some(130), "{}{}", ended.out(), ended.err());
    ended.leaves_nothing();
    assert_eq!(locks_on(&redis), [""; 0]);
}

#[test]
fn a_program_that_is_killed_leaves_no_shop_and_no_lock() {
    let redis = RedisServer::start();
    let mut run = Run::start(&[&["--redis", &redis.url()], &LONG[..]].concat());
    run.says("with lock: ");
    until_locked(&redis);
    signal("-KILL", run.program.child().id());
    let directory = run.end().directory;
    let begin = Instant::now();
    while !shops_below(directory.path()).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", shops_below(directory.path()));
        sleep(Duration::from_millis(5));
    }
    assert_eq!(locks_on(&redis), [""; 0]);
}

#[test]
fn a_shop_that_hangs_does_not_keep_the_program_from_ending() {
    let mut run = Run::start(&[&["--with-redis"], &LONG[..]].concat());
    run.says("without lock: ");
    signal("-STOP", shops_below(run.directory.path())[0]);
    signal("-TERM", run.program.child().id());
    let ended = run.end();
    assert_eq!(ended.output.status.code(), Some(143), "{}{}", ended.out(), ended.err());
    ended.leaves_nothing();
}
