//! Again: further attempts of a run, after a failure and after the death of a node.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    scheduler::Desk,
};
use lock_ledger::{ClaimRequest, Claimed, Ended, KeptRun, OverlapRule, RunOutcome, RunState, Then};

/// It is the same run, with the next number and a higher token; later instants do not change that.
pub async fn a_failed_attempt_is_followed_by_another(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "retry").await;
    let first = desk.claim(1).await;
    desk.end(&first, RunOutcome::Failed, Then::Again).await;
    let request = desk.after(&first, 2);
    let second = desk.granted(request.clone()).await;
    assert!(second.attempt == 2 && second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(desk.send(request).await, Claimed::Claimed { token: second.token, attempt: 2, failures: 1 });
    desk.end(&second, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.outcomes().await, [RunOutcome::Succeeded, RunOutcome::Failed]);
    assert_eq!(desk.claim(2).await.attempt, 1);
}

/// A dead node's run is run again, and remembered as abandoned; what is left of the node can keep nothing.
pub async fn an_orphan_is_followed_by_another(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "abandoned").await;
    let first = desk.orphan(h, 1).await;
    let states: Vec<_> = desk.open().await.iter().map(|open| (open.state, open.claim)).collect();
    assert_eq!(states, [(RunState::Orphaned, first.claim)]);
    let second = desk.granted(desk.after(&first, 3)).await;
    assert!(second.attempt == 2 && second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Gone);
    assert_eq!(desk.keep(&second, LONG).await, KeptRun::Kept);
    desk.end(&second, RunOutcome::Succeeded, Then::Over).await;
    desk.end(&first, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.outcomes().await, [RunOutcome::Succeeded, RunOutcome::Abandoned]);
}

/// Two bodies of one run at once: not as long as the first is kept.
pub async fn an_attempt_under_way_is_not_followed(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "under-way").await;
    let first = desk.claim(1).await;
    assert_eq!(desk.send(desk.after(&first, 9)).await, Claimed::Busy { running: 1 });
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Kept);
}

/// After the last attempt, and after another than the one that is named, there is none.
pub async fn attempts_are_bounded(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "bounded").await;
    let first = desk.claim(1).await;
    desk.end(&first, RunOutcome::Failed, Then::Again).await;
    assert_eq!(desk.send(desk.after(&first, 0)).await, Claimed::Gone);
    let second = desk.granted(desk.after(&first, 1)).await;
    assert_eq!(desk.send(desk.after(&first, 9)).await, Claimed::Gone, "the first was followed already");
    desk.end(&second, RunOutcome::Failed, Then::Over).await;
    assert_eq!(desk.send(desk.after(&second, 9)).await, Claimed::Gone, "the run is over");
    assert_eq!(desk.open().await, []);
}

/// A run that kills its nodes does not live on the retries for failures, nor the other way round.
pub async fn failures_and_orphanings_have_budgets_of_their_own(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "budgets").await;
    let first = desk.orphan(h, 1).await;
    assert_eq!(desk.send(desk.after_each(&first, 9, 0)).await, Claimed::Gone, "no orphaning is allowed");
    let second = desk.granted(ClaimRequest { lease: SHORT, ..desk.after_each(&first, 0, 1) }).await;
    assert_eq!((second.attempt, second.failures), (2, 0));
    h.pass(PAST_SHORT).await;
    assert_eq!(desk.send(desk.after_each(&second, 9, 1)).await, Claimed::Gone, "one is all");
    let third = desk.granted(desk.after_each(&second, 0, 2)).await;
    desk.end(&third, RunOutcome::Failed, Then::Again).await;
    assert_eq!(desk.send(desk.after_each(&third, 0, 9)).await, Claimed::Gone, "no failure is allowed");
    let fourth = desk.granted(desk.after_each(&third, 1, 0)).await;
    assert_eq!((fourth.attempt, fourth.failures), (4, 1));
}

/// An attempt that was interrupted has its record, and any node may follow it at once.
pub async fn an_attempt_that_is_handed_over_is_followed_at_once(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "hand-over").await;
    let before = desk.revision().await;
    let first = desk.claim(1).await;
    for _ in 0..2 {
        assert_eq!(desk.end(&first, RunOutcome::Cancelled, Then::HandOver).await, Ended::Recorded);
    }
    assert_eq!(desk.outcomes().await, [RunOutcome::Cancelled]);
    assert_eq!(desk.open().await[0].state, RunState::Released);
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Gone);
    assert!(desk.revision().await > before, "leaders look at once");
    assert_eq!(desk.send(desk.after_each(&first, 9, 0)).await, Claimed::Gone, "it counts as an orphaning");
    let second = desk.granted(desk.after_each(&first, 0, 1)).await;
    assert!(second.attempt == 2 && second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(desk.outcomes().await, [RunOutcome::Cancelled], "it was not abandoned");
}

/// An attempt whose body has not begun leaves no record and costs nothing, whatever the budgets.
pub async fn an_attempt_that_is_given_back_is_the_same_attempt(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "give-back").await;
    let first = desk.claim(1).await;
    assert_eq!(desk.end(&first, RunOutcome::Cancelled, Then::GiveBack).await, Ended::Recorded);
    assert_eq!(desk.open().await[0].state, RunState::Released);
    assert_eq!(desk.send(desk.request(first.run)).await, Claimed::Duplicate, "it is decided");
    let again = desk.granted(desk.after_each(&first, 0, 0)).await;
    assert!(again.attempt == 1 && again.token > first.token, "{again:?} after {first:?}");
    assert_eq!(desk.history().await, []);
    desk.end(&again, RunOutcome::Failed, Then::Again).await;
    desk.end(&again, RunOutcome::Cancelled, Then::GiveBack).await;
    assert_eq!(desk.open().await[0].state, RunState::Released);
    let retry = desk.granted(desk.after_each(&again, 1, 0)).await;
    assert_eq!((retry.attempt, retry.failures), (2, 1), "a back-off that is given back is a retry");
    assert_eq!(desk.outcomes().await, [RunOutcome::Failed]);
}

/// A run between two attempts is not over: the next one overlaps with it.
pub async fn a_failed_run_that_waits_is_open(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "waits").await;
    let first = desk.claim(1).await;
    desk.end(&first, RunOutcome::Failed, Then::Again).await;
    assert_eq!(desk.open().await[0].state, RunState::Waiting);
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Kept);
    assert_eq!(desk.send(desk.request(desk.instant(2))).await, Claimed::Skipped);
    desk.end(&first, RunOutcome::Cancelled, Then::Over).await;
    assert_eq!(desk.open().await, []);
    let outcomes = desk.outcomes().await;
    assert_eq!(outcomes, [RunOutcome::Skipped, RunOutcome::Failed], "giving up is no second end");
}

/// An orphan that could go on again waits for the later run that took its place.
pub async fn an_old_attempt_does_not_join_a_later_run(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "old").await;
    let old = desk.orphan(h, 1).await;
    let later = desk.claim(2).await;
    for overlap in [OverlapRule::Skip, OverlapRule::Queue, OverlapRule::Replace] {
        let request = ClaimRequest { overlap, ..desk.after(&old, 2) };
        assert_eq!(desk.send(request).await, Claimed::Busy { running: 1 });
    }
    assert_eq!(desk.keep(&later, LONG).await, KeptRun::Kept, "and it is not replaced");
    desk.end(&later, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.granted(desk.after(&old, 2)).await.attempt, 2);
}
