//! Overlap: what becomes of a run while others of its job are open.

use super::{
    LedgerHarness,
    contender::LONG,
    scheduler::{Desk, TWO},
};
use lock_ledger::{ClaimRequest, Claimed, KeptRun, OverlapRule, RunOutcome, Then};

/// What was skipped is decided: the next leader does not run it either, when there is room again.
pub async fn an_open_run_skips_the_next_for_good(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "skip").await;
    let first = desk.claim(1).await;
    let second = desk.instant(2);
    assert_eq!(desk.send(desk.request(second)).await, Claimed::Skipped);
    desk.end(&first, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.send(desk.request(second)).await, Claimed::Duplicate);
    assert_eq!(desk.outcomes().await, [RunOutcome::Succeeded, RunOutcome::Skipped]);
    assert_eq!(desk.claim(3).await.attempt, 1);
}

/// A skip whose reply was lost is not started by its repetition.
pub async fn a_skip_that_is_repeated_is_a_skip(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "skip-again").await;
    let first = desk.claim(1).await;
    let request = desk.request(desk.instant(2));
    for _ in 0..2 {
        assert_eq!(desk.send(request.clone()).await, Claimed::Skipped);
    }
    desk.end(&first, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.send(request).await, Claimed::Duplicate, "nor when there is room again");
    assert_eq!(desk.history().await.iter().map(|entry| entry.count).collect::<Vec<_>>(), [1, 1]);
}

/// A queued run is not claimed: whoever asks later gets it.
pub async fn a_queued_run_waits_and_decides_nothing(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "queue").await;
    let queue = |millis| ClaimRequest { overlap: OverlapRule::Queue, ..desk.request(desk.instant(millis)) };
    let first = desk.granted(queue(1)).await;
    assert_eq!(desk.send(queue(2)).await, Claimed::Busy { running: 1 });
    assert_eq!(desk.send(queue(3)).await, Claimed::Busy { running: 1 });
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Kept, "nobody tells it to end");
    desk.end(&first, RunOutcome::Succeeded, Then::Over).await;
    desk.granted(queue(2)).await;
    assert_eq!(desk.history().await.len(), 1, "waiting leaves no trace");
}

/// A run that is to be replaced hears of it when it is kept, and the next starts when it has ended.
pub async fn a_replaced_run_is_told(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "replace").await;
    let replace =
        |millis| ClaimRequest { overlap: OverlapRule::Replace, ..desk.request(desk.instant(millis)) };
    let first = desk.granted(replace(1)).await;
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Kept);
    assert_eq!(desk.send(replace(2)).await, Claimed::Busy { running: 1 });
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Replaced);
    desk.end(&first, RunOutcome::Cancelled, Then::Over).await;
    let second = desk.granted(replace(2)).await;
    assert_eq!(desk.keep(&second, LONG).await, KeptRun::Kept);
}

/// The bound holds in the same step as the claim.
pub async fn so_many_runs_are_open_and_no_more(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "allow").await;
    let allow = |millis| ClaimRequest { overlap: TWO, ..desk.request(desk.instant(millis)) };
    let first = desk.granted(allow(1)).await;
    desk.granted(allow(2)).await;
    assert_eq!(desk.send(allow(3)).await, Claimed::Skipped);
    desk.end(&first, RunOutcome::Succeeded, Then::Over).await;
    desk.granted(allow(4)).await;
    assert_eq!(desk.open().await.len(), 2);
}

/// A run whose node died does not stop a job for ever.
pub async fn an_orphan_is_in_nobodys_way(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "orphan").await;
    desk.orphan(h, 1).await;
    assert_eq!(desk.claim(2).await.attempt, 1);
}
