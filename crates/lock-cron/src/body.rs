//! The body of an attempt, polled until it ends or must be stopped.

use crate::{
    claim::ClaimedRun,
    context::RunContext,
    hold::RunHold,
    job::Job,
    payload,
    running::{CancelReason, CancelSignal},
    schedule::times::friendly,
};
use futures_util::FutureExt;
use lock_core::LostReason;
use lock_ledger::RunOutcome;
use std::{
    error::Error,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};
use tokio::sync::watch;

/// The maximum length of a recorded error text, in characters.
const MAX_DETAIL: usize = 300;

/// The maximum number of recorded causes of an error. An error may name itself as its cause.
const MAX_CAUSES: usize = 16;

/// The result of an attempt.
#[derive(Debug)]
pub(crate) struct AttemptResult {
    pub(crate) outcome: RunOutcome,
    pub(crate) detail: String,
    /// The reason for stopping the body, if it was told to stop.
    pub(crate) cancelled: Option<CancelReason>,
    /// Set if this node could not read the payload. Another version of the program may be able to.
    pub(crate) is_unreadable: bool,
}

/// The error of a body, as text.
struct BodyError {
    text: String,
    is_unreadable: bool,
}

impl AttemptResult {
    fn new(outcome: RunOutcome, detail: &str) -> Self {
        let detail = detail.chars().take(MAX_DETAIL).collect();
        Self { outcome, detail, cancelled: None, is_unreadable: false }
    }
}

/// Runs the body of an attempt until it ends or must be stopped.
pub(crate) async fn run_body(job: &Job, claimed: &ClaimedRun, cancel: CancelSignal) -> AttemptResult {
    let (cancel_body, cancelled) = watch::channel(false);
    let context = RunContext {
        job: job.name.clone(),
        run: claimed.id.run,
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
            is_unreadable: payload::is_bad_payload(&*error, MAX_CAUSES),
        })
    };
    let mut body = Box::pin(AssertUnwindSafe(body).catch_unwind());
    let result = drive_body(job, &claimed.hold, cancel, &cancel_body, &mut body).await;
    // Dropping a body runs application code, which may panic.
    if catch_unwind(AssertUnwindSafe(move || drop(body))).is_err() {
        tracing::error!(cron.job = %job.name, "job body panicked while being dropped");
    }
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
