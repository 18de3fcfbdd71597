//! Instants that could not be started: outages, leader changes, and a store that lost its data.

use crate::fleet::{Fleet, Running, Start, secs};
use lock_cron::{Misfire, Overlap, Schedule, observer::SkipReason};
use lock_ledger::RunOutcome;
use lock_testkit::{Fault, Op};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::sleep};

/// Stops a node after half a second, which is enough to become leader and to register the jobs.
async fn led_and_stopped(running: Running) {
    sleep(Duration::from_millis(500)).await;
    running.stop().await;
}

/// Runs a job every minute: after five runs, half an hour without a node, then two more minutes.
async fn outage(misfire: Misfire) -> (Fleet, Vec<(u64, bool)>) {
    let fleet = Fleet::new();
    let node = || async {
        let node = fleet.node("a");
        let job = node.job("job", "* * * * *", secs(1)).misfire(misfire).grace(secs(20));
        job.register().expect("healthy store");
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
    let runs = history.iter().filter(|entry| entry.outcome != RunOutcome::Skipped);
    for (attempt, start) in runs.zip(fleet.log.starts()) {
        assert_eq!((attempt.run, attempt.catch_up == lock_cron::CatchUp::Yes), (start.run, start.catch_up));
    }
    let missed = |entry: &&lock_cron::Attempt| entry.detail == "missed";
    let missed: u32 = history.iter().filter(missed).map(|row| row.count).sum();
    assert_eq!(missed, fleet.log.skipped(SkipReason::Missed), "the history has the missed instants");
    let later = fleet.log.starts().split_off(5);
    let minutes = later.iter().map(|start| {
        (
            start
                .run
                .scheduled()
                .expect("healthy store")
                .since(lock_core::clock::TestClock::WALL_AT_START)
                .as_secs()
                / 60,
            start.catch_up,
        )
    });
    (fleet.clone(), minutes.collect())
}

#[tokio::test(start_paused = true)]
async fn skip_runs_no_missed_instant() {
    let (fleet, runs) = outage(Misfire::Skip).await;
    assert_eq!(runs, [(36, false), (37, false)]);
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 30);
}

#[tokio::test(start_paused = true)]
async fn fire_once_runs_the_latest_missed_instant() {
    let (fleet, runs) = outage(Misfire::FireOnce).await;
    assert_eq!(runs, [(35, true), (36, false), (37, false)]);
    assert_eq!(fleet.log.skipped(SkipReason::Missed), 29);
}

#[tokio::test(start_paused = true)]
async fn fire_all_runs_the_latest_in_order_with_each_overlap() {
    for (overlap, open) in [
        (Overlap::Skip, 1),
        (Overlap::QueueOne, 1),
        (Overlap::CancelPrevious, 1),
        (Overlap::Allow { max: 2 }, 2),
    ] {
        let fleet = Fleet::new();
        let node = || async {
            let node = fleet.node("a");
            let job = node.job("job", "* * * * *", secs(10)).misfire(Misfire::FireAll { max: 5 });
            job.grace(secs(20)).overlap(overlap).register().unwrap();
            node.start()
        };
        led_and_stopped(node().await).await;
        sleep(secs(30 * 60 + 30) - Duration::from_millis(500)).await;
        let running = node().await;
        sleep(secs(160)).await;
        let starts = fleet.log.starts();
        let minutes: Vec<_> = fleet.log.instants().iter().map(|second| second / 60).collect();
        assert_eq!(minutes, [26, 27, 28, 29, 30, 31, 32, 33], "{overlap:?}");
        let flags: Vec<_> = starts.iter().map(|start| start.catch_up).collect();
        assert_eq!(flags, [true, true, true, true, true, false, false, false], "{overlap:?}");
        let waits = |runs: &[Start]| runs[open].at >= runs[0].at + 10_000;
        assert!(starts[..6].windows(open + 1).all(waits), "{open} at a time");
        assert_eq!(Running::count(&running.history().await, RunOutcome::Succeeded), 7, "{overlap:?}");
        fleet.log.assert_each_once();
    }
}

/// Runs a job that is due daily at 12:00, on a node that returns after `hour` hours without one.
async fn back_at(hour: u64, misfire: Misfire) -> Vec<bool> {
    let fleet = Fleet::new();
    let node = || async {
        let node = fleet.node("a");
        let job = node.job("job", "0 12 * * *", secs(1)).misfire(misfire);
        job.register().expect("healthy store");
        node.start()
    };
    led_and_stopped(node().await).await;
    sleep(secs(hour * 3600)).await;
    let _running = node().await;
    sleep(secs(60)).await;
    fleet.log.starts().iter().map(|start| start.catch_up).collect()
}

#[tokio::test(start_paused = true)]
async fn daily_job_is_late_for_half_a_day_then_missed() {
    for misfire in [Misfire::Skip, Misfire::FireOnce, Misfire::FireAll { max: 5 }] {
        assert_eq!(back_at(12 + 11, misfire).await, [false], "{misfire:?}");
    }
    assert_eq!(back_at(12 + 13, Misfire::Skip).await, [false; 0]);
    assert_eq!(back_at(12 + 13, Misfire::FireOnce).await, [true]);
}

#[tokio::test(start_paused = true)]
async fn outage_within_the_grace_loses_no_run() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("job", "* * * * *", secs(0)).misfire(Misfire::Skip).register().unwrap();
    let running = node.start();
    sleep(secs(59)).await;
    running.faulty.always(Op::Claim, Fault::FailBefore(lock_core::backend::BackendErrorKind::Unavailable));
    sleep(secs(10)).await;
    running.faulty.heal();
    sleep(secs(2)).await;
    assert_eq!((fleet.log.instants(), fleet.log.skipped(SkipReason::Missed)), (vec![60], 0));
}

/// 500 jobs that run every minute, and one that runs every second and has the last name, after a week without a node.
/// The scheduler receives its signal when the job that runs every second has started.
#[tokio::test(start_paused = true)]
async fn look_back_delays_neither_on_time_runs_nor_shutdown() {
    const JOBS: usize = 500;
    let (fleet, started) = (Fleet::new(), Arc::new(Notify::new()));
    let node = || async {
        let node = fleet.node("a");
        for number in 0..JOBS {
            let name = format!("minute-{number:04}");
            let job = node.job(&name, "* * * * *", secs(0)).grace(secs(60));
            job.register().expect("healthy store");
        }
        let (tell, every_second) = (started.clone(), Schedule::cron("* * * * * *").expect("valid schedule"));
        let job = node.cron.job("second", every_second, move |_| {
            tell.notify_one();
            async { Ok(()) }
        });
        job.register().expect("healthy store");
        node.start()
    };
    led_and_stopped(node().await).await;
    sleep(secs(7 * 86_400) - secs(1)).await;
    let running = node().await;
    started.notified().await;
    running.stop().await;
    let starts = fleet.log.starts().len();
    assert!(starts < JOBS / 2, "{starts} runs started before the shutdown");
}

#[tokio::test(start_paused = true)]
async fn new_job_never_runs_past_instants() {
    let fleet = Fleet::new();
    sleep(secs(3600)).await;
    let node = fleet.node("a");
    let job =
        node.job("job", "* * * * *", secs(1)).misfire(Misfire::FireAll { max: 100 }).grace(secs(86_400));
    job.register().unwrap();
    let _running = node.start();
    sleep(secs(59)).await;
    assert_eq!(fleet.log.starts(), []);
    sleep(secs(2)).await;
    assert_eq!(fleet.log.instants(), [3660]);
}

#[tokio::test(start_paused = true)]
async fn loss_of_all_data_starts_nothing_twice() {
    let fleet = Fleet::new();
    let _a = fleet.simple("a", "* * * * * *", secs(0)).await;
    let _b = fleet.simple("b", "* * * * * *", secs(0)).await;
    for _ in 0..5 {
        sleep(secs(7)).await;
        fleet.lose_data();
    }
    sleep(secs(30)).await;
    fleet.log.assert_each_once();
    let last = *fleet.log.instants().last().unwrap();
    assert!(last >= 63, "the runs continue: {last}");
}

#[tokio::test(start_paused = true)]
async fn delayed_claim_starts_nothing_after_the_grace() {
    for (misfire, runs, missed) in [(Misfire::Skip, vec![], 1), (Misfire::FireOnce, vec![(60, true)], 0)] {
        for fault in [Fault::LoseRequest, Fault::Hang, Fault::Late(secs(7))] {
            let fleet = Fleet::new();
            let node = fleet.node("a");
            node.job("job", "* * * * *", secs(0)).misfire(misfire).grace(secs(5)).register().unwrap();
            let running = node.start();
            sleep(secs(59)).await;
            running.faulty.always(Op::Claim, fault);
            sleep(secs(12)).await;
            assert_eq!(fleet.log.starts(), [], "{misfire:?}, {fault:?}");
            running.faulty.always(Op::Claim, Fault::None);
            sleep(secs(40)).await;
            let starts: Vec<_> = fleet.log.starts().iter().map(|start| start.catch_up).collect();
            let starts: Vec<_> = fleet.log.instants().into_iter().zip(starts).collect();
            assert_eq!(starts, runs, "{misfire:?}, {fault:?}");
            assert_eq!(fleet.log.skipped(SkipReason::Missed), missed, "{misfire:?}, {fault:?}");
        }
    }
}
