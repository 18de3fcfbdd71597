//! Instants that nobody could start: outages, leaders that change, and a store that lost its data.

use crate::fleet::{Fleet, Running, secs};
use lock_core::backend::ledger::RunOutcome;
use lock_cron::{Misfire, SkipReason};
use tokio::time::sleep;

/// A job every minute; after five of them, half an hour without a node, then two more minutes.
async fn outage(misfire: Misfire) -> (Fleet, Vec<(u64, bool)>) {
    let fleet = Fleet::new();
    let node = || async {
        let node = fleet.node("a");
        let job = node.job("job", "* * * * *", secs(1)).misfire(misfire).grace(secs(3600));
        job.register().await.expect("a healthy fleet answers");
        node.start()
    };
    let first = node().await;
    sleep(secs(5 * 60 + 30)).await;
    first.stop().await;
    assert_eq!(fleet.log.starts().len(), 5);
    sleep(secs(30 * 60)).await;
    let second = node().await;
    sleep(secs(2 * 60)).await;
    fleet.log.assert_each_once();
    let history = second.history().await;
    for (attempt, start) in history.iter().zip(fleet.log.starts()) {
        assert_eq!((attempt.run, attempt.catch_up == lock_cron::CatchUp::Yes), (start.run, start.catch_up));
    }
    let missed: u32 = history.iter().map(|attempt| attempt.missed).sum();
    assert_eq!(missed, fleet.log.skipped(SkipReason::Missed), "the history tells what was missed");
    let later = fleet.log.starts().split_off(5);
    let minutes = later.iter().map(|start| {
        (
            start
                .run
                .scheduled()
                .expect("a healthy fleet answers")
                .since(lock_core::TestClock::WALL_AT_START)
                .as_secs()
                / 60,
            start.catch_up,
        )
    });
    (fleet.clone(), minutes.collect())
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_skip_runs_none() {
    let (fleet, runs) = outage(Misfire::Skip).await;
    assert_eq!(runs, [(36, false), (37, false)]);
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 30);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_fire_once_runs_the_latest() {
    let (fleet, runs) = outage(Misfire::FireOnce).await;
    assert_eq!(runs, [(35, true), (36, false), (37, false)]);
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 29);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_fire_all_runs_the_latest_in_ascending_order_and_then_the_due_one() {
    // Each body takes a second: the rule for overlaps would skip them otherwise.
    let fleet = Fleet::new();
    let node = || async {
        let node = fleet.node("a");
        let job =
            node.job("job", "* * * * *", secs(0)).misfire(Misfire::FireAll { max: 5 }).grace(secs(3600));
        job.overlap(lock_cron::Overlap::QueueOne).register().await.unwrap();
        node.start()
    };
    node().await.stop().await;
    sleep(secs(30 * 60 + 30)).await;
    let running = node().await;
    sleep(secs(60)).await;
    let minutes: Vec<_> = fleet.log.instants().iter().map(|second| second / 60).collect();
    assert_eq!(minutes, [26, 27, 28, 29, 30, 31]);
    let flags: Vec<_> = fleet.log.starts().iter().map(|start| start.catch_up).collect();
    assert_eq!(flags, [true, true, true, true, true, false]);
    assert_eq!(Running::count(&running.history().await, RunOutcome::Succeeded), 6);
    fleet.log.assert_each_once();
}

#[tokio::test(start_paused = true)]
async fn a_new_job_never_runs_for_the_past() {
    let fleet = Fleet::new();
    sleep(secs(3600)).await;
    let node = fleet.node("a");
    let job =
        node.job("job", "* * * * *", secs(1)).misfire(Misfire::FireAll { max: 100 }).grace(secs(86_400));
    job.register().await.unwrap();
    let _running = node.start();
    sleep(secs(59)).await;
    assert_eq!(fleet.log.starts(), []);
    sleep(secs(2)).await;
    assert_eq!(fleet.log.instants(), [3660]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lost_everything_runs_nothing_twice() {
    let fleet = Fleet::new();
    let _a = fleet.simple("a", "* * * * * *", secs(0)).await;
    let _b = fleet.simple("b", "* * * * * *", secs(0)).await;
    for _ in 0..5 {
        sleep(secs(7)).await;
        fleet.memory.forget_everything();
    }
    sleep(secs(30)).await;
    fleet.log.assert_each_once();
    let last = *fleet.log.instants().last().unwrap();
    assert!(last >= 63, "it goes on: {last}");
}
