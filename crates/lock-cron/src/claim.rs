//! Claims of due runs, of retries, and of runs abandoned by other nodes, and the recording of their
//! ends.

use crate::{
    job::Job,
    ledger_client::ClaimResult,
    observer::CronEvent,
    options::OnOrphan,
    plan::{ClaimOutcome, Due},
    running::{CancelReason, HeldClaim, RunHold},
    shared::{Node, ShutdownStage},
};
use lock_core::{FencingToken, LockName, backend::BackendError, clock::UtcTime};
use lock_ledger::{
    AfterAttempt, CatchUp, ClaimId, ClaimReply, ClaimRequest, EndReply, EndRequest, OpenRun, RetryOf, RunId,
    RunOutcome, RunState,
};
use std::{sync::Arc, time::Duration};

/// The time allowed for recording an end after the shutdown grace. With it and the default graces, a shutdown
/// takes less than 30 s even while the store is down; the next leader finds the unrecorded runs.
const LAST_RECORD: Duration = Duration::from_secs(3);

/// One attempt of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptId {
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
}

/// The end of an attempt.
#[derive(Debug)]
pub(crate) struct AttemptEnd {
    pub(crate) outcome: RunOutcome,
    pub(crate) detail: String,
    /// The state of the run afterwards. With `None`, no end is recorded: the run is left to the leader.
    pub(crate) then: Option<AfterAttempt>,
}

impl AttemptEnd {
    /// Creates the end of an attempt whose body does not start, or that no other attempt follows.
    pub(crate) fn cancelled(detail: &str, then: AfterAttempt) -> Self {
        Self { outcome: RunOutcome::Cancelled, detail: detail.to_owned(), then: Some(then) }
    }
}

/// A run that this node may start.
#[derive(Debug)]
pub(crate) struct ClaimedRun {
    pub(crate) id: AttemptId,
    pub(crate) token: FencingToken,
    pub(crate) attempt: u32,
    /// The number of failed attempts before this one.
    pub(crate) failures: u32,
    pub(crate) catch_up: CatchUp,
    pub(crate) started: UtcTime,
    /// The payload of the trigger or the instance, as JSON.
    pub(crate) payload: Option<Arc<str>>,
    /// The lease of the claim.
    pub(crate) hold: RunHold,
}

impl ClaimedRun {
    /// Creates the run of a granted claim. Returns `None` if its hold has already ended: the body must not start.
    fn granted(node: &Node, request: &ClaimRequest, result: &ClaimResult) -> Option<Self> {
        let Ok(reply) = &result.answer else { return None };
        let ClaimReply::Claimed { token, attempt, failures, ref payload } = reply.outcome else {
            return None;
        };
        Some(Self {
            id: AttemptId { run: request.run, claim: request.claim },
            token,
            attempt,
            failures,
            catch_up: request.catch_up,
            started: reply.now,
            payload: payload.as_deref().map(Arc::from),
            hold: node.ledger.hold(result.sent, node.terms.lease),
        })
    }

    pub(crate) fn held(&self) -> HeldClaim {
        HeldClaim { claim: self.id.claim, hold: self.hold.clone() }
    }
}

/// Claims a due run, or records it as skipped.
pub(crate) async fn claim_due(node: &Node, due: &mut Due) -> (ClaimOutcome, Option<ClaimedRun>) {
    let result = node.ledger.claim(&due.request, node.gives_up(node.terms.lease)).await;
    // An unanswered request may still be applied. If it was, repeating it with the same id returns the run to this
    // node; with a new id the run would count as decided, and no node would start it.
    due.in_doubt |= result.in_doubt;
    let claimed = ClaimedRun::granted(node, &due.request, &result);
    match result.answer {
        Ok(reply) => (ClaimOutcome::Answered(reply.outcome), claimed),
        Err(error) => {
            node.store_failed(&error);
            (ClaimOutcome::Failed, None)
        }
    }
}

/// Creates the request for another attempt after this one.
pub(crate) fn retry_request(node: &Node, job: &Job, before: AttemptId, catch_up: CatchUp) -> ClaimRequest {
    let orphanings = match job.terms.on_orphan {
        OnOrphan::Skip => 0,
        OnOrphan::Retry { max } => max,
    };
    ClaimRequest {
        job: node.ledger.job(&job.name),
        run: before.run,
        claim: ClaimId::random(),
        retry_of: Some(RetryOf { claim: before.claim, failures: job.terms.retries.max, orphanings }),
        skip: None,
        after: None,
        not_after: None,
        schedule: 0,
        revision: 0,
        definition: 0,
        overlap: job.terms.overlap.rule(),
        pool: job.terms.pool.clone(),
        lease: node.terms.lease,
        node: node.name.clone(),
        catch_up,
        history: node.terms.history,
    }
}

/// The outcome of a claim for another attempt.
pub(crate) enum RetryOutcome {
    Claimed(ClaimedRun),
    /// The ledger rejected the claim.
    Refused(ClaimReply),
    /// The request failed.
    Failed {
        error: BackendError,
        /// Set if a request may still be applied.
        in_doubt: bool,
    },
}

/// Claims another attempt, until the outcome is certain or `give_up` completes.
pub(crate) async fn claim_retry(
    node: &Node,
    request: &ClaimRequest,
    give_up: impl Future<Output = ()>,
) -> RetryOutcome {
    let result = node.ledger.claim(request, give_up).await;
    if let Some(claimed) = ClaimedRun::granted(node, request, &result) {
        return RetryOutcome::Claimed(claimed);
    }
    match result.answer {
        Ok(reply) => RetryOutcome::Refused(reply.outcome),
        Err(error) => {
            node.store_failed(&error);
            RetryOutcome::Failed { error, in_doubt: result.in_doubt }
        }
    }
}

/// Continues a run whose node has left, or records it as abandoned.
pub(crate) async fn take_over(node: &Node, job: &Job, left: &OpenRun) -> Option<ClaimedRun> {
    let before = AttemptId { run: left.run, claim: left.claim };
    let request = retry_request(node, job, before, CatchUp::Yes);
    let orphaned = left.state == RunState::Orphaned;
    let orphaned_event =
        |retried| node.observers.notify(|group| CronEvent::Orphaned { group, job: &job.name, retried });
    match claim_retry(node, &request, node.shutdown.reached(ShutdownStage::GivingUp)).await {
        // The instance, and with it the payload, was removed after this node last read it. Even `()` has a payload.
        RetryOutcome::Claimed(claimed) if job.definition > 0 && claimed.payload.is_none() => {
            let end = AttemptEnd {
                outcome: RunOutcome::Abandoned,
                detail: "its instance was removed".to_owned(),
                then: Some(AfterAttempt::Finish),
            };
            record_end(node, &job.name, claimed.id, end).await;
            None
        }
        RetryOutcome::Claimed(claimed) => {
            if orphaned {
                orphaned_event(true);
            }
            Some(claimed)
        }
        // No attempts are left.
        RetryOutcome::Refused(ClaimReply::Gone) => {
            if abandon(node, left).await == Some(EndReply::Recorded) && orphaned {
                orphaned_event(false);
            }
            None
        }
        RetryOutcome::Refused(_) | RetryOutcome::Failed { .. } => None,
    }
}

/// Records the end of a run whose node has left and that no other node continues.
pub(crate) async fn abandon(node: &Node, left: &OpenRun) -> Option<EndReply> {
    let end = match left.state {
        RunState::Released | RunState::Waiting if left.cancelled => {
            AttemptEnd::cancelled(CancelReason::Cancelled.detail(), AfterAttempt::Finish)
        }
        _ => AttemptEnd {
            outcome: RunOutcome::Abandoned,
            detail: "the node died or lost its lease".to_owned(),
            then: Some(AfterAttempt::Finish),
        },
    };
    record_end(node, &left.job, AttemptId { run: left.run, claim: left.claim }, end).await
}

/// Records the end of a run whose payload no node could read.
pub(crate) async fn end_unread(node: &Node, left: &OpenRun, detail: String) -> Option<EndReply> {
    let end = AttemptEnd { outcome: RunOutcome::Failed, detail, then: Some(AfterAttempt::Finish) };
    record_end(node, &left.job, AttemptId { run: left.run, claim: left.claim }, end).await
}

/// Records an end. Returns `None` if there is none to record, or if the store does not respond
/// before the lease expires or the shutdown must continue.
pub(crate) async fn record_end(
    node: &Node,
    job: &LockName,
    attempt: AttemptId,
    end: AttemptEnd,
) -> Option<EndReply> {
    let request = EndRequest {
        job: node.ledger.job(job),
        run: attempt.run,
        claim: attempt.claim,
        outcome: end.outcome,
        detail: end.detail,
        then: end.then?,
        history: node.terms.history,
    };
    let given_up = async {
        node.shutdown.reached(ShutdownStage::GivingUp).await;
        tokio::time::sleep(LAST_RECORD).await;
    };
    tokio::select! {
        biased;
        ended = node.ledger.end(request, node.terms.lease) => ended,
        () = given_up => None,
    }
}
