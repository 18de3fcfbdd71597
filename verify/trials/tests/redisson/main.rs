//! Interoperability with Java's Redisson: each side excludes and wakes the other, and recovers from its death.
//!
//! Needs `verify/interop/redisson/target/redisson-node.jar`, which `mvn -q -B -f verify/interop/redisson/pom.xml
//! package` builds.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../main/support.rs"]
mod support;

use lock_testkit::{RedisCluster, RedisServer};
use lock_trials::{
    line::{Order, now},
    process::Process,
    process::{at_once, count_together},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::Duration,
};
use support::node;

const LEASE: u64 = 3_000;

/// Returns `true` if figures are asserted: in long runs, on an otherwise idle machine.
fn long() -> bool {
    std::env::var_os("LOCK_LONG").is_some()
}

fn jar() -> PathBuf {
    let jar = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/redisson/target/redisson-node.jar");
    assert!(
        jar.exists(),
        "the jar is missing: build it with `mvn -q -B -f verify/interop/redisson/pom.xml package`"
    );
    jar
}

/// Starts a Java process with a watchdog timeout of [`LEASE`].
fn java(url: &str, words: &[&str]) -> Process {
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-jar"]).arg(jar());
    command.args(["--lock-watchdog-timeout", &LEASE.to_string(), url]).args(words);
    Process::start(&mut command)
}

fn rust(url: &str, words: &[&str]) -> Process {
    node(url, LEASE, words)
}

/// Two Java and two Rust processes, each with eight threads or tasks, increment one unprotected counter.
fn both_sides_count(kind: &str) {
    const EACH: usize = 1_250;
    let server = RedisServer::start();
    if kind == "fenced" {
        // Java restarts a missing counter at 1; this one is kept.
        server.command(&["SET", "redisson_lock_token:{x}", "1"]);
    }
    let (url, each) = (server.url(), EACH.to_string());
    let mut nodes = Vec::new();
    for _ in 0..2 {
        nodes.push(java(&url, &["count", "x", kind, "8", &each, "counter"]));
        nodes.push(rust(&url, &["count", "x", "8", &each, "counter"]));
    }
    let tokens = count_together(nodes);
    assert_eq!(server.command(&["GET", "counter"]).text(), (4 * EACH).to_string(), "no increment is lost");
    // A plain RLock has no token.
    assert_eq!(tokens.len(), if kind == "fenced" { 4 * EACH } else { 2 * EACH });
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "tokens of both sides rise strictly");
    let left: Vec<_> = server.keys().into_iter().filter(|key| !key.contains("latch")).collect();
    assert_eq!(left, ["counter", "redisson_lock_token:{x}"]);
    eprintln!("2 Java and 2 Rust processes, {kind}: {} sections, none lost", 4 * EACH);
}

#[test]
fn plain_locks_of_both_sides_lose_no_increment() {
    both_sides_count("plain");
}

#[test]
fn fenced_locks_of_both_sides_lose_no_increment_and_tokens_rise() {
    both_sides_count("fenced");
}

/// The two sides pass the lock to each other by order; each waits while the other holds it.
fn sides_wake_each_other(url: &str) {
    let rounds = if long() { 200 } else { 20 };
    let mut java = java(url, &["hold", "x", "fenced"]);
    java.expect("held");
    let mut rust = rust(url, &["hold", "x"]);
    assert!(rust.line_within(Duration::from_millis(500)).is_none(), "waiting");
    let (mut from_java, mut from_rust) = (Vec::new(), Vec::new());
    // The holder releases the lock and waits again. Returns the time until the other side holds it.
    let hand_over = |holder: &mut Process, waiter: &mut Process| {
        let ordered = now();
        holder.tell(&Order::Release);
        let granted = waiter.expect("held").number("at");
        holder.expect("released");
        holder.tell(&Order::Acquire);
        // By the next round the waiter is subscribed.
        sleep(Duration::from_millis(25));
        granted.saturating_sub(ordered)
    };
    for round in 0..rounds {
        let times = (hand_over(&mut java, &mut rust), hand_over(&mut rust, &mut java));
        // A virtual machine is slow right after its start.
        if round >= 10 {
            from_java.push(times.0);
            from_rust.push(times.1);
        }
    }
    for (which, mut times) in [("Java to Rust", from_java), ("Rust to Java", from_rust)] {
        times.sort_unstable();
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        eprintln!(
            "{which}, from the order to release to the grant, {} times: p50 {p50} µs, p99 {p99} µs",
            times.len()
        );
        assert!(!long() || p99 <= 50_000, "{which}: p99 {p99} µs");
    }
}

#[test]
fn each_side_wakes_the_other() {
    let server = RedisServer::start();
    sides_wake_each_other(&server.url());
}

#[test]
fn each_side_wakes_the_other_in_a_cluster() {
    let cluster = RedisCluster::start();
    sides_wake_each_other(&cluster.url());
}

/// The lease of a killed holder ends, although the other side cannot know of the death.
fn killed_holder_frees_the_other(url: &str) {
    let url = url.to_owned();
    at_once(2, move |case| {
        let lock = format!("killed:{case}");
        let start = |java_first: bool| match java_first {
            true => java(&url, &["hold", &lock, "fenced"]),
            false => rust(&url, &["hold", &lock]),
        };
        let mut holder = start(case == 0);
        holder.expect("held");
        let mut waiter = start(case == 1);
        // Long enough for each watchdog to renew.
        assert!(waiter.line_within(Duration::from_millis(LEASE + LEASE / 2)).is_none(), "waiting");
        holder.kill();
        let killed = now();
        let waited = (waiter.expect("held").number("at") - killed) / 1_000;
        eprintln!("{} killed: the other within {waited} ms", if case == 0 { "Java" } else { "Rust" });
        assert!(!long() || waited <= LEASE + 1_000, "{waited} ms");
    });
}

#[test]
fn lock_of_a_killed_holder_goes_to_the_other_side() {
    let server = RedisServer::start();
    killed_holder_frees_the_other(&server.url());
}

#[test]
fn lock_of_a_killed_holder_goes_to_the_other_side_in_a_cluster() {
    let cluster = RedisCluster::start();
    killed_holder_frees_the_other(&cluster.url());
}

#[test]
fn both_sides_notice_a_forced_release() {
    let server = RedisServer::start();
    let url = server.url();
    // Rust holds the lock, Java forces its release.
    let mut holder = rust(&url, &["hold", "x"]);
    holder.expect("held");
    let mut waiter = rust(&url, &["hold", "x"]);
    assert!(waiter.line_within(Duration::from_millis(500)).is_none());
    assert!(java(&url, &["force", "x", "fenced"]).expect("forced").is("forced"));
    let at = now();
    let granted = waiter.expect("held").number("at");
    assert!(!long() || granted.saturating_sub(at) < 1_000_000, "the waiter is woken");
    // No later than at the next renewal.
    let is_held = |holder: &mut Process| {
        holder.tell(&Order::IsHeld);
        holder.expect("is_held").is("held")
    };
    while is_held(&mut holder) {
        sleep(Duration::from_millis(100));
    }
    waiter.tell(&Order::IsHeld);
    assert!(waiter.expect("is_held").is("held"));
    waiter.tell(&Order::Quit);
    drop(waiter);

    // Java holds the lock, Rust forces its release.
    let mut holder = java(&url, &["hold", "y", "fenced"]);
    holder.expect("held");
    let mut waiter = java(&url, &["hold", "y", "fenced"]);
    assert!(waiter.line_within(Duration::from_millis(1_500)).is_none());
    let seen = rust(&url, &["inspect", "y"]).expect("locked");
    assert!(seen.is("locked"));
    assert!(rust(&url, &["force", "y"]).expect("forced").is("forced"));
    waiter.expect("held");
    holder.tell(&Order::IsHeld);
    assert!(!holder.expect("is_held").is("held"));
}
