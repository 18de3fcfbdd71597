//! A fleet of schedulers in separate processes: their clocks, their deaths, and a server outage.

use crate::{
    fleet_node::{fleet_node as cron, long},
    support::command,
};
use lock_testkit::{ClockShift, RedisServer};
use lock_trials::{
    fenced::FencedTable,
    line::{Line, Order, now},
    process::{PATIENCE, Process},
};
use std::{
    collections::BTreeMap,
    thread::sleep,
    time::{Duration, Instant},
};

const SECOND: u64 = 1_000;

/// Returns the reports of a node during this time.
fn listen(node: &mut Process, time: Duration) -> Vec<Line> {
    let (end, mut lines) = (Instant::now() + time, Vec::new());
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        lines.extend(node.line_within(left));
    }
    lines
}

/// Returns all unsolicited reports so far.
fn said(node: &mut Process) -> Vec<Line> {
    std::iter::from_fn(|| node.line_within(Duration::from_millis(50))).collect()
}

fn starts(lines: &[Line]) -> Vec<u64> {
    lines.iter().filter(|line| line.word() == "start").map(|line| line.number("run")).collect()
}

/// Waits for a report of this kind.
fn wait_for(node: &mut Process, word: &str) -> Line {
    let end = Instant::now() + PATIENCE;
    loop {
        let line = node.line_within(end.saturating_duration_since(Instant::now()));
        let line = line.unwrap_or_else(|| panic!("no report `{word}`"));
        if line.word() == word {
            return line;
        }
    }
}

/// Sends an order, and returns the reports until it has been executed.
fn order(node: &mut Process, order: &Order) -> Vec<Line> {
    node.tell(order);
    let lines = node.until("obeyed");
    assert!(lines.iter().all(|line| line.word() != "refused"), "{lines:?}");
    lines
}

/// Returns the attempts in the history, oldest first: run, number and outcome.
fn history(node: &mut Process) -> Vec<(u64, u64, String)> {
    let lines = order(node, &Order::History);
    let past = lines.iter().filter(|line| line.word() == "past");
    past.map(|line| (line.number("run"), line.number("attempt"), line.text("outcome").to_owned())).collect()
}

#[test]
fn nodes_with_different_clocks_start_each_instant_once() {
    let server = RedisServer::start();
    let clocks: Vec<_> = [-2, 0, 2, 30, 0]
        .map(|offset| {
            let clock = ClockShift::new();
            clock.set(offset);
            clock
        })
        .into();
    let mut nodes: Vec<_> = clocks
        .iter()
        .map(|clock| {
            let mut command = command(&server.url(), 5 * SECOND, &["cron", "fleet", "* * * * * *"]);
            clock.give_to(&mut command);
            Process::start(&mut command)
        })
        .collect();
    nodes.iter_mut().for_each(|node| drop(node.expect("ready")));
    let minutes = if long() { 10 } else { 1 };
    let mut kept = Vec::new();
    let waiting = Instant::now();
    while kept.is_empty() {
        assert!(waiting.elapsed() < PATIENCE, "no node leads");
        kept = nodes.iter_mut().flat_map(|node| starts_with_times(&said(node))).collect();
    }
    let begin = now() / 1_000_000;
    // The last clock steps back and forth. Leaders leave from time to time, so that each clock leads.
    for step in 0..minutes * 12 {
        sleep(Duration::from_secs(5));
        clocks[4].set(if step % 2 == 0 { 5 } else { -5 });
        if step % 3 == 2 {
            for (node, clock) in nodes.iter_mut().zip(&clocks) {
                let lines = said(node);
                let last = lines.iter().rev().find(|line| ["leading", "resigned"].contains(&line.word()));
                let leads = last.is_some_and(|line| line.word() == "leading");
                kept.extend(starts_with_times(&lines));
                if leads {
                    node.tell(&Order::Stop);
                    kept.extend(starts_with_times(&node.until("stopped")));
                    let mut command = command(&server.url(), 5 * SECOND, &["cron", "fleet", "* * * * * *"]);
                    clock.give_to(&mut command);
                    *node = Process::start(&mut command);
                    node.expect("ready");
                }
            }
        }
    }
    let end = now() / 1_000_000 - 3;
    for node in &mut nodes {
        kept.extend(starts_with_times(&said(node)));
    }
    let mut runs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (run, at) in kept {
        runs.entry(run / 1000).or_default().push(at);
    }
    let (mut early, mut late) = (0, 0);
    for second in begin..end {
        let at = runs.get(&second).map_or(&[][..], |at| at);
        assert_eq!(at.len(), 1, "instant {second} between {begin} and {end}: {runs:?}");
        early = early.max((second * 1_000_000).saturating_sub(at[0]));
        late = late.max(at[0].saturating_sub(second * 1_000_000));
    }
    // A node that trusted its own clock would be early by two or thirty seconds.
    assert!(early < 1_000_000, "{early} µs early");
    assert!(!long() || early <= 50_000, "{early} µs early");
    eprintln!("5 nodes, {} instants: one start each, at most {early} µs early, {late} µs late", end - begin);
}

/// Returns the run and the time of each start.
fn starts_with_times(lines: &[Line]) -> Vec<(u64, u64)> {
    let starts = lines.iter().filter(|line| line.word() == "start");
    starts.map(|line| (line.number("run"), line.number("at"))).collect()
}

#[test]
fn killed_leader_is_replaced() {
    const LEASE: u64 = 4 * SECOND;
    let server = RedisServer::start();
    let mut nodes: Vec<_> =
        (0..3).map(|_| cron(&server.url(), LEASE, &["* * * * * *", "--on-leader"])).collect();
    let mut worst = 0;
    for _ in 0..2 {
        let at = leader_of(&mut nodes);
        let mut leader = nodes.remove(at);
        leader.kill();
        let killed = now();
        let run = loop {
            let starts: Vec<_> = nodes
                .iter_mut()
                .flat_map(|node| starts_with_times(&said(node)))
                .filter(|(_, at)| *at > killed)
                .collect();
            if let Some(first) = starts.iter().map(|(_, at)| *at).min() {
                break first;
            }
            assert!(Duration::from_micros(now() - killed) < PATIENCE, "no node continues");
        };
        worst = worst.max((run - killed) / 1000);
        nodes.push(cron(&server.url(), LEASE, &["* * * * * *", "--on-leader"]));
    }
    assert!(!long() || worst <= LEASE + SECOND, "{worst} ms until the next instant was started");
    eprintln!(
        "leader killed: the next start came within {worst} ms, with a lease of {LEASE} ms and a period of 1 s"
    );
}

/// Returns the node that reported leadership last.
fn leader_of(nodes: &mut [Process]) -> usize {
    let end = Instant::now() + PATIENCE;
    loop {
        for (number, node) in nodes.iter_mut().enumerate() {
            if said(node).iter().any(|line| line.word() == "start") {
                return number;
            }
        }
        assert!(Instant::now() < end, "no node leads");
    }
}

#[test]
fn terminated_leader_resigns_at_once_and_its_runs_finish() {
    // Too long for the test to wait for its end.
    const LEASE: u64 = 600 * SECOND;
    let server = RedisServer::start();
    let words = ["*/3 * * * * *", "--takes", "2500", "--on-leader"];
    let mut leader = cron(&server.url(), LEASE, &words);
    wait_for(&mut leader, "leading");
    let mut follower = cron(&server.url(), LEASE, &words);
    let running = wait_for(&mut leader, "start").number("run");
    leader.terminate();
    let told = Instant::now();
    wait_for(&mut follower, "leading");
    let took = told.elapsed();
    assert!(!long() || took < Duration::from_secs(1), "{took:?}");
    let ended = wait_for(&mut leader, "ended");
    assert_eq!(ended.number("run"), running);
    assert!(leader.ends(), "clean exit");
    let next = wait_for(&mut follower, "start").number("run");
    assert!(next > running, "the run starts only once");
    assert!(!long() || next == running + 3_000, "the next run is on time");
    let past = history(&mut follower);
    let of_run: Vec<_> = past.into_iter().filter(|(run, ..)| *run == running).collect();
    assert_eq!(of_run, [(running, 1, "succeeded".to_owned())]);
    eprintln!("leader terminated: replaced after {took:?}");
}

#[test]
fn suspended_leader_resumes_without_effect() {
    const LEASE: u64 = 3 * SECOND;
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("our directory");
    let file = directory.path().join("fenced.sqlite");
    // One run, due soon, for five seconds.
    let at = format!("@at {}", rfc3339(now() / 1_000_000 + 6));
    let file_name = file.to_str().expect("a plain path");
    let words = [&at, "--takes", "5000", "--adopt", "1", "--on-leader", "--fence", file_name];
    let mut first = cron(&server.url(), LEASE, &words);
    wait_for(&mut first, "leading");
    let mut second = cron(&server.url(), LEASE, &words);
    let old = wait_for(&mut first, "start");
    sleep(Duration::from_millis(500));
    first.pause();
    sleep(Duration::from_millis(3 * LEASE));
    let new = wait_for(&mut second, "start");
    assert_eq!((new.number("run"), new.number("attempt")), (old.number("run"), 2));
    assert!(new.number("token") > old.number("token"));
    first.resume();
    wait_for(&mut first, "cancelled");
    let write = wait_for(&mut first, "write");
    assert!(!write.is("accepted"));
    let write = wait_for(&mut second, "write");
    assert!(write.is("accepted"));
    sleep(Duration::from_millis(LEASE));
    let run = old.number("run");
    assert_eq!(history(&mut second), [(run, 1, "abandoned".to_owned()), (run, 2, "succeeded".to_owned())]);
    assert!(starts(&said(&mut first)).is_empty(), "nothing else starts there");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let value = runtime.block_on(async { FencedTable::open(&file).await?.value().await }).expect("the table");
    assert_eq!(value, 1, "one attempt has written");
}

fn rfc3339(second: u64) -> String {
    lock_cron::UtcTime::from_millis(second * 1000).to_string()
}

#[test]
fn commands_apply_on_all_nodes_and_survive_a_restart() {
    let server = RedisServer::start();
    let both = || {
        let mut leader = cron(&server.url(), 5 * SECOND, &["* * * * * *", "--on-leader"]);
        wait_for(&mut leader, "leading");
        (leader, cron(&server.url(), 5 * SECOND, &["* * * * * *", "--on-leader"]))
    };
    let (mut leader, mut follower) = both();
    wait_for(&mut leader, "start");
    order(&mut follower, &Order::Pause);
    let paused = now() / 1_000;
    let late = starts(&listen(&mut leader, Duration::from_secs(3)));
    assert!(late.iter().all(|instant| *instant <= paused), "paused at {paused}: {late:?}");
    let told = order(&mut follower, &Order::Trigger);
    let triggered = told.iter().find(|line| line.word() == "triggered").expect("a run id");
    let start = wait_for(&mut leader, "start");
    assert_eq!(start.text("run"), triggered.text("run"));
    order(&mut follower, &Order::Replace { schedule: "*/2 * * * * *".to_owned() });
    assert_same_plans(&mut leader, &mut follower);
    for mut node in [leader, follower] {
        node.tell(&Order::Stop);
        node.until("stopped");
    }
    let (mut leader, mut follower) = both();
    assert!(starts(&listen(&mut leader, Duration::from_secs(3))).is_empty(), "still paused");
    order(&mut follower, &Order::Resume);
    let runs = [(); 3].map(|()| wait_for(&mut leader, "start").number("run"));
    assert!(runs.iter().all(|run| run % 2_000 == 0), "every other second: {runs:?}");
    assert_same_plans(&mut leader, &mut follower);
}

/// Asserts that both plans have the same instants. Some may have passed between the two queries.
fn assert_same_plans(a: &mut Process, b: &mut Process) {
    let plan = |node| {
        let lines = order(node, &Order::Next);
        lines.iter().find(|line| line.word() == "next").expect("the plan").numbers("runs")
    };
    let (of_a, of_b) = (plan(a), plan(b));
    // Two consecutive instants distinguish every second from every other second.
    let agree = (0..=3).any(|passed| of_a[passed..] == of_b[..5 - passed]);
    assert!(of_a.len() == 5 && of_b.len() == 5 && agree, "{of_a:?}, {of_b:?}");
}

#[test]
fn without_a_server_nothing_starts() {
    let server = RedisServer::start();
    let mut node = cron(&server.url(), 5 * SECOND, &["* * * * * *"]);
    wait_for(&mut node, "start");
    server.stop();
    let (down, cpu) = (now() / 1_000, node.cpu_time());
    let lines = listen(&mut node, Duration::from_secs(20));
    let used = node.cpu_time() - cpu;
    let late: Vec<_> = starts(&lines).into_iter().filter(|instant| *instant > down).collect();
    assert_eq!(late, [0_u64; 0], "a start without a claim");
    assert!(!long() || used < Duration::from_millis(200), "{used:?} of a processor in 20 s");
    server.restart();
    let begin = Instant::now();
    wait_for(&mut node, "start");
    eprintln!(
        "20 s without a server: {used:?} of a processor; the runs continue after {:?}",
        begin.elapsed()
    );
}
