//! A run, from its claim to its recorded end: the attempts, and the pauses before them.
//!
//! ```text
//!   claimed ──jitter──▶ body ──ends──▶ finished
//!      ▲         │        │ failed, and attempts are left ──▶ back-off ──claim_retry──▶ claimed
//!      │         │        │   shutdown during the back-off ──▶ postponed by the rest of it
//!      │         │        │ cancelled by a command ──▶ finished
//!      │         │        │ shutdown, and the orphan policy retries ──▶ reassigned
//!  (take over)   │        │ this node cannot read the payload ──▶ declined: left to another node
//!                └────────┴── shutdown before a body begins ──▶ requeued
//! ```
//!
//! Invariants:
//! - a body starts only while the hold of its claim is valid;
//! - a shutdown never ends a run that would survive the node's death;
//! - each attempt whose body started has one record, except one that was lost and may be retried by the leader.

use crate::{
    body::{self, AttemptResult},
    claim::{AttemptEnd, ClaimedRun, RetryOutcome, claim_retry, record_end, retry_request},
    hash::StableHash,
    job::Job,
    ledger_client::RETRY_PAUSE,
    node::{Node, ShutdownStage},
    observer::{CronEvent, attempt_span},
    options::OnOrphan,
    plan::BUSY,
    running::{CancelReason, CancelSignal, RunKey},
};
use lock_ledger::{AfterAttempt, CatchUp, ClaimReply, RunOutcome};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{Instrument, Span};

/// Runs a claimed run to its end. Returns the reason if this node declined it.
pub(crate) async fn run(
    node: &Node,
    job: &Job,
    mut claimed: ClaimedRun,
    cancel: CancelSignal,
) -> Option<String> {
    loop {
        let end = match before_body(node, job, &claimed, cancel.clone()).await {
            Some(end) => end,
            None => attempt(node, job, &claimed, cancel.clone()).await,
        };
        let (then, declined) =
            (end.then, (end.then == Some(AfterAttempt::Decline)).then(|| end.detail.clone()));
        let recorded = record_end(node, &job.name, claimed.id, end).await;
        if then != Some(AfterAttempt::Retry) || recorded.is_none() {
            return declined;
        }
        claimed = retry(node, job, &claimed, cancel.clone()).await?;
    }
}

/// Waits for the jitter. Returns an end if the body must not start.
async fn before_body(
    node: &Node,
    job: &Job,
    claimed: &ClaimedRun,
    cancel: CancelSignal,
) -> Option<AttemptEnd> {
    let jitter = match claimed.attempt {
        1 => job.terms.jitter.delay(job.name.as_str(), StableHash::of(&claimed.id.claim.to_string())),
        _ => Duration::ZERO,
    };
    let drained_while_waiting = async {
        if jitter.is_zero() {
            return false;
        }
        tokio::select! {
            () = node.shutdown.reached(ShutdownStage::Draining) => true,
            () = tokio::time::sleep(jitter) => false,
        }
    };
    let requeued = tokio::select! {
        biased;
        // Requeued even if the policy forbids a retry, because the body has not started.
        _ = claimed.hold.lost() => true,
        reason = cancel.cancelled() => match reason {
            CancelReason::Shutdown => true,
            CancelReason::Replaced | CancelReason::Cancelled => {
                return Some(AttemptEnd::cancelled(reason.detail(), AfterAttempt::Finish));
            }
        },
        drained = drained_while_waiting => drained,
    };
    requeued.then(|| AttemptEnd::cancelled("its body had not started", AfterAttempt::Requeue))
}

/// Runs one attempt in its own span.
async fn attempt(node: &Node, job: &Job, claimed: &ClaimedRun, cancel: CancelSignal) -> AttemptEnd {
    let span =
        attempt_span(node.observers.group(), &job.name, claimed.id.run, claimed.attempt, claimed.token);
    attempt_in(&span, node, job, claimed, cancel).instrument(span.clone()).await
}

/// Runs the body, and decides the state of the run afterwards.
async fn attempt_in(
    span: &Span,
    node: &Node,
    job: &Job,
    claimed: &ClaimedRun,
    cancel: CancelSignal,
) -> AttemptEnd {
    let (run, attempt) = (claimed.id.run, claimed.attempt);
    // Only a first attempt can be late. Later attempts wait on purpose.
    let instant = run.scheduled().filter(|_| attempt == 1);
    let lag = instant.map_or(Duration::ZERO, |at| claimed.started.since(at));
    let catch_up = claimed.catch_up == CatchUp::Yes;
    let started = |group| CronEvent::Started { group, job: &job.name, run, attempt, catch_up, lag };
    node.observers.notify(started);
    let began = Instant::now();
    let AttemptResult { outcome, detail, cancelled, is_unreadable } =
        body::run_body(job, claimed, cancel).await;
    let took = began.elapsed();
    span.record("cron.outcome", outcome.as_str());
    let then = after(job, claimed, outcome, cancelled, is_unreadable);
    let retried = then == Some(AfterAttempt::Retry);
    node.observers.notify(|group| CronEvent::Ended {
        group,
        job: &job.name,
        run,
        attempt,
        outcome,
        detail: &detail,
        retried,
        took,
    });
    AttemptEnd { outcome, detail, then }
}

/// Decides the state of a run after an attempt.
fn after(
    job: &Job,
    claimed: &ClaimedRun,
    outcome: RunOutcome,
    cancelled: Option<CancelReason>,
    is_unreadable: bool,
) -> Option<AfterAttempt> {
    if is_unreadable {
        return Some(AfterAttempt::Decline);
    }
    let is_failure = matches!(outcome, RunOutcome::Failed | RunOutcome::Panicked | RunOutcome::TimedOut);
    let retries_orphans = job.terms.on_orphan != OnOrphan::Skip;
    match (outcome, cancelled) {
        // The leader finds the run and continues it.
        (RunOutcome::Abandoned, _) if retries_orphans => None,
        (RunOutcome::Cancelled, Some(CancelReason::Shutdown)) if retries_orphans => {
            Some(AfterAttempt::Reassign)
        }
        _ if is_failure && claimed.failures < job.terms.retries.max => Some(AfterAttempt::Retry),
        _ => Some(AfterAttempt::Finish),
    }
}

/// Waits, and claims the next attempt. Returns `None` if this node makes no further attempt.
async fn retry(node: &Node, job: &Job, failed: &ClaimedRun, cancel: CancelSignal) -> Option<ClaimedRun> {
    let hold = &failed.hold;
    let request = retry_request(node, job, failed.id, failed.catch_up);
    let give_up = async |detail: &str, then| {
        record_end(node, &job.name, failed.id, AttemptEnd::cancelled(detail, then)).await;
    };
    // A claim id is random, so the jitter is derived from it.
    let mut delay = job.terms.retries.delay(failed.failures + 1, StableHash::of(&request.claim.to_string()));
    let mut full = BUSY;
    loop {
        let begun = Instant::now();
        let postponed = || AfterAttempt::Postpone { delay: delay.saturating_sub(begun.elapsed()) };
        tokio::select! {
            biased;
            _ = hold.lost() => return None,
            reason = cancel.clone().cancelled() => {
                let then = match reason {
                    CancelReason::Shutdown => postponed(),
                    CancelReason::Replaced | CancelReason::Cancelled => AfterAttempt::Finish,
                };
                give_up(reason.detail(), then).await;
                return None;
            }
            () = node.shutdown.reached(ShutdownStage::Draining) => {
                give_up(CancelReason::Shutdown.detail(), postponed()).await;
                return None;
            }
            () = tokio::time::sleep(delay) => {}
        }
        // Not `hold.lost()`, because the ledger no longer has this attempt once the next one is claimed.
        let left = hold.remaining();
        let given_up = async {
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = node.shutdown.reached(ShutdownStage::GivingUp) => {}
            }
        };
        match claim_retry(node, &request, given_up).await {
            RetryOutcome::Claimed(mut next) => {
                // The run keeps its payload, even if its instance was changed or removed in the meantime.
                next.payload.clone_from(&failed.payload);
                let key = RunKey { job: job.name.clone(), run: failed.id.run };
                node.running.follow(&key, next.held());
                return Some(next);
            }
            // Another run of the job has started in the meantime.
            RetryOutcome::Refused(ClaimReply::Busy { .. }) => {
                give_up("another run started in the meantime", AfterAttempt::Finish).await;
                return None;
            }
            // A run keeps its slot, so this only happens if nodes set different limits for the pool.
            RetryOutcome::Refused(ClaimReply::PoolFull { .. }) => delay = full.next_wait(),
            // The run was cancelled. If another node has claimed it instead, this request has no
            // effect.
            RetryOutcome::Refused(ClaimReply::Gone) => {
                give_up(CancelReason::Cancelled.detail(), AfterAttempt::Finish).await;
                return None;
            }
            // The leader finds the run and continues it.
            RetryOutcome::Refused(_) | RetryOutcome::Failed { in_doubt: true, .. } => return None,
            RetryOutcome::Failed { error, .. } if !error.is_retryable() => {
                give_up("the store rejected the next attempt", AfterAttempt::Finish).await;
                return None;
            }
            // Nothing was claimed, and the run still belongs to this node: a short outage of the store uses up no
            // attempt.
            RetryOutcome::Failed { .. } => delay = RETRY_PAUSE,
        }
    }
}
