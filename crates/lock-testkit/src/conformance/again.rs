//! Again: further attempts of a run, after a failure and after the death of a node.

use super::{Harness, contender::LONG, scheduler::Desk};
use lock_core::backend::ledger::{ClaimRequest, Claimed, KeptRun, OverlapRule, RunOutcome, RunState, Then};

/// It is the same run, with the next number and a higher token; later instants do not change that.
pub async fn a_failed_attempt_is_followed_by_another(h: &impl Harness) {
    let desk = Desk::new(h, "retry").await;
    let first = desk.claim(1).await;
    desk.end(&first, RunOutcome::Failed, Then::Again).await;
    let request = desk.after(&first, 2);
    let second = desk.granted(request.clone()).await;
    assert!(second.attempt == 2 && second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(desk.send(request).await, Claimed::Claimed { token: second.token, attempt: 2 });
    desk.end(&second, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.outcomes().await, [RunOutcome::Succeeded, RunOutcome::Failed]);
    assert_eq!(desk.claim(2).await.attempt, 1);
}

/// A dead node's run is run again, and remembered as abandoned; what is left of the node can keep nothing.
pub async fn an_orphan_is_followed_by_another(h: &impl Harness) {
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
pub async fn an_attempt_under_way_is_not_followed(h: &impl Harness) {
    let desk = Desk::new(h, "under-way").await;
    let first = desk.claim(1).await;
    assert_eq!(desk.send(desk.after(&first, 9)).await, Claimed::Busy { running: 1 });
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Kept);
}

/// After the last attempt, and after another than the one that is named, there is none.
pub async fn attempts_are_bounded(h: &impl Harness) {
    let desk = Desk::new(h, "bounded").await;
    let first = desk.claim(1).await;
    desk.end(&first, RunOutcome::Failed, Then::Again).await;
    assert_eq!(desk.send(desk.after(&first, 1)).await, Claimed::Gone);
    let second = desk.granted(desk.after(&first, 2)).await;
    assert_eq!(desk.send(desk.after(&first, 9)).await, Claimed::Gone, "the first was followed already");
    desk.end(&second, RunOutcome::Failed, Then::Over).await;
    assert_eq!(desk.send(desk.after(&second, 9)).await, Claimed::Gone, "the run is over");
    assert_eq!(desk.open().await, []);
}

/// A run between two attempts is not over: the next one overlaps with it.
pub async fn a_failed_run_that_waits_is_open(h: &impl Harness) {
    let desk = Desk::new(h, "waits").await;
    let first = desk.claim(1).await;
    desk.end(&first, RunOutcome::Failed, Then::Again).await;
    assert_eq!(desk.open().await[0].state, RunState::Waiting);
    assert_eq!(desk.keep(&first, LONG).await, KeptRun::Kept);
    assert_eq!(desk.send(desk.request(desk.instant(2))).await, Claimed::Skipped { running: 1 });
    desk.end(&first, RunOutcome::Cancelled, Then::Over).await;
    assert_eq!(desk.open().await, []);
    let outcomes = desk.outcomes().await;
    assert_eq!(outcomes, [RunOutcome::Skipped, RunOutcome::Failed], "giving up is no second end");
}

/// An orphan that could go on again waits for the later run that took its place.
pub async fn an_old_attempt_does_not_join_a_later_run(h: &impl Harness) {
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
