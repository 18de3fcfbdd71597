//! Pools: the limit on the open runs of several jobs across the fleet.

use crate::fleet::{Fleet, Node, Referee, secs};
use lock_cron::{
    CronErrorKind, JobBuilder, Misfire, OnOrphan, Overlap, Placement, Retries, RunOutcome, Schedule,
    observer::SkipReason,
};
use lock_testkit::Op;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::sleep;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn heavy(job: JobBuilder, max: u32) {
    job.pool("heavy", max).register().expect("valid job");
}

/// Returns the lateness of each start, in whole seconds, in ascending order.
fn lateness(fleet: &Fleet) -> Vec<u64> {
    let late = |start: &crate::fleet::Start| start.at - start.run.scheduled().map_or(0, |at| at.as_millis());
    let mut late: Vec<_> = fleet.log.starts().iter().map(|start| late(start) / 1_000).collect();
    late.sort_unstable();
    late
}

#[tokio::test(start_paused = true)]
async fn pool_bounds_the_runs_of_the_fleet_while_nodes_die() {
    const JOBS: u32 = 8;
    let (fleet, referee) = (Fleet::new(), Referee::default());
    let start = |name: &&str| {
        let node = fleet.node(name);
        for job in 0..JOBS {
            let job = node.counted(&format!("job-{job}"), "*/30 * * * * *", secs(8), &referee);
            heavy(job.overlap(Overlap::Allow { max: 9 }).misfire(Misfire::Skip), 3);
        }
        node.start()
    };
    let nodes: Vec<_> = NAMES.iter().map(start).collect();
    sleep(secs(304)).await;
    nodes[1].kill();
    nodes.iter().find(|node| node.cron.is_leading()).expect("a leader").kill();
    sleep(secs(300)).await;
    assert_eq!(referee.most(), 3, "the pool is fully used");
    let mut of_instant = BTreeMap::<_, u32>::new();
    fleet.log.starts().iter().for_each(|start| *of_instant.entry(start.run).or_default() += 1);
    assert!(of_instant.values().all(|starts| *starts <= JOBS), "{of_instant:?}");
    let (starts, skipped) = (fleet.log.starts().len(), fleet.log.skipped(SkipReason::NoCapacity));
    // A run finds a place for 8 s within its grace of 15 s: four or six runs of eight at each of 20 instants.
    assert!((70..=125).contains(&starts), "{starts} starts");
    assert!(skipped >= 20, "{skipped} without a place");
}

#[tokio::test(start_paused = true)]
async fn free_place_is_taken_at_once_on_its_node() {
    let (fleet, referee) = (Fleet::new(), Referee::default());
    let node = fleet.node("a");
    for name in ["x", "y", "z"] {
        heavy(node.counted(name, "* * * * *", secs(5), &referee), 1);
    }
    let _running = node.start();
    sleep(secs(119)).await;
    assert_eq!((lateness(&fleet), referee.most()), (vec![0, 5, 10], 1));
}

#[tokio::test(start_paused = true)]
async fn other_nodes_find_a_free_place_within_seconds() {
    let (fleet, referee) = (Fleet::new(), Referee::default());
    let node = |name, job| {
        let node = fleet.node(name);
        heavy(node.counted(job, "0 0 * * *", secs(1_000), &referee), 1);
        node.start()
    };
    let _nodes = [node("a", "x"), node("b", "y")];
    sleep(secs(24 * 3_600 + 3_000)).await;
    let late = lateness(&fleet);
    assert!(late[0] == 0 && (1_000..=1_006).contains(&late[1]), "{late:?}");
    assert_eq!(referee.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_waiting_runs_send_few_requests() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    heavy(node.job("first", "0 1 * * *", secs(3_000)), 1);
    for number in 0..20 {
        heavy(node.job(&format!("job-{number}"), "1 1 * * *", secs(1)), 1);
    }
    let running = node.start();
    sleep(secs(3_600 + 59)).await;
    let before = running.faulty.calls(Op::Claim);
    sleep(secs(600)).await;
    let claims = running.faulty.calls(Op::Claim) - before;
    assert!((100..=130).contains(&claims), "one every 5 s: {claims}");
    let before = running.faulty.calls(Op::Claim);
    sleep(secs(3_000)).await;
    assert_eq!(fleet.log.starts().len(), 21, "one at a time");
    let claims = running.faulty.calls(Op::Claim) - before;
    // 2,340 s of waiting, then a grant and a refusal for each run, and two more requests after back-offs.
    assert!(claims < 2_340 / 5 + 20 * 4 + 10, "{claims}");
}

#[tokio::test(start_paused = true)]
async fn run_without_a_place_is_skipped_after_its_grace() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    heavy(node.job("long", "1 0 1 1 *", secs(3_600)), 1);
    heavy(node.job("job", "* * * * *", secs(1)), 1);
    fleet.assert_skips_during_the_first_hour(node.start()).await;
}

#[tokio::test(start_paused = true)]
async fn triggered_run_waits_for_a_place() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    heavy(node.job("long", "1 0 1 1 *", secs(300)), 1);
    heavy(node.job("job", "@yearly", secs(1)), 1);
    let running = node.start();
    sleep(secs(100)).await;
    running.cron.trigger("job").await.expect("healthy store");
    sleep(secs(250)).await;
    assert_eq!(fleet.log.starts().len(), 1);
    sleep(secs(12)).await;
    assert_eq!(fleet.log.starts().len(), 2, "when the first run has ended");
}

/// A node with a job that fails once, and a job that waits for the first job's place or for that of a dead node.
fn retried(fleet: &Fleet, name: &str) -> Node {
    let node = fleet.node(name);
    let write = node.writer();
    let body = move |run: lock_cron::RunContext| {
        write(&run);
        async move {
            sleep(secs(20)).await;
            if run.attempt() == 1 { Err("once".into()) } else { Ok(()) }
        }
    };
    let once = Schedule::cron("1 0 1 1 *").expect("valid schedule");
    let retries = Retries { max: 1, initial_delay: secs(60), max_delay: secs(60) };
    heavy(node.cron.job("fails", once, body).retries(retries).placement(Placement::Leader), 1);
    let job = node.job("waits", "2 0 1 1 *", secs(600)).placement(Placement::Leader);
    heavy(job.on_orphan(OnOrphan::Retry { max: 3 }), 1);
    node
}

#[tokio::test(start_paused = true)]
async fn run_keeps_its_place_until_its_next_attempt() {
    let fleet = Fleet::new();
    let running = retried(&fleet, "a").start();
    sleep(secs(300)).await;
    let attempts: Vec<_> = fleet.log.starts().iter().map(|start| start.attempt).collect();
    assert_eq!(attempts, [1, 2, 1], "the other job waits for both attempts");
    assert_eq!(fleet.log.ended(RunOutcome::Succeeded), 1);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn run_of_a_dead_node_needs_a_place() {
    let (fleet, referee) = (Fleet::new(), Referee::default());
    let node = |name| {
        let node = fleet.node(name);
        let orphan = node.counted("orphan", "1 0 1 1 *", secs(50), &referee).placement(Placement::Leader);
        heavy(orphan.on_orphan(OnOrphan::Retry { max: 1 }), 1);
        heavy(node.counted("other", "*/2 * * * *", secs(100), &referee).placement(Placement::Leader), 1);
        node.start()
    };
    let first = node("a");
    sleep(secs(61)).await;
    assert_eq!(fleet.log.starts().len(), 1);
    let _second = node("b");
    sleep(secs(5)).await;
    first.kill();
    sleep(secs(600)).await;
    let attempts: Vec<_> = fleet.log.starts().iter().map(|start| start.attempt).collect();
    assert_eq!(attempts.iter().filter(|attempt| **attempt == 2).count(), 1, "{attempts:?}");
    assert_eq!(referee.most(), 1, "{attempts:?}");
}

#[tokio::test(start_paused = true)]
async fn invalid_pools_are_refused() {
    let node = Fleet::new().node("a");
    let job = |name: &str| node.job(name, "@daily", secs(1));
    let refused = |builder: JobBuilder, kind, words: [&str; 2]| {
        let error = builder.register().expect_err("invalid options");
        assert_eq!(error.kind(), kind, "{error}");
        for word in words.iter().chain(&["job `job`"]) {
            assert!(error.to_string().contains(word), "{word} in {error}");
        }
    };
    let (options, name) = (CronErrorKind::InvalidOptions, CronErrorKind::InvalidName);
    refused(job("job").pool("heavy", 0), options, ["pool `heavy`", "use at least 1"]);
    refused(job("job").pool("", 1), name, ["pool ``", "name is invalid"]);
    refused(job("job").pool(&"n".repeat(201), 1), name, ["pool `nnn", "at most 200"]);
    heavy(job("first"), 2);
    refused(job("job").pool("heavy", 3), options, ["pool `heavy`", "limits it to 2, but this one to 3"]);
    let kind = node.cron.kind("job", |_| async { Ok(()) });
    refused(kind.pool("heavy", 3), options, ["pool `heavy`", "use the same limit"]);
    heavy(node.cron.kind("kind", |_| async { Ok(()) }), 2);
    job("light").pool("light", 3).register().expect("another pool");
    let pools: Vec<_> =
        node.cron.list().await.expect("in-memory store").into_iter().map(|job| job.pool).collect();
    let pools: Vec<_> = pools.iter().flatten().map(|pool| (pool.name.as_str(), pool.max)).collect();
    assert_eq!(pools, [("heavy", 2), ("light", 3)]);
}

#[tokio::test(start_paused = true)]
async fn instances_share_the_pool_of_their_kind() {
    let (fleet, referee) = (Fleet::new(), Referee::default());
    let node = fleet.node("a");
    let (write, counted) = (node.writer(), referee.clone());
    let kind = node.cron.kind("import", move |run| {
        write(&run);
        let inside = counted.enter();
        async move {
            sleep(Duration::from_secs(4)).await;
            drop(inside);
            Ok(())
        }
    });
    heavy(kind, 2);
    let running = node.start();
    for tenant in 0..6 {
        let schedule = Schedule::cron("* * * * *").expect("valid schedule");
        running.cron.add("import", &tenant.to_string(), schedule, &()).await.expect("healthy store");
    }
    sleep(secs(119)).await;
    assert_eq!((referee.most(), lateness(&fleet)), (2, vec![0, 0, 4, 4, 8, 8]));
    let pool = running.cron.list().await.expect("healthy store")[0].pool.clone();
    assert_eq!(pool.map(|pool| pool.max), Some(2));
}
