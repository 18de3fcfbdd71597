//! A counter that only the lock protects.

use crate::support::node;
use lock_testkit::RedisServer;
use lock_trials::process::count_together;
use std::env;

#[test]
fn four_processes_lose_no_increment_and_leave_no_key() {
    const PROCESSES: usize = 4;
    const TASKS: usize = 32;
    let sections = if env::var_os("LOCK_LONG").is_some() { 20_000 } else { 4_000 };
    let server = RedisServer::start();
    let (tasks, each) = (TASKS.to_string(), (sections / PROCESSES).to_string());
    let nodes = (0..PROCESSES)
        .map(|_| node(&server.url(), 30_000, &["count", "x", &tasks, &each, "counter"]))
        .collect();
    let begin = std::time::Instant::now();
    let tokens = count_together(nodes);
    let took = begin.elapsed();
    assert_eq!(server.command(&["GET", "counter"]).text(), sections.to_string(), "no increment is lost");
    assert_eq!(tokens.len(), sections);
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "tokens rise strictly");
    assert_eq!(server.keys(), ["counter", "redisson_lock_token:{x}"]);
    assert_eq!((server.clients(), server.subscriptions()), (0, 0));
    eprintln!("{PROCESSES} processes x {TASKS} tasks: {sections} sections in {took:.1?}, none lost");
}

/// The counter-test: if each process uses a different lock, increments are lost.
#[test]
fn without_a_common_lock_increments_are_lost() {
    let server = RedisServer::start();
    let alone = |lock| node(&server.url(), 30_000, &["count", lock, "4", "500", "counter"]);
    count_together(["a", "b", "c", "d"].map(alone).into());
    let counted: u64 = server.command(&["GET", "counter"]).text().parse().unwrap();
    assert!(counted < 2_000, "{counted} of 2000: the sections did not overlap");
}
