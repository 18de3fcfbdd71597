//! Deployments: changed schedules, jobs that are added and removed, and shutdowns that lose nothing.

use crate::fleet::{Fleet, Node, Running, secs};
use lock_cron::{Jitter, Misfire, OnOrphan, Overlap, Placement, Retries, Schedule, observer::SkipReason};
use lock_ledger::RunOutcome;
use lock_testkit::{Fault, Op};
use std::time::Duration;

use tokio::time::sleep;

const HOUR: u64 = 3600;

fn with(node: &Node, schedule: &str) {
    let job = node.job("job", schedule, secs(1)).misfire(Misfire::FireAll { max: 100 });
    job.grace(secs(24 * HOUR)).register().expect("valid job");
}

fn node(fleet: &Fleet, name: &str, schedule: &str) -> Running {
    let node = fleet.node(name);
    with(&node, schedule);
    node.start()
}

#[tokio::test(start_paused = true)]
async fn changed_schedule_never_runs_past_instants() {
    let fleet = Fleet::new();
    let before = node(&fleet, "a", "0 2 * * *");
    sleep(secs(9 * HOUR)).await;
    before.stop().await;
    sleep(secs(300)).await;
    assert_eq!(fleet.log.instants(), [2 * HOUR]);
    let after = node(&fleet, "b", "0 9 * * *");
    sleep(secs(HOUR)).await;
    assert_eq!(fleet.log.instants(), [2 * HOUR], "9 o'clock was before the deployment");
    after.stop().await;
    let often = node(&fleet, "c", "*/5 * * * *");
    sleep(secs(610)).await;
    assert_eq!(fleet.log.starts().len(), 3, "from the deployment on: {:?}", fleet.log.instants());
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 0, "nothing was missed");
    often.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changed_zone_never_runs_past_instants() {
    let fleet = Fleet::new();
    let before = node(&fleet, "a", "CRON_TZ=America/New_York 0 2 * * *");
    sleep(secs(3 * HOUR)).await;
    before.stop().await;
    let _after = node(&fleet, "b", "CRON_TZ=UTC 0 2 * * *");
    sleep(secs(HOUR)).await;
    assert_eq!(fleet.log.instants(), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn rolling_deployment_keeps_the_start_of_each_schedule() {
    let fleet = Fleet::new();
    let old = node(&fleet, "a", "*/10 * * * *");
    sleep(secs(1_300)).await;
    let new = node(&fleet, "b", "*/15 * * * *");
    sleep(secs(600)).await;
    old.stop().await;
    sleep(secs(1_200)).await;
    assert_eq!(fleet.log.instants(), [600, 1_200, 1_800, 2_700]);
    new.stop().await;
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 0);
}

#[tokio::test(start_paused = true)]
async fn returning_job_catches_up_only_after_an_outage_of_all() {
    for gone in [true, false] {
        let fleet = Fleet::new();
        let first = node(&fleet, "a", "0 12 * * *");
        sleep(secs(60)).await;
        first.stop().await;
        let other = fleet.node("b");
        other.job("other", "0 0 1 1 *", secs(0)).register().expect("valid job");
        let other = gone.then(|| other.start());
        sleep(secs(13 * HOUR)).await;
        let _back = node(&fleet, "c", "0 12 * * *");
        sleep(secs(60)).await;
        let expected = if gone { vec![] } else { vec![12 * HOUR] };
        assert_eq!(fleet.log.instants(), expected, "another node led in between: {gone}");
        drop(other);
    }
}

/// Starts a job on two nodes. The first is the leader, which runs the jobs of these tests.
async fn pair(fleet: &Fleet, describe: impl Fn(&Node)) -> (Running, Running) {
    let start = |name| {
        let node = fleet.node(name);
        describe(&node);
        node.start()
    };
    let first = start("a");
    sleep(secs(1)).await;
    (first, start("b"))
}

#[tokio::test(start_paused = true)]
async fn body_cancelled_by_a_shutdown_restarts_elsewhere_at_once() {
    for (on_orphan, starts) in [(OnOrphan::Retry { max: 1 }, 2), (OnOrphan::Skip, 1)] {
        let fleet = Fleet::new();
        let describe = |node: &Node| {
            let job = node.job("job", "1 0 1 1 *", secs(100)).placement(Placement::Leader);
            job.on_orphan(on_orphan).register().expect("valid job");
        };
        let (first, second) = pair(&fleet, describe).await;
        sleep(secs(70)).await;
        first.stop().await;
        sleep(secs(2)).await;
        assert_eq!(fleet.log.starts().len(), starts, "within two seconds: {on_orphan:?}");
        sleep(secs(120)).await;
        let outcomes: Vec<_> = second.history().await.iter().map(|a| (a.attempt, a.outcome)).collect();
        let mut expected = vec![(1, RunOutcome::Cancelled), (2, RunOutcome::Succeeded)];
        expected.truncate(starts);
        assert_eq!(outcomes, expected, "{on_orphan:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_requeues_a_run_during_its_jitter() {
    let fleet = Fleet::new();
    let describe = |node: &Node| {
        let job = node.job("job", "1 0 1 1 *", secs(1)).jitter(Jitter::Random(secs(HOUR)));
        job.placement(Placement::Leader).register().expect("valid job");
    };
    let (first, second) = pair(&fleet, describe).await;
    sleep(secs(60)).await;
    assert_eq!(fleet.log.starts(), [], "still in its jitter");
    tokio::time::timeout(secs(1), first.stop()).await.expect("the jitter does not delay the shutdown");
    sleep(secs(HOUR + 10)).await;
    let starts = fleet.log.starts();
    assert_eq!((starts.len(), starts[0].attempt), (1, 1), "{starts:?}");
    let history = second.history().await;
    assert_eq!((history.len(), history[0].outcome), (1, RunOutcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn shutdown_requeues_a_run_during_its_back_off() {
    let fleet = Fleet::new();
    let describe = |node: &Node| {
        let write = node.writer();
        let body = move |run: lock_cron::RunContext| {
            write(&run);
            async move { if run.attempt() < 3 { Err("not yet".into()) } else { Ok(()) } }
        };
        let schedule = Schedule::cron("1 0 1 1 *").expect("valid schedule");
        let wait = secs(60);
        let job = node.cron.job("job", schedule, body).placement(Placement::Leader);
        job.retries(Retries { max: 5, initial_delay: wait, max_delay: wait }).register().expect("valid job");
    };
    let (first, second) = pair(&fleet, describe).await;
    sleep(secs(62)).await;
    tokio::time::timeout(secs(1), first.stop()).await.expect("the back-off does not delay the shutdown");
    sleep(secs(120)).await;
    let outcomes: Vec<_> = second.history().await.iter().map(|a| (a.attempt, a.outcome)).collect();
    let (failed, succeeded) = (RunOutcome::Failed, RunOutcome::Succeeded);
    assert_eq!(outcomes, [(1, failed), (2, failed), (3, succeeded)]);
    assert_eq!(fleet.log.orphans(), 0, "a planned hand-over is not an orphan");
}

#[tokio::test(start_paused = true)]
async fn rolling_restarts_use_up_no_attempts() {
    let fleet = Fleet::new();
    let start = |name: &str| {
        let node = fleet.node(name);
        let write = node.writer();
        let body = move |run: lock_cron::RunContext| {
            write(&run);
            async { Err("the database is down".into()) }
        };
        let job = node.cron.job("job", Schedule::cron("1 0 1 1 *").expect("valid schedule"), body);
        let wait = secs(60);
        job.retries(Retries { max: 5, initial_delay: wait, max_delay: wait }).register().expect("valid job");
        node.start()
    };
    let mut running = start("0");
    sleep(secs(65)).await;
    for name in ["1", "2", "3", "4"] {
        let next = start(name);
        sleep(secs(1)).await;
        running.stop().await;
        running = next;
        sleep(secs(3)).await;
    }
    assert_eq!(fleet.log.starts().len(), 1, "the back-off lasts longer than the restarts");
    sleep(secs(60)).await;
    let starts = fleet.log.starts();
    let [first, second] = &starts[..] else { panic!("expected two attempts: {starts:?}") };
    assert_eq!((first.attempt, second.attempt), (1, 2));
    let waited = second.at - first.at;
    assert!((45_000..63_000).contains(&waited), "the back-off of 45 to 60 s lasted {waited} ms");
}

#[tokio::test(start_paused = true)]
async fn back_off_of_a_dead_node_continues_elsewhere() {
    let fleet = Fleet::new();
    let describe = |node: &Node| {
        let write = node.writer();
        let body = move |run: lock_cron::RunContext| {
            write(&run);
            async move { if run.attempt() < 2 { Err("not yet".into()) } else { Ok(()) } }
        };
        let schedule = Schedule::cron("1 0 1 1 *").expect("valid schedule");
        let wait = secs(600);
        let job = node.cron.job("job", schedule, body).placement(Placement::Leader);
        job.retries(Retries { max: 1, initial_delay: wait, max_delay: wait }).register().expect("valid job");
    };
    let (first, second) = pair(&fleet, describe).await;
    sleep(secs(62)).await;
    first.kill();
    sleep(secs(60)).await;
    let outcomes: Vec<_> = second.history().await.iter().map(|a| (a.attempt, a.outcome)).collect();
    assert_eq!(outcomes, [(1, RunOutcome::Failed), (2, RunOutcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn missed_instant_is_counted_once_across_leaders() {
    let fleet = Fleet::new();
    let describe = |node: &Node| {
        let job = node.job("job", "0 12 * * *", secs(1)).misfire(Misfire::Skip).grace(secs(60));
        job.register().expect("valid job");
    };
    let (first, second) = pair(&fleet, describe).await;
    sleep(secs(60)).await;
    first.stop().await;
    second.stop().await;
    sleep(secs(13 * HOUR)).await;
    for name in ["c", "d", "e", "f"] {
        let node = fleet.node(name);
        describe(&node);
        let running = node.start();
        sleep(secs(10)).await;
        let rows: Vec<_> = running.history().await.iter().map(|row| (row.outcome, row.count)).collect();
        assert_eq!(rows, [(RunOutcome::Skipped, 1)], "recorded in the history");
        running.stop().await;
    }
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 1);
}

#[tokio::test(start_paused = true)]
async fn different_schedules_have_separate_leaders() {
    let fleet = Fleet::new();
    let _even = node(&fleet, "a", "*/2 * * * *");
    sleep(secs(1)).await;
    let _odd = node(&fleet, "b", "1-59/2 * * * *");
    sleep(secs(HOUR)).await;
    assert_eq!(fleet.log.leaders(), 2, "one election each");
    fleet.log.assert_each_once();
    assert!(fleet.log.starts().len() >= 58, "{:?}", fleet.log.instants());
}

#[tokio::test(start_paused = true)]
async fn poison_pill_is_retried_only_as_often_as_allowed() {
    let fleet = Fleet::new();
    let mut nodes: Vec<Running> = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        let node = fleet.node(name);
        let job = node.job("job", "1 0 1 1 *", secs(HOUR)).retries(Retries::times(3));
        let job = job.on_orphan(OnOrphan::Retry { max: 1 }).overlap(Overlap::Skip);
        job.placement(Placement::Leader).register().expect("valid job");
        nodes.push(node.start());
        sleep(Duration::from_millis(100)).await;
    }
    sleep(secs(60)).await;
    for dead in nodes.iter().take(4) {
        dead.kill();
        sleep(secs(60)).await;
    }
    assert_eq!(fleet.log.starts().len(), 2, "{:?}", fleet.log.starts());
}

#[tokio::test(start_paused = true)]
async fn shutdown_takes_below_30_s_while_the_store_is_down() {
    for (fault, name) in [(Fault::Hang, "hang"), (Fault::LoseRequest, "lost")] {
        let fleet = Fleet::new();
        let running = fleet.simple("a", "1 0 1 1 *", secs(100)).await;
        sleep(secs(65)).await;
        running.faulty.always_all(fault);
        let begin = tokio::time::Instant::now();
        running.stop().await;
        let took = begin.elapsed();
        assert!(took <= secs(30), "{name}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn outage_of_all_is_caught_up_in_each_registry() {
    let fleet = Fleet::new();
    let start = |name: &str, job: &str| {
        let node = fleet.node(name);
        let job = node.job(job, "0 12 * * *", secs(1)).misfire(Misfire::FireOnce);
        job.register().expect("valid job");
        node.start()
    };
    let (first, second) = (start("a", "one"), start("b", "two"));
    sleep(secs(60)).await;
    first.stop().await;
    second.stop().await;
    sleep(secs(13 * 3600)).await;
    let _first = start("a", "one");
    sleep(secs(1)).await;
    let _second = start("b", "two");
    sleep(secs(60)).await;
    assert_eq!(fleet.log.instants(), [12 * 3600, 12 * 3600]);
}

#[tokio::test(start_paused = true)]
async fn outage_is_caught_up_by_the_replaced_schedule() {
    for slow in [false, true] {
        let fleet = Fleet::new();
        let first = fleet.simple("a", "0 0 1 1 *", secs(1)).await;
        sleep(secs(60)).await;
        first.cron.replace("job", "0 12 * * *").await.expect("healthy store");
        sleep(secs(60)).await;
        first.stop().await;
        sleep(secs(13 * 3600)).await;
        let node = fleet.node("b");
        node.job("job", "0 0 1 1 *", secs(1)).register().expect("valid job");
        if slow {
            node.faulty.next(Op::Heartbeat, Fault::LoseRequest);
        }
        let _back = node.start();
        sleep(secs(60)).await;
        assert_eq!(fleet.log.instants(), [12 * 3600], "slow commands: {slow}");
    }
}
