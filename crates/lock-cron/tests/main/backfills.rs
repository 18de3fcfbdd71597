//! Backfills: past instants that run on request, one at a time, even if nodes die.

use crate::fleet::{Fleet, Node, Running, secs};
use lock_core::clock::TestClock;
use lock_cron::{CronErrorKind, JobBuilder, OnOrphan, Overlap, RunId, RunOutcome, Schedule, UtcTime};
use std::{
    ops::Range,
    sync::{Arc, Mutex},
};
use tokio::time::sleep;

/// The bodies that started: the minutes from the beginning of the test to the instant, and `true` for a run of a
/// backfill.
#[derive(Debug, Clone, Default)]
struct Starts(Arc<Mutex<Vec<(i64, bool)>>>);

impl Starts {
    fn take(&self) -> Vec<(i64, bool)> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }

    /// Returns the minutes of the backfilled runs, in the order of their starts.
    fn backfilled(&self) -> Vec<i64> {
        self.take().into_iter().filter_map(|(minute, backfill)| backfill.then_some(minute)).collect()
    }
}

fn minute(minutes: i64) -> UtcTime {
    UtcTime::from_millis(TestClock::WALL_AT_START.as_millis().saturating_add_signed(minutes * 60_000))
}

/// The last hour before the tests, with three instants of [`TWENTY`].
fn last_hour() -> Range<UtcTime> {
    minute(-60)..minute(0)
}

const TWENTY: &str = "*/20 * * * *";

fn job(node: &Node, schedule: &str, starts: &Starts, takes: u64) -> JobBuilder {
    let starts = starts.clone();
    node.cron.job("job", Schedule::cron(schedule).expect("valid schedule"), move |run| {
        let minute =
            (run.scheduled_at().as_millis().cast_signed() - minute(0).as_millis().cast_signed()) / 60_000;
        starts.0.lock().expect("not poisoned").push((minute, run.is_backfill()));
        async move {
            tokio::select! {
                () = sleep(secs(takes)) => Ok(()),
                () = run.cancelled() => Err("cancelled".into()),
            }
        }
    })
}

async fn start(fleet: &Fleet, name: &str, starts: &Starts, takes: u64) -> Running {
    let node = fleet.node(name);
    let job = job(&node, TWENTY, starts, takes).on_orphan(OnOrphan::Retry { max: 3 });
    job.register().expect("valid job");
    let running = node.start();
    sleep(secs(2)).await;
    running
}

#[tokio::test(start_paused = true)]
async fn past_instants_run_in_order_beside_the_schedule() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = start(&fleet, "a", &starts, 30).await;
    let next = node.cron.next_runs("job", 1).await.expect("healthy store");
    let id = node.cron.backfill("job", last_hour(), 3).await.expect("three instants");
    assert_eq!(node.cron.next_runs("job", 1).await.expect("healthy store"), next);
    sleep(secs(45)).await;
    let open = &node.cron.backfills().await.expect("healthy store")[0];
    assert_eq!((open.id, open.count, open.done), (id, 3, 2));
    sleep(secs(100)).await;
    assert_eq!(starts.take(), [(-60, true), (-40, true), (-20, true)]);
    assert!(node.cron.backfills().await.expect("healthy store").is_empty());
    let history = node.history().await;
    assert!(history.windows(2).all(|two| two[0].ended <= two[1].started), "one at a time: {history:?}");
    let runs: Vec<_> = history.iter().map(|attempt| attempt.run).collect();
    let begin = TestClock::WALL_AT_START.as_millis();
    let of = |minutes: u64| RunId::Backfill { id, at: UtcTime::from_millis(begin - minutes * 60_000) };
    assert_eq!(runs, [of(60), of(40), of(20)]);
    sleep(secs(20 * 60)).await;
    assert_eq!(starts.take(), [(20, false)]);
}

#[tokio::test(start_paused = true)]
async fn backfill_survives_a_dead_leader_and_a_restart_of_all() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let first = start(&fleet, "a", &starts, 60).await;
    let second = start(&fleet, "b", &starts, 60).await;
    second.cron.backfill("job", last_hour(), 3).await.expect("three instants");
    sleep(secs(5)).await;
    first.kill();
    sleep(secs(60)).await;
    assert_eq!(starts.backfilled(), [-60, -60], "its node died, so it runs again");
    second.stop().await;
    sleep(secs(100)).await;
    let _third = start(&fleet, "c", &starts, 60).await;
    sleep(secs(300)).await;
    let rest = starts.backfilled();
    assert!(rest.ends_with(&[-40, -20]) && rest.is_sorted(), "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn scheduled_runs_precede_the_backfill() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    job(&node, "* * * * *", &starts, 50).overlap(Overlap::QueueOne).register().expect("valid job");
    let node = node.start();
    sleep(secs(2)).await;
    node.cron.backfill("job", minute(-10)..minute(0), 10).await.expect("ten instants");
    sleep(secs(600)).await;
    let started = starts.take();
    let live: Vec<_> = started.iter().filter(|(_, backfill)| !backfill).map(|(minute, _)| *minute).collect();
    assert_eq!(live, (1..=live.len() as i64).collect::<Vec<_>>(), "no run is lost: {started:?}");
    assert!(live.len() >= 9, "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn backfill_waits_while_its_job_is_paused() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = start(&fleet, "a", &starts, 30).await;
    node.cron.backfill("job", last_hour(), 3).await.expect("three instants");
    sleep(secs(5)).await;
    node.cron.pause("job").await.expect("healthy store");
    sleep(secs(600)).await;
    assert_eq!(starts.backfilled(), [-60], "the open run continues");
    node.cron.resume("job").await.expect("healthy store");
    sleep(secs(100)).await;
    assert_eq!(starts.backfilled(), [-40, -20]);
}

#[tokio::test(start_paused = true)]
async fn cancelled_backfill_starts_no_further_runs() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = start(&fleet, "a", &starts, 30).await;
    let other = fleet.node("b").cron;
    let id = node.cron.backfill("job", last_hour(), 3).await.expect("three instants");
    sleep(secs(5)).await;
    assert!(other.cancel_backfill(id).await.expect("healthy store"));
    assert!(!other.cancel_backfill(id).await.expect("healthy store"));
    sleep(secs(600)).await;
    assert_eq!(starts.backfilled(), [-60]);
    let outcomes: Vec<_> = node.history().await.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Succeeded], "the open run continues");
}

#[tokio::test(start_paused = true)]
async fn backfill_of_an_instance_follows_its_schedule() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    let written = starts.clone();
    let body = move |run: lock_cron::RunContext| {
        written.0.lock().expect("not poisoned").push((run.payload().unwrap(), run.is_backfill()));
        async { Ok(()) }
    };
    node.cron.kind("import", body).register().expect("valid kind");
    let node = node.start();
    sleep(secs(2)).await;
    let twenty = Schedule::cron(TWENTY).expect("valid schedule");
    node.cron.add("import", "7", twenty, &7).await.expect("healthy store");
    node.cron.backfill("import/7", last_hour(), 3).await.expect("three instants");
    sleep(secs(60)).await;
    assert_eq!(starts.take(), [(7, true); 3]);
}

#[tokio::test(start_paused = true)]
async fn ranges_out_of_bounds_are_refused() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = start(&fleet, "a", &starts, 30).await;
    let refused = async |range, limit| node.cron.backfill("job", range, limit).await.unwrap_err();
    let error = refused(last_hour(), 2).await;
    assert_eq!(error.kind(), CronErrorKind::RangeTooLong);
    assert!(error.to_string().contains("(3 runs of `job`, but the limit is 2)"), "{error}");
    for (range, limit) in [(minute(1)..minute(600), 9), (minute(0)..minute(-60), 9), (last_hour(), 10_001)] {
        assert_eq!(refused(range, limit).await.kind(), CronErrorKind::InvalidOptions);
    }
    for _ in 0..4 {
        node.cron.backfill("job", last_hour(), 3).await.expect("below the limit");
    }
    assert_eq!(refused(last_hour(), 3).await.kind(), CronErrorKind::TooManyBackfills);
    assert_eq!(
        fleet.node("b").cron.backfill("job", last_hour(), 3).await.unwrap_err().kind(),
        CronErrorKind::UnknownJob
    );
}
