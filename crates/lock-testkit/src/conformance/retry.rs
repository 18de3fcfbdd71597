//! Retry properties: a run's further attempts after a failure or after its node has died.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::LedgerFixture,
};
use lock_ledger::{
    AfterAttempt, ClaimReply, ClaimRequest, EndReply, FleetControls, MAX_DECLINES, OverlapRule, RunOutcome,
    RunRenewal, RunState,
};

/// A retry belongs to the same run, with the next attempt number and a higher token, even after
/// later scheduled times.
pub async fn a_failed_attempt_is_followed_by_another(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "retry").await;
    let first = ledger.claim(1).await;
    ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
    let request = ledger.after(&first, 2);
    let second = ledger.granted(request.clone()).await;
    assert!(second.attempt == 2 && second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(
        ledger.send(request).await,
        ClaimReply::Claimed { token: second.token, attempt: 2, failures: 1, payload: None }
    );
    ledger.end(&second, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.outcomes().await, [RunOutcome::Succeeded, RunOutcome::Failed]);
    assert_eq!(ledger.claim(2).await.attempt, 1);
}

/// A dead node's run is recorded as abandoned and restarted. The old attempt cannot be renewed.
pub async fn an_orphan_is_followed_by_another(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "abandoned").await;
    let first = ledger.orphan(h, 1).await;
    let states: Vec<_> = ledger.open_runs().await.iter().map(|open| (open.state, open.claim)).collect();
    assert_eq!(states, [(RunState::Orphaned, first.claim)]);
    let second = ledger.granted(ledger.after(&first, 3)).await;
    assert!(second.attempt == 2 && second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Gone);
    assert_eq!(ledger.renew(&second, LONG).await, RunRenewal::Renewed);
    ledger.end(&second, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    ledger.end(&first, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.outcomes().await, [RunOutcome::Succeeded, RunOutcome::Abandoned]);
}

/// An attempt that is being renewed cannot be retried.
pub async fn an_attempt_under_way_is_not_followed(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "under-way").await;
    let first = ledger.claim(1).await;
    assert_eq!(ledger.send(ledger.after(&first, 9)).await, ClaimReply::Busy { running: 1 });
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Renewed);
}

/// A retry is refused after the last allowed attempt, or if it names an attempt other than the
/// latest.
pub async fn attempts_are_bounded(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "bounded").await;
    let first = ledger.claim(1).await;
    ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
    assert_eq!(ledger.send(ledger.after(&first, 0)).await, ClaimReply::Gone);
    let second = ledger.granted(ledger.after(&first, 1)).await;
    assert_eq!(
        ledger.send(ledger.after(&first, 9)).await,
        ClaimReply::Gone,
        "the first attempt was already retried"
    );
    ledger.end(&second, RunOutcome::Failed, AfterAttempt::Finish).await;
    assert_eq!(ledger.send(ledger.after(&second, 9)).await, ClaimReply::Gone, "the run has ended");
    assert_eq!(ledger.open_runs().await, []);
}

/// Orphaned attempts do not use the retry budget for failures, and failures do not use the budget
/// for orphaned attempts.
pub async fn failures_and_orphanings_have_separate_budgets(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "budgets").await;
    let first = ledger.orphan(h, 1).await;
    assert_eq!(
        ledger.send(ledger.after_each(&first, 9, 0)).await,
        ClaimReply::Gone,
        "the budget allows no orphaned attempt"
    );
    let second = ledger.granted(ClaimRequest { lease: SHORT, ..ledger.after_each(&first, 0, 1) }).await;
    assert_eq!((second.attempt, second.failures), (2, 0));
    h.pass(PAST_SHORT).await;
    assert_eq!(
        ledger.send(ledger.after_each(&second, 9, 1)).await,
        ClaimReply::Gone,
        "the budget allows one retry"
    );
    let third = ledger.granted(ledger.after_each(&second, 0, 2)).await;
    ledger.end(&third, RunOutcome::Failed, AfterAttempt::Retry).await;
    assert_eq!(
        ledger.send(ledger.after_each(&third, 0, 9)).await,
        ClaimReply::Gone,
        "the budget allows no failure"
    );
    let fourth = ledger.granted(ledger.after_each(&third, 1, 0)).await;
    assert_eq!((fourth.attempt, fourth.failures), (4, 1));
}

/// An interrupted attempt is recorded, and any node can retry it immediately.
pub async fn a_reassigned_attempt_is_followed_at_once(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "reassign").await;
    let before = ledger.revision().await;
    let first = ledger.claim(1).await;
    for _ in 0..2 {
        assert_eq!(
            ledger.end(&first, RunOutcome::Cancelled, AfterAttempt::Reassign).await,
            EndReply::Recorded
        );
    }
    assert_eq!(ledger.outcomes().await, [RunOutcome::Cancelled]);
    assert_eq!(ledger.open_runs().await[0].state, RunState::Released);
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Gone);
    assert!(ledger.revision().await > before.max(ledger.begin.as_millis()), "the revision must change");
    assert_eq!(
        ledger.send(ledger.after_each(&first, 9, 0)).await,
        ClaimReply::Gone,
        "the interrupted attempt must count as orphaned"
    );
    let second = ledger.granted(ledger.after_each(&first, 0, 1)).await;
    assert!(second.attempt == 2 && second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(ledger.outcomes().await, [RunOutcome::Cancelled], "the attempt must not count as abandoned");
}

/// An attempt whose body has not started leaves no record and uses no budget.
pub async fn a_requeued_attempt_is_the_same_attempt(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "requeue").await;
    let first = ledger.claim(1).await;
    assert_eq!(ledger.end(&first, RunOutcome::Cancelled, AfterAttempt::Requeue).await, EndReply::Recorded);
    assert_eq!(ledger.open_runs().await[0].state, RunState::Released);
    assert_eq!(
        ledger.send(ledger.request(first.run)).await,
        ClaimReply::Duplicate,
        "the scheduled time must be decided"
    );
    let again = ledger.granted(ledger.after_each(&first, 0, 0)).await;
    assert!(again.attempt == 1 && again.token > first.token, "{again:?} after {first:?}");
    assert_eq!(ledger.history().await, []);
    ledger.end(&again, RunOutcome::Failed, AfterAttempt::Retry).await;
    ledger.end(&again, RunOutcome::Cancelled, AfterAttempt::Requeue).await;
    assert_eq!(ledger.open_runs().await[0].state, RunState::Released);
    let retry = ledger.granted(ledger.after_each(&again, 1, 0)).await;
    assert_eq!((retry.attempt, retry.failures), (2, 1), "a requeued retry must stay a retry");
    assert_eq!(ledger.outcomes().await, [RunOutcome::Failed]);
}

/// A node that leaves during a back-off hands the run over with the rest of it, so a series of restarts uses up no
/// attempts.
pub async fn a_postponed_run_is_followed_after_its_delay(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "postpone").await;
    let first = ledger.claim(1).await;
    ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
    let before = ledger.revision().await;
    let long = AfterAttempt::Postpone { delay: LONG * 2 };
    assert_eq!(ledger.end(&first, RunOutcome::Cancelled, long).await, EndReply::Recorded);
    assert!(ledger.revision().await > before, "the leader must learn of the delay");
    let open = ledger.open_runs().await.remove(0);
    assert_eq!(open.state, RunState::Waiting);
    assert!(open.remaining > LONG && open.remaining <= LONG * 2, "{open:?}");
    assert_eq!(ledger.send(ledger.request(ledger.instant(2))).await, ClaimReply::Skipped, "the run is open");
    ledger.end(&first, RunOutcome::Cancelled, AfterAttempt::Postpone { delay: SHORT }).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(ledger.open_runs().await[0].state, RunState::Released);
    let second = ledger.granted(ledger.after(&first, 1)).await;
    assert_eq!((second.attempt, second.failures), (2, 1), "a postponed retry must stay a retry");
    ledger.end(&second, RunOutcome::Cancelled, AfterAttempt::Postpone { delay: SHORT }).await;
    h.pass(PAST_SHORT).await;
    let again = ledger.granted(ledger.after_each(&second, 1, 0)).await;
    assert_eq!((again.attempt, again.failures), (2, 1), "the attempt had not begun");
    assert_eq!(ledger.outcomes().await, [RunOutcome::Skipped, RunOutcome::Failed]);
}

/// A run between two attempts is still open, so the next run overlaps with it.
pub async fn a_waiting_run_is_open(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "waits").await;
    let first = ledger.claim(1).await;
    ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
    assert_eq!(ledger.open_runs().await[0].state, RunState::Waiting);
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Renewed);
    assert_eq!(ledger.send(ledger.request(ledger.instant(2))).await, ClaimReply::Skipped);
    ledger.end(&first, RunOutcome::Cancelled, AfterAttempt::Finish).await;
    assert_eq!(ledger.open_runs().await, []);
    let outcomes = ledger.outcomes().await;
    assert_eq!(
        outcomes,
        [RunOutcome::Skipped, RunOutcome::Failed],
        "an ended attempt must not be ended twice"
    );
}

/// An orphan's retry waits for the later run that replaced it.
pub async fn an_old_attempt_does_not_join_a_later_run(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "old").await;
    let old = ledger.orphan(h, 1).await;
    let later = ledger.claim(2).await;
    for overlap in [OverlapRule::Skip, OverlapRule::Queue { max: 1 }, OverlapRule::Replace] {
        let request = ClaimRequest { overlap, ..ledger.after(&old, 2) };
        assert_eq!(ledger.send(request).await, ClaimReply::Busy { running: 1 });
    }
    assert_eq!(ledger.renew(&later, LONG).await, RunRenewal::Renewed, "the later run must not be replaced");
    ledger.end(&later, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.granted(ledger.after(&old, 2)).await.attempt, 2);
}

/// A node that cannot read a run's payload leaves it to the others, which the controls tell about it. The number of
/// tries is bounded.
pub async fn a_declined_run_is_started_by_others_or_fails(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "declined").await;
    let controls = async || {
        let read = ledger.client().controls(ledger.job.group.clone(), u64::MAX).await;
        match read.expect("ledger call failed").outcome {
            FleetControls::Changed { revision, declined, .. } => (revision, declined),
            other => panic!("unexpected reply to an unknown revision: {other:?}"),
        }
    };
    let (before, none) = controls().await;
    assert_eq!(none, 0);
    let mut run = ledger.claim(1).await;
    for declines in 1..MAX_DECLINES {
        for _ in 0..2 {
            let reply = ledger.end(&run, RunOutcome::Failed, AfterAttempt::Decline).await;
            assert_eq!(reply, EndReply::Recorded);
        }
        let open = ledger.open_runs().await;
        assert_eq!((open[0].state, open[0].declines), (RunState::Released, declines));
        assert_eq!(ledger.history().await, [], "it has not begun");
        let again = ledger.granted(ledger.after(&run, 0)).await;
        assert_eq!((again.attempt, again.failures), (1, 0), "a declined attempt is the same attempt");
        assert!(again.token > run.token);
        run = again;
    }
    let (revision, declined) = controls().await;
    assert!(before < declined && declined <= revision, "{before} {declined} {revision}");
    ledger.end_saying(&run, RunOutcome::Failed, AfterAttempt::Decline, "unreadable").await;
    assert_eq!(ledger.open_runs().await, []);
    let history = ledger.history().await;
    assert_eq!((history[0].outcome, history[0].detail.as_str()), (RunOutcome::Failed, "unreadable"));
}
