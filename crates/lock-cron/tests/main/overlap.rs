//! A job that takes longer than its period: the documented counts, and two concurrent leaders.

use crate::fleet::{Fleet, Running, secs};
use lock_cron::{Overlap, observer::SkipReason};
use lock_ledger::RunOutcome;
use std::time::Duration;
use tokio::time::sleep;

/// Runs a job every second for a minute. It takes almost 3 s, so that it does not end at an instant.
async fn minute(overlap: Overlap) -> (Fleet, Running) {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let takes = Duration::from_millis(2_950);
    node.job("job", "* * * * * *", takes).overlap(overlap).register().expect("healthy store");
    let running = node.start();
    sleep(Duration::from_millis(60_500)).await;
    fleet.log.assert_each_once();
    (fleet, running)
}

#[tokio::test(start_paused = true)]
async fn skip_runs_every_third_and_records_the_skips() {
    let (fleet, running) = minute(Overlap::Skip).await;
    let instants = fleet.log.instants();
    assert_eq!(instants, (1..=60).step_by(3).collect::<Vec<_>>());
    assert_eq!(fleet.log.skipped(SkipReason::Overlap), 40);
    let history = running.history().await;
    assert_eq!(Running::count(&history, RunOutcome::Skipped), 20, "two after each run, in one entry");
    assert_eq!(Running::skipped(&history, "other runs were open"), 40);
    assert_eq!(Running::count(&history, RunOutcome::Succeeded), 19, "one more is running");
}

#[tokio::test(start_paused = true)]
async fn queue_one_runs_back_to_back_and_keeps_the_latest() {
    let (fleet, running) = minute(Overlap::QueueOne).await;
    let starts = fleet.log.starts();
    // Back to back: each run starts when the previous one has ended.
    for pair in starts.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!((2_950..3_100).contains(&gap), "{pair:?}");
    }
    assert!((20..=21).contains(&starts.len()), "{}", starts.len());
    let queue = fleet.log.skipped(SkipReason::Queue);
    assert!((37..=40).contains(&queue), "{queue}");
    assert_eq!(fleet.log.skipped(SkipReason::Overlap), 0);
    assert_eq!(Running::skipped(&running.history().await, "a later run took its place"), queue);
}

#[tokio::test(start_paused = true)]
async fn cancel_previous_starts_each_and_ends_the_previous_one() {
    let (fleet, running) = minute(Overlap::CancelPrevious).await;
    assert_eq!(fleet.log.instants(), (1..=60).collect::<Vec<_>>());
    let history = running.history().await;
    assert_eq!(Running::count(&history, RunOutcome::Cancelled), 59);
    assert!(history.iter().all(|attempt| attempt.detail == "a later run replaced it"), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn allow_runs_up_to_max_and_skips_the_others() {
    let (fleet, running) = minute(Overlap::Allow { max: 2 }).await;
    // Two of every three start.
    assert_eq!(fleet.log.starts().len(), 40);
    assert_eq!(fleet.log.skipped(SkipReason::Overlap), 20);
    assert_eq!(Running::skipped(&running.history().await, "other runs were open"), 20);
}

/// Runs two concurrent leaders: both nodes have this job, and each has one of its own.
async fn two_leaders(overlap: Overlap, instants: u64) {
    let fleet = Fleet::new();
    let mut running = Vec::new();
    for name in ["a", "b"] {
        let node = fleet.node(name);
        node.job("job", "* * * * * *", secs(0)).overlap(overlap).register().expect("healthy store");
        node.job(name, "0 0 1 1 *", secs(0)).register().expect("healthy store");
        running.push(node.start());
    }
    sleep(Duration::from_millis(300)).await;
    assert!(running.iter().all(|node| node.cron.is_leading()), "both lead");
    sleep(secs(instants)).await;
    fleet.log.assert_each_once();
    assert_eq!(fleet.log.instants(), (1..=instants).collect::<Vec<_>>(), "no instant is lost");
}

#[tokio::test(start_paused = true)]
async fn two_leaders_start_each_instant_once_with_skip() {
    two_leaders(Overlap::Skip, 1_000).await;
}

#[tokio::test(start_paused = true)]
async fn two_leaders_start_each_instant_once_with_queue_one() {
    two_leaders(Overlap::QueueOne, 1_000).await;
}

#[tokio::test(start_paused = true)]
async fn two_leaders_start_each_instant_once_with_cancel_previous() {
    two_leaders(Overlap::CancelPrevious, 1_000).await;
}

#[tokio::test(start_paused = true)]
async fn two_leaders_start_each_instant_once_with_allow() {
    two_leaders(Overlap::Allow { max: 3 }, 1_000).await;
}
