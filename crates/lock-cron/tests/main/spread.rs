//! Runs on all nodes: their shares, catch-ups beside on-time runs, deaths, and nodes without room.

use crate::fleet::{Fleet, Node, Referee, Running, secs};
use lock_cron::{Misfire, OnOrphan, Overlap, Placement, observer::SkipReason};
use lock_testkit::{Fault, Op, Seed};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::sleep;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Starts five nodes with one job.
fn five(fleet: &Fleet, describe: impl Fn(&Node)) -> Vec<Running> {
    let start = |name| {
        let node = fleet.node_with(name, |builder| builder.history(1000));
        describe(&node);
        node.start()
    };
    NAMES.map(start).into()
}

/// Counts the runs of each node.
async fn shares(of: &Running) -> BTreeMap<String, u32> {
    let mut shares = BTreeMap::new();
    for attempt in of.cron.history("job", 1000).await.expect("healthy store") {
        *shares.entry(attempt.node).or_default() += 1;
    }
    shares
}

fn calls(nodes: &[Running], op: Op) -> usize {
    nodes.iter().map(|node| node.faulty.calls(op)).sum()
}

fn every(period: u64, from: u64, to: u64) -> Vec<u64> {
    (from..=to).step_by(usize::try_from(period).expect("small number")).collect()
}

#[tokio::test(start_paused = true)]
async fn runs_are_spread_evenly_at_two_requests_each() {
    for (period, schedule) in [(1, "* * * * * *"), (10, "*/10 * * * * *")] {
        let fleet = Fleet::new();
        let nodes = five(&fleet, |node| node.job("job", schedule, secs(0)).register().expect("valid job"));
        sleep(secs(1000 * period) + Duration::from_millis(500)).await;
        fleet.log.assert_each_once();
        assert_eq!(fleet.log.instants(), every(period, period, 1000 * period));
        let shares = shares(&nodes[0]).await;
        assert_eq!(shares.len(), 5, "{shares:?}");
        assert!(shares.values().all(|runs| (120..=300).contains(runs)), "every {period} s: {shares:?}");
        // The node selected by the hash claims at once. Any other node would be late, or its claim refused.
        let at_once = |start: &&crate::fleet::Start| {
            start.run.scheduled().is_some_and(|at| start.at - at.as_millis() < 100)
        };
        let at_once = fleet.log.starts().iter().filter(at_once).count();
        assert!(at_once >= 990, "every {period} s: {at_once} of 1000 started at their instant");
        let (claims, ends) = (calls(&nodes, Op::Claim), calls(&nodes, Op::EndRun));
        assert!(claims + ends <= 2_010, "every {period} s: {claims} claims, {ends} ends");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_node_sends_one_request_a_second() {
    let fleet = Fleet::new();
    let nodes = five(&fleet, |node| node.job("job", "@yearly", secs(0)).register().expect("valid job"));
    sleep(secs(30)).await;
    let count = || nodes.iter().map(|node| Op::ALL.map(|op| node.faulty.calls(op)).iter().sum::<usize>());
    let before: Vec<_> = count().collect();
    sleep(secs(120)).await;
    for (after, before) in count().zip(before) {
        assert!(after - before <= 120 + 60, "{} requests of a node in 120 s", after - before);
    }
}

#[tokio::test(start_paused = true)]
async fn leader_runs_every_instant_of_a_job_placed_on_it() {
    let fleet = Fleet::new();
    let nodes = five(&fleet, |node| {
        let job = node.job("job", "* * * * * *", secs(0)).placement(Placement::Leader);
        job.register().expect("valid job");
    });
    sleep(Duration::from_millis(100_500)).await;
    let shares = shares(&nodes[0]).await;
    assert_eq!(shares.values().collect::<Vec<_>>(), [&100], "{shares:?}");
    assert_eq!(calls(&nodes, Op::Claim), 100, "no other node claims");
}

/// Adds a job that runs every 10 s, several runs at a time, and catches up on missed instants.
fn ten(node: &Node) {
    let job = node.job("job", "*/10 * * * * *", secs(4)).misfire(Misfire::FireAll { max: 50 });
    job.overlap(Overlap::Allow { max: 50 }).on_orphan(OnOrphan::Skip).register().expect("valid job");
}

#[tokio::test(start_paused = true)]
async fn catch_up_with_on_time_runs_loses_no_instant() {
    let fleet = Fleet::new();
    for node in five(&fleet, ten) {
        sleep(Duration::from_millis(200)).await;
        node.stop().await;
    }
    sleep(secs(54)).await;
    let _nodes = five(&fleet, ten);
    sleep(Duration::from_millis(140_500)).await;
    fleet.log.assert_each_once();
    let mut instants = fleet.log.instants();
    instants.sort_unstable();
    assert_eq!(instants, every(10, 10, 190));
    let catch_ups = fleet.log.starts().iter().filter(|start| start.catch_up).count();
    assert!(catch_ups >= 4, "{catch_ups}");
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 0);
}

/// If a node cannot claim its first instant, the others leave all later ones to the leader.
#[tokio::test(start_paused = true)]
async fn nodes_that_cannot_claim_lose_no_instant() {
    let fleet = Fleet::new();
    let nodes = five(&fleet, ten);
    sleep(Duration::from_millis(105_500)).await;
    let healthy = nodes.iter().position(|node| !node.cron.is_leading()).expect("a follower");
    let others = || nodes.iter().enumerate().filter(|(number, _)| *number != healthy).map(|(_, node)| node);
    let fault = Fault::FailBefore(lock_core::backend::BackendErrorKind::Unavailable);
    others().for_each(|node| node.faulty.always(Op::Claim, fault));
    sleep(secs(100)).await;
    assert!(fleet.log.starts().len() < 20, "{:?}", fleet.log.instants());
    others().for_each(|node| node.faulty.heal());
    sleep(secs(150)).await;
    fleet.log.assert_each_once();
    let mut instants = fleet.log.instants();
    instants.sort_unstable();
    assert_eq!(instants, every(10, 10, 350));
}

#[tokio::test(start_paused = true)]
async fn no_instant_is_lost_when_a_follower_and_the_leader_die() {
    let fleet = Fleet::new();
    let nodes = five(&fleet, ten);
    sleep(Duration::from_millis(300_500)).await;
    let follower = nodes.iter().find(|node| !node.cron.is_leading()).expect("a follower");
    follower.kill();
    sleep(secs(300)).await;
    nodes.iter().find(|node| node.cron.is_leading()).expect("a leader").kill();
    sleep(secs(400)).await;
    fleet.log.assert_each_once();
    let mut instants = fleet.log.instants();
    instants.sort_unstable();
    assert_eq!(instants, every(10, 10, 1000));
    let late = |start: &crate::fleet::Start| start.at - start.run.scheduled().map_or(0, |at| at.as_millis());
    let late: Vec<_> = fleet.log.starts().iter().map(late).filter(|late| *late > 100).collect();
    assert!(late.len() <= 3 && late.iter().all(|late| *late < 11_100), "late by {late:?} ms");
}

#[tokio::test(start_paused = true)]
async fn leaving_node_claims_no_further_runs() {
    let fleet = Fleet::new();
    let mut nodes = five(&fleet, ten);
    sleep(Duration::from_millis(105_500)).await;
    for _ in 0..4 {
        nodes.remove(0).stop().await;
        sleep(secs(40)).await;
    }
    fleet.log.assert_each_once();
    let late = |start: &crate::fleet::Start| start.at - start.run.scheduled().map_or(0, |at| at.as_millis());
    let late: Vec<_> = fleet.log.starts().iter().map(late).filter(|late| *late > 100).collect();
    assert_eq!(late, [0; 0], "a graceful stop delays no run");
}

#[tokio::test(start_paused = true)]
async fn controls_apply_on_every_node() {
    let fleet = Fleet::new();
    let nodes = five(&fleet, |node| node.job("job", "* * * * * *", secs(0)).register().expect("valid job"));
    sleep(Duration::from_millis(10_500)).await;
    nodes[1].cron.pause("job").await.expect("healthy store");
    sleep(secs(20)).await;
    assert_eq!(fleet.log.instants(), every(1, 1, 10));
    nodes[2].cron.resume("job").await.expect("healthy store");
    sleep(secs(20)).await;
    assert!(fleet.log.starts().len() >= 28, "within two seconds, without a catch-up");
    nodes[3].cron.replace("job", "*/10 * * * * *").await.expect("healthy store");
    sleep(secs(60)).await;
    assert_eq!(fleet.log.instants().iter().filter(|second| **second > 51).count(), 6);
    fleet.log.assert_each_once();
}

#[tokio::test(start_paused = true)]
async fn random_faults_start_no_instant_twice() {
    let seed = Seed::of_this_run();
    let mut numbers = seed.stream();
    let fleet = Fleet::new();
    let nodes = five(&fleet, ten);
    nodes.iter().for_each(|node| node.faulty.random(numbers.number(), 0.1));
    sleep(secs(600)).await;
    fleet.lose_data();
    sleep(secs(600)).await;
    nodes.iter().for_each(|node| node.faulty.heal());
    sleep(Duration::from_millis(115_500)).await;
    fleet.log.assert_each_once();
    let mut instants = fleet.log.instants();
    instants.sort_unstable();
    assert!(instants.contains(&1_300) && instants.contains(&1_310), "the runs continue: {instants:?}");
    assert!(instants.len() > 100, "{instants:?}");
}

/// Adds a job whose bodies are counted by the referee.
fn counted(node: &Node, referee: &Referee, name: &str, schedule: &str, takes: Duration) {
    let job = node.counted(name, schedule, takes, referee);
    job.overlap(Overlap::Allow { max: 50 }).misfire(Misfire::Skip).register().expect("valid job");
}

#[tokio::test(start_paused = true)]
async fn node_never_runs_more_than_its_maximum() {
    const JOBS: u32 = 8;
    let fleet = Fleet::new();
    let referees: Vec<_> = NAMES.iter().map(|_| Referee::default()).collect();
    let mut nodes = Vec::new();
    for (name, referee) in NAMES.iter().zip(&referees) {
        let node = fleet.node_with(name, |builder| builder.max_running(2));
        for job in 0..JOBS {
            counted(&node, referee, &format!("job-{job}"), "*/10 * * * * *", secs(14));
        }
        nodes.push(node.start());
    }
    sleep(secs(200)).await;
    nodes[1].kill();
    nodes.iter().find(|node| node.cron.is_leading()).expect("a leader").kill();
    sleep(Duration::from_millis(200_500)).await;
    let most: Vec<_> = referees.iter().map(Referee::most).collect();
    assert_eq!(most, [2; 5], "every node is used");
    let mut of_instant = BTreeMap::<_, u32>::new();
    fleet.log.starts().iter().for_each(|start| *of_instant.entry(start.run).or_default() += 1);
    assert!(of_instant.values().all(|starts| *starts <= JOBS), "{of_instant:?}");
    let (starts, skipped) = (fleet.log.starts().len(), fleet.log.skipped(SkipReason::NoCapacity));
    // Ten runs at once, each holding its place for 14 s, on four nodes less one.
    assert!((180..=290).contains(&starts), "{starts} starts");
    assert!(skipped > 20, "{skipped} without room");
}

#[tokio::test(start_paused = true)]
async fn run_waits_for_room_within_its_grace() {
    let fleet = Fleet::new();
    let node = fleet.node_with("a", |builder| builder.max_running(1));
    let referee = Referee::default();
    for name in ["x", "y", "z"] {
        counted(&node, &referee, name, "* * * * *", secs(5));
    }
    let _running = node.start();
    sleep(secs(119)).await;
    assert_eq!((fleet.log.starts().len(), fleet.log.skipped(SkipReason::NoCapacity)), (3, 0));
    assert_eq!(referee.most(), 1, "one at a time");
}

#[tokio::test(start_paused = true)]
async fn run_without_room_is_skipped_after_its_grace() {
    let fleet = Fleet::new();
    let node = fleet.node_with("a", |builder| builder.max_running(1));
    node.job("long", "1 0 1 1 *", secs(3_600)).register().expect("valid job");
    node.job("job", "* * * * *", secs(1)).register().expect("valid job");
    fleet.assert_skips_during_the_first_hour(node.start()).await;
}

#[tokio::test(start_paused = true)]
async fn leadership_goes_to_a_node_with_room_for_a_trigger() {
    let fleet = Fleet::new();
    let node = |name| {
        let node = fleet.node_with(name, |builder| builder.max_running(1));
        let job = node.job("long", "1 0 1 1 *", secs(3_600)).placement(Placement::Leader);
        job.register().expect("valid job");
        node.job("job", "@yearly", secs(1)).register().expect("valid job");
        node.start()
    };
    let first = node("a");
    sleep(secs(1)).await;
    let second = node("b");
    sleep(secs(62)).await;
    assert!(first.cron.is_leading());
    first.cron.trigger("job").await.expect("healthy store");
    sleep(secs(10)).await;
    assert_eq!(fleet.log.starts().len(), 2, "the triggered run does not wait for an hour");
    assert!(second.cron.is_leading());
    sleep(secs(3_600)).await;
    assert_eq!(fleet.log.ended(lock_cron::RunOutcome::Succeeded), 2, "the other run continues");
}

#[tokio::test(start_paused = true)]
async fn full_nodes_do_not_pass_the_leadership_around() {
    let fleet = Fleet::new();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let node = fleet.node_with(name, |builder| builder.max_running(3));
        for job in 0..8 {
            node.job(&format!("job-{job}"), "*/2 * * * * *", secs(2)).register().expect("valid job");
        }
        node.job("tick", "* * * * * *", Duration::from_millis(200)).register().expect("valid job");
        nodes.push(node.start());
    }
    for step in 0..600 {
        sleep(Duration::from_millis(500)).await;
        let job = format!("job-{}", step % 8);
        nodes[0].cron.trigger(&job).await.expect("healthy store");
    }
    let leaders = fleet.log.leaders();
    // Each leader keeps the leadership for at least its lease of 10 s.
    assert!(leaders <= 31, "{leaders} leaders in 300 s");
}
