//! Cancellation properties. A cancelled run is told to stop and is not retried.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, TWO},
};
use lock_ledger::{
    AfterAttempt, ClaimReply, ClaimRequest, CommandReply, EndReply, JobCommand, JobId, RunId, RunOutcome,
    RunRenewal, RunState,
};

impl LedgerFixture {
    async fn cancel(&self, run: Option<RunId>) -> CommandReply {
        let command = JobCommand::Cancel { run };
        self.client().command(self.job.clone(), command).await.expect("ledger call failed").outcome
    }
}

/// Each renewal reports the cancellation until the run has ended. The changed revision makes the
/// node renew.
pub async fn a_cancelled_run_is_asked_to_end(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "cancelled").await;
    let run = ledger.claim(1).await;
    let before = ledger.revision().await;
    let CommandReply::Accepted { revision } = ledger.cancel(None).await else {
        panic!("expected an open run")
    };
    assert!(revision > before, "the revision must change");
    assert_eq!(
        ledger.cancel(Some(run.run)).await,
        CommandReply::Accepted { revision },
        "a repeated cancel must have no effect"
    );
    for _ in 0..2 {
        assert_eq!(ledger.renew(&run, LONG).await, RunRenewal::Cancelled);
    }
    let open = ledger.open_runs().await;
    assert_eq!((open[0].state, open[0].cancelled), (RunState::Running, true));
    assert_eq!(ledger.end(&run, RunOutcome::Cancelled, AfterAttempt::Finish).await, EndReply::Recorded);
    assert_eq!(ledger.outcomes().await, [RunOutcome::Cancelled]);
    assert_eq!(
        ledger.renew(&ledger.claim(2).await, LONG).await,
        RunRenewal::Renewed,
        "a later run must continue"
    );
}

/// The job's other runs, and other jobs' runs, continue.
pub async fn only_the_named_run_is_cancelled(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "one").await;
    let [first, second] =
        [1, 2].map(|at| ClaimRequest { overlap: TWO, ..ledger.request(ledger.instant(at)) });
    let (first, second) = (ledger.granted(first).await, ledger.granted(second).await);
    let accepted = ledger.cancel(Some(first.run)).await;
    assert!(matches!(accepted, CommandReply::Accepted { .. }), "{accepted:?}");
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Cancelled);
    assert_eq!(ledger.renew(&second, LONG).await, RunRenewal::Renewed);
}

/// Cancelling without an open run is reported to the operator.
pub async fn nothing_open_is_nothing_to_cancel(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "nothing").await;
    assert_eq!(ledger.cancel(None).await, CommandReply::Gone);
    let run = ledger.claim(1).await;
    assert_eq!(ledger.cancel(Some(ledger.instant(2))).await, CommandReply::Gone);
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.cancel(Some(run.run)).await, CommandReply::Gone);
    let name = lock_core::LockName::new("unknown").expect("valid name");
    let unknown = JobId { name, ..ledger.job.clone() };
    let reply = ledger.client().command(unknown, JobCommand::Cancel { run: None }).await;
    assert_eq!(reply.expect("ledger call failed").outcome, CommandReply::Unregistered);
}

/// A cancelled run is not retried after a failure, a shutdown, or the death of its node.
pub async fn a_cancelled_run_gets_no_further_attempt(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "no-more").await;
    for (millis, then) in
        [AfterAttempt::Retry, AfterAttempt::Reassign, AfterAttempt::Requeue].into_iter().enumerate()
    {
        let run = ledger.claim(millis as u64 + 1).await;
        ledger.cancel(None).await;
        assert_eq!(ledger.end(&run, RunOutcome::Failed, then).await, EndReply::Recorded);
        assert_eq!(ledger.open_runs().await, [], "{then:?}");
        assert_eq!(ledger.history().await[0].run, run.run, "{then:?}: the end must be recorded");
        assert_eq!(ledger.send(ledger.after(&run, 9)).await, ClaimReply::Gone, "{then:?}");
    }
    let orphan = ledger.granted(ClaimRequest { lease: SHORT, ..ledger.request(ledger.instant(10)) }).await;
    ledger.cancel(None).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(ledger.send(ledger.after(&orphan, 9)).await, ClaimReply::Gone);
    let open = ledger.open_runs().await;
    assert_eq!(
        (open[0].state, open[0].cancelled),
        (RunState::Orphaned, true),
        "the orphan must be left for a leader to end"
    );
    ledger.end(&orphan, RunOutcome::Abandoned, AfterAttempt::Finish).await;
    assert_eq!(ledger.open_runs().await, []);
}

/// A run that waits for its next attempt is withdrawn. A run whose body never started is recorded.
pub async fn a_waiting_attempt_is_withdrawn(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "withdrawn").await;
    let failed = ledger.claim(1).await;
    ledger.end(&failed, RunOutcome::Failed, AfterAttempt::Retry).await;
    ledger.cancel(None).await;
    assert_eq!(ledger.renew(&failed, LONG).await, RunRenewal::Cancelled);
    assert_eq!(ledger.send(ledger.after(&failed, 9)).await, ClaimReply::Gone);
    ledger.end(&failed, RunOutcome::Cancelled, AfterAttempt::Finish).await;
    assert_eq!(ledger.outcomes().await, [RunOutcome::Failed], "the attempt is already recorded");
    let unbegun = ledger.claim(2).await;
    ledger.end(&unbegun, RunOutcome::Cancelled, AfterAttempt::Requeue).await;
    ledger.cancel(None).await;
    assert_eq!(ledger.send(ledger.after(&unbegun, 9)).await, ClaimReply::Gone);
    ledger.end(&unbegun, RunOutcome::Cancelled, AfterAttempt::Finish).await;
    assert_eq!(ledger.outcomes().await, [RunOutcome::Cancelled, RunOutcome::Failed]);
}
