//! A run, from its claim to its recorded end: the attempts, their bodies, and the pauses before them.
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
    claim::{AttemptEnd, ClaimedRun, RetryOutcome, claim_retry, record_end, retry_request},
    context::{RunContext, is_bad_payload},
    hash::StableHash,
    job::Job,
    ledger_client::RETRY_PAUSE,
    observer::{CronEvent, attempt_span},
    options::OnOrphan,
    plan::BUSY,
    running::{CancelReason, CancelSignal, RunHold, RunKey},
    schedule::times::friendly,
    shared::{Node, ShutdownStage},
};
use futures_util::FutureExt;
use lock_core::LostReason;
use lock_ledger::{AfterAttempt, CatchUp, ClaimReply, RunOutcome, StartedRun};
use std::{
    error::Error,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tracing::{Instrument, Span};

/// The maximum length of a recorded error text, in characters.
const MAX_DETAIL: usize = 300;

/// The reason for another attempt after a body that has forgotten its commit.
const UNCOMMITTED: &str = "the transaction that records its success was not committed";

/// The maximum number of recorded causes of an error. An error may name itself as its cause.
const MAX_CAUSES: usize = 16;

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
    let AttemptResult { outcome, detail, cancelled, is_unreadable, is_left_to_transaction } =
        run_body(node, job, claimed, cancel).await;
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
    if is_left_to_transaction {
        // If it was committed, the run has ended, and this changes nothing.
        return AttemptEnd::cancelled(UNCOMMITTED, AfterAttempt::Reassign);
    }
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
        match claim_retry(node, &request, node.gives_up(hold.remaining())).await {
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

/// The result of an attempt.
#[derive(Debug)]
struct AttemptResult {
    outcome: RunOutcome,
    detail: String,
    /// The reason for stopping the body, if it was told to stop.
    cancelled: Option<CancelReason>,
    /// Set if this node could not read the payload. Another version of the program may be able to.
    is_unreadable: bool,
    /// Set if a transaction of the body has recorded its success, if it was committed.
    is_left_to_transaction: bool,
}

/// The error of a body, as text.
struct BodyError {
    text: String,
    is_unreadable: bool,
}

impl AttemptResult {
    fn new(outcome: RunOutcome, detail: &str) -> Self {
        let detail = detail.chars().take(MAX_DETAIL).collect();
        Self { outcome, detail, cancelled: None, is_unreadable: false, is_left_to_transaction: false }
    }
}

/// Runs the body of an attempt until it ends or must be stopped.
async fn run_body(node: &Node, job: &Job, claimed: &ClaimedRun, cancel: CancelSignal) -> AttemptResult {
    let (cancel_body, cancelled) = watch::channel(false);
    let attempt_of = StartedRun::new(node.ledger.job(&job.name), claimed.id.run, claimed.id.claim);
    let context = RunContext {
        attempt_of: attempt_of.clone(),
        started: claimed.started,
        attempt: claimed.attempt,
        token: claimed.token,
        catch_up: claimed.catch_up,
        hold: claimed.hold.clone(),
        payload: claimed.payload.clone(),
        cancel: cancelled,
    };
    let body = async {
        // Converted here, so that a panic while formatting the error counts as a panic of the body.
        let done = (job.body)(context).await;
        done.map_err(|error| BodyError {
            text: with_causes(&*error),
            is_unreadable: is_bad_payload(&*error, MAX_CAUSES),
        })
    };
    let mut body = Box::pin(AssertUnwindSafe(body).catch_unwind());
    let mut result = drive_body(job, &claimed.hold, cancel, &cancel_body, &mut body).await;
    // Dropping a body runs application code, which may panic.
    if catch_unwind(AssertUnwindSafe(move || drop(body))).is_err() {
        tracing::error!(cron.job = %job.name, "job body panicked while being dropped");
    }
    result.is_left_to_transaction =
        result.outcome == RunOutcome::Succeeded && attempt_of.is_left_to_transaction();
    result
}

/// Polls the body, and tells it to stop when necessary. A body that then succeeds within the grace
/// counts as succeeded, unless its lease was lost, because its work after the loss was not
/// protected.
async fn drive_body(
    job: &Job,
    hold: &RunHold,
    cancel: CancelSignal,
    cancel_body: &watch::Sender<bool>,
    body: &mut (impl Future<Output = std::thread::Result<Result<(), BodyError>>> + Unpin),
) -> AttemptResult {
    let mut stopped = tokio::select! {
        biased;
        reason = hold.lost() => match reason {
            LostReason::Gone => AttemptResult::new(RunOutcome::Abandoned, "the ledger no longer had the run"),
            _ => AttemptResult::new(RunOutcome::Abandoned, "its lease was lost"),
        },
        reason = cancel.cancelled() => {
            let detail = reason.detail();
            AttemptResult { cancelled: Some(reason), ..AttemptResult::new(RunOutcome::Cancelled, detail) }
        },
        timeout = time_out(job.terms.timeout) => {
            AttemptResult::new(RunOutcome::TimedOut, &format!("timed out after {}", friendly(timeout)))
        }
        done = &mut *body => return outcome_of(done),
    };
    cancel_body.send_replace(true);
    let last = tokio::time::timeout(job.terms.cancel_grace, body).await;
    let is_lost = stopped.outcome == RunOutcome::Abandoned || !hold.is_held();
    if !is_lost && matches!(last, Ok(Ok(Ok(())))) {
        stopped.outcome = RunOutcome::Succeeded;
        stopped.detail = format!("after it was told to stop: {}", stopped.detail);
    }
    stopped
}

fn outcome_of(done: std::thread::Result<Result<(), BodyError>>) -> AttemptResult {
    match done {
        Ok(Ok(())) => AttemptResult::new(RunOutcome::Succeeded, ""),
        Ok(Err(BodyError { text, is_unreadable })) => {
            AttemptResult { is_unreadable, ..AttemptResult::new(RunOutcome::Failed, &text) }
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            AttemptResult::new(RunOutcome::Panicked, &text.unwrap_or_default())
        }
    }
}

/// Returns the text of an error and its causes. Omits repetitions: many errors include the text of their cause.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()).take(MAX_CAUSES) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Waits for the timeout, and returns it.
async fn time_out(timeout: Option<Duration>) -> Duration {
    match timeout {
        Some(timeout) => {
            tokio::time::sleep(timeout).await;
            timeout
        }
        None => std::future::pending().await,
    }
}
