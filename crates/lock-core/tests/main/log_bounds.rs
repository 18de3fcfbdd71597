//! The number of warnings and errors in the log does not grow with the number of locks, waiters or attempts.

use crate::support::{World, millis, secs};
use lock_core::LockOptions;
use lock_testkit::{Fault, Op, ThreadLog};
use tokio::time::sleep;
use tracing::level_filters::LevelFilter;

/// The number of holds, and of waiters.
fn many() -> usize {
    if std::env::var_os("LOCK_LONG").is_some() { 1_000 } else { 50 }
}

/// Returns the lines at warn and error.
fn loud(log: &ThreadLog) -> Vec<String> {
    let is_loud = |line: &&str| line.contains(" WARN ") || line.contains("ERROR ");
    log.text().lines().filter(is_loud).map(str::to_owned).collect()
}

/// Holds and waiters, a store that stops for longer than a lease, and guards that are dropped afterwards.
#[tokio::test(start_paused = true)]
async fn outage_writes_a_bounded_number_of_lines() {
    let many = many();
    let world = World::with(LockOptions::new().lease(secs(10)));
    let other = world.another_process();
    let (mut guards, mut theirs, mut waiters) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..many {
        guards.push(world.locks.named(format!("held-{n}-")).unwrap().acquire().await.unwrap());
        let name = format!("wanted-{n}-");
        theirs.push(other.named(name.clone()).unwrap().acquire().await.unwrap());
        waiters.push(tokio::spawn(world.locks.named(name).unwrap().acquire()));
    }
    world.settle().await;
    let log = ThreadLog::listen(LevelFilter::DEBUG);
    world.faulty.always_all(Fault::Hang);
    sleep(secs(14)).await;
    world.faulty.heal();
    drop(guards);
    sleep(secs(40)).await;
    let loud = loud(&log);
    assert!(loud.len() <= 40, "{} lines: {loud:#?}", loud.len());
    let lines = |words: &str| loud.iter().filter(|line| line.contains(words)).count();
    assert_eq!(lines("renewal failed, retrying until the deadline"), 5, "{loud:#?}");
    assert_eq!(lines("hold lost"), 5, "{loud:#?}");
    assert!(lines(&format!("holds={many}")) >= 1, "one line sums up: {loud:#?}");
    assert_eq!(lines(&format!("count={}", many - 5)), 3, "losses, drops after them, waits: {loud:#?}");
    let text = log.text();
    for n in 0..many {
        let is_told = |line: &str| line.contains("hold lost") && line.contains(&format!("\"held-{n}-\""));
        assert!(text.lines().any(is_told), "the loss of lock {n} is in the log, at debug at least");
    }
    drop((waiters, theirs));
}

#[tokio::test(start_paused = true)]
async fn hold_warns_once_and_its_attempts_are_summed_up() {
    let log = ThreadLog::listen(LevelFilter::DEBUG);
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.always(Op::Renew, Fault::Hang);
    guard.lost().await;
    world.settle().await;
    let attempts = log.count("renewal attempt failed");
    assert!(attempts >= 3, "{}", log.text());
    let first = |line: &&String| line.contains("renewal failed, retrying until the deadline");
    assert_eq!(loud(&log).iter().filter(first).count(), 1, "{}", log.text());
    assert_eq!(log.count("hold lost"), 1);
    sleep(secs(10)).await;
    let sums = log.count("further renewals failed");
    assert!((1..=3).contains(&sums), "one in ten seconds: {}", log.text());
    assert_eq!(loud(&log).len(), 2 + sums, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn second_outage_is_reported_like_the_first() {
    let world = World::new();
    let _guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    for _ in 0..2 {
        let log = ThreadLog::listen(LevelFilter::WARN);
        world.faulty.next(Op::Renew, Fault::Hang);
        sleep(secs(14)).await;
        assert_eq!(log.count("renewal failed, retrying until the deadline"), 1, "{}", log.text());
        sleep(secs(20)).await;
    }
}

/// Each of two processes holds the lock for which the other one waits.
#[tokio::test(start_paused = true)]
async fn locks_in_opposite_orders_are_reported_by_both_processes() {
    let log = ThreadLog::listen(LevelFilter::WARN);
    let world = World::with(LockOptions::new().lease(secs(2)));
    let there = world.another_process();
    let other = |name: &str| {
        let lock = there.named(name).unwrap();
        lock.with_options(lock.options().lease(secs(2))).unwrap()
    };
    let (_p, _q) =
        (world.locks.named("p").unwrap().acquire().await.unwrap(), other("q").acquire().await.unwrap());
    let limited = tokio::spawn(world.locks.named("q").unwrap().acquire_timeout(secs(30)));
    sleep(millis(6_500)).await;
    assert_eq!(log.text(), "", "a wait with a limit ends by itself");
    limited.abort();
    let waiters = [world.locks.named("q").unwrap().acquire(), other("p").acquire()].map(tokio::spawn);
    sleep(millis(6_500)).await;
    for name in ["q", "p"] {
        let is_told = |line: &str| {
            line.contains(&format!("lock.name=\"{name}\""))
                && line.contains("locks.all([…])")
                && line.contains("`inspect` shows the holder")
        };
        assert_eq!(log.text().lines().filter(|line| is_told(line)).count(), 1, "{name}: {}", log.text());
    }
    sleep(secs(20)).await;
    assert_eq!(log.count("locks.all"), 2, "once for each wait: {}", log.text());
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}
