//! A counter that only the lock guards.

use crate::support::node;
use lock_testkit::RedisServer;

#[test]
fn four_processes_lose_no_increment_and_leave_nothing() {
    const PROCESSES: usize = 4;
    const TASKS: usize = 32;
    const SECTIONS: usize = 20_000;
    let server = RedisServer::start();
    let (tasks, each) = (TASKS.to_string(), (SECTIONS / PROCESSES).to_string());
    let mut nodes: Vec<_> = (0..PROCESSES)
        .map(|_| node(&server.url(), 30_000, &["count", "x", &tasks, &each, "counter"]))
        .collect();
    for node in &mut nodes {
        node.expect("ready");
    }
    let begin = std::time::Instant::now();
    nodes.iter_mut().for_each(|node| node.tell("go"));
    let mut grants = Vec::new();
    for node in &mut nodes {
        for line in node.until("done") {
            if line.word() == "token" {
                grants.push((line.at(2).parse::<u64>().unwrap(), line.at(1).parse::<u64>().unwrap()));
            }
        }
    }
    let took = begin.elapsed();
    assert!(nodes.into_iter().all(|node| node.ends()), "all end well");

    assert_eq!(server.command(&["GET", "counter"]).text(), SECTIONS.to_string(), "no increment was lost");
    assert_eq!(grants.len(), SECTIONS);
    // By the time of the grant: the tokens rise without a repeat.
    grants.sort_unstable();
    let falls = grants.windows(2).filter(|pair| pair[0].1 >= pair[1].1).count();
    assert_eq!(falls, 0, "tokens rise strictly");
    assert_eq!(server.keys(), ["counter", "redisson_lock_token:{x}"]);
    assert_eq!((server.clients(), server.subscriptions()), (0, 0));
    eprintln!("{PROCESSES} processes x {TASKS} tasks: {SECTIONS} sections in {took:.1?}, none lost");
}

/// The counter-test: with a lock of its own for each process, increments are lost.
#[test]
fn without_a_common_lock_increments_are_lost() {
    let server = RedisServer::start();
    let mut nodes: Vec<_> = ["a", "b", "c", "d"]
        .map(|lock| node(&server.url(), 30_000, &["count", lock, "4", "500", "counter"]))
        .into_iter()
        .collect();
    for node in &mut nodes {
        node.expect("ready");
    }
    nodes.iter_mut().for_each(|node| node.tell("go"));
    for node in &mut nodes {
        node.until("done");
    }
    let counted: u64 = server.command(&["GET", "counter"]).text().parse().unwrap();
    assert!(counted < 2_000, "{counted} of 2000: the sections overlapped");
}
