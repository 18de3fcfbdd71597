//! The body of an attempt: polled until it ends or has to.

use crate::{
    context::RunContext,
    hold::RunHold,
    job::{Job, RunResult},
    run::Cancel,
    running::Why,
    start::Granted,
};
use futures_util::FutureExt;
use lock_core::LostReason;
use lock_ledger::{AfterAttempt, RunOutcome};
use std::{
    error::Error,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};
use tokio::sync::watch;

/// The longest text of an error that is recorded, in characters.
const LONGEST_DETAIL: usize = 300;

/// An error may name itself as its cause: no chain is followed for ever.
const MOST_CAUSES: usize = 16;

/// The end of an attempt. Without a `then`, nothing is recorded: the run is left to the next leader.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: RunOutcome,
    pub(crate) detail: String,
    pub(crate) then: Option<AfterAttempt>,
}

impl Ended {
    pub(crate) fn new(outcome: RunOutcome, detail: &str, then: Option<AfterAttempt>) -> Self {
        Self { outcome, detail: detail.to_owned(), then }
    }
}

/// The outcome of a body.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) outcome: RunOutcome,
    pub(crate) detail: String,
    /// The reason for which it was told to end by others.
    pub(crate) told: Option<Why>,
}

impl Verdict {
    fn new(outcome: RunOutcome, detail: &str) -> Self {
        let detail = detail.chars().take(LONGEST_DETAIL).collect();
        Self { outcome, detail, told: None }
    }
}

/// Runs the body, until it ends or has to.
pub(crate) async fn supervised(job: &Job, granted: &Granted, cancel: Cancel) -> Verdict {
    let (tell, told) = watch::channel(false);
    let context = RunContext {
        job: job.name.clone(),
        run: granted.run,
        started: granted.started,
        attempt: granted.attempt,
        token: granted.token,
        catch_up: granted.catch_up,
        hold: granted.hold.clone(),
        cancel: told,
    };
    let body = async {
        // Here, so that an error that panics is a body that panics.
        (job.body)(context).await.map_err(|error| with_causes(&*error).into())
    };
    let mut body = Box::pin(AssertUnwindSafe(body).catch_unwind());
    let verdict = until_it_ends_or_has_to(job, granted.hold.as_ref(), cancel, &tell, &mut body).await;
    // What a body leaves behind is the application's as well, and may panic.
    if catch_unwind(AssertUnwindSafe(move || drop(body))).is_err() {
        tracing::error!(cron.job = %job.name, "a body panicked when it was dropped");
    }
    verdict
}

/// Polls the body, and tells it to end when it has to. A body that then succeeds within the grace has succeeded, unless its
/// lease was lost: work after that was not protected.
async fn until_it_ends_or_has_to(
    job: &Job,
    hold: Option<&RunHold>,
    cancel: Cancel,
    tell: &watch::Sender<bool>,
    body: &mut (impl Future<Output = std::thread::Result<RunResult>> + Unpin),
) -> Verdict {
    let mut stopped = tokio::select! {
        biased;
        reason = lost(hold) => match reason {
            LostReason::Gone => Verdict::new(RunOutcome::Abandoned, "the ledger no longer had it"),
            _ => Verdict::new(RunOutcome::Abandoned, "its lease was lost"),
        },
        why = asked_to_end(cancel) => {
            let detail = match why {
                Why::ShutDown => "the scheduler shut down",
                Why::Replaced => "a later run replaced it",
            };
            Verdict { told: Some(why), ..Verdict::new(RunOutcome::Cancelled, detail) }
        },
        () = time_out(job.terms.timeout) => Verdict::new(RunOutcome::TimedOut, "it took longer than it may"),
        done = &mut *body => return judge(done),
    };
    tell.send_replace(true);
    let last = tokio::time::timeout(job.terms.cancel_grace, body).await;
    let is_lost = stopped.outcome == RunOutcome::Abandoned || hold.is_some_and(|hold| !hold.is_held());
    if !is_lost && matches!(last, Ok(Ok(Ok(())))) {
        stopped.outcome = RunOutcome::Succeeded;
        stopped.detail = format!("after it was told to end: {}", stopped.detail);
    }
    stopped
}

fn judge(done: std::thread::Result<RunResult>) -> Verdict {
    match done {
        Ok(Ok(())) => Verdict::new(RunOutcome::Succeeded, ""),
        Ok(Err(error)) => match catch_unwind(AssertUnwindSafe(move || error.to_string())) {
            Ok(text) => Verdict::new(RunOutcome::Failed, &text),
            Err(_) => Verdict::new(RunOutcome::Panicked, "its error panicked when it was asked what it is"),
        },
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Verdict::new(RunOutcome::Panicked, &text.unwrap_or_default())
        }
    }
}

/// An error with its causes, each once: many an error says itself what its cause says.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()).take(MOST_CAUSES) {
        let says = cause.to_string();
        if !text.ends_with(&says) {
            text = format!("{text}: {says}");
        }
    }
    text
}

/// Completes when the run is lost; never in a job of each node.
pub(crate) async fn lost(hold: Option<&RunHold>) -> LostReason {
    match hold {
        Some(hold) => hold.lost().await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn asked_to_end(mut cancel: Cancel) -> Why {
    let asked = cancel.wait_for(Option::is_some).await.map(|why| *why);
    match asked {
        Ok(Some(why)) => why,
        // The sender is gone with the scheduler.
        _ => Why::ShutDown,
    }
}

async fn time_out(timeout: Option<Duration>) {
    match timeout {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
