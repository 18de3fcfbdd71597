//! A run, from its claim to its recorded end: the body, what may stop it, and the attempts after a failure.

use crate::{
    context::RunContext,
    job::{Job, RunResult},
    node::{Node, Why},
    observe::CronEvent,
    options::Scope,
    plan::utc,
    start::{Granted, end, rule},
    store::AFTER_FAILURE,
};
use futures_util::FutureExt;
use lock_core::{
    FencingToken, Hold,
    backend::ledger::{Again, Attempt, CatchUp, ClaimId, ClaimRequest, Claimed, RunOutcome, Then},
};
use std::{
    error::Error,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
    time::Duration,
};
use tokio::sync::watch;

/// The longest text of an error that is recorded, in characters.
const LONGEST_DETAIL: usize = 300;

/// An error may name itself as its cause: no chain is followed for ever.
const MOST_CAUSES: usize = 16;

/// How an attempt went.
struct Verdict {
    outcome: RunOutcome,
    detail: String,
}

impl Verdict {
    fn new(outcome: RunOutcome, detail: impl ToString) -> Self {
        let detail = detail.to_string().chars().take(LONGEST_DETAIL).collect();
        Self { outcome, detail }
    }

    /// Whether trying again is for the node that ran it.
    fn is_failure(&self) -> bool {
        matches!(self.outcome, RunOutcome::Failed | RunOutcome::Panicked | RunOutcome::TimedOut)
    }
}

/// Runs it to its end.
pub(crate) async fn run(node: &Node, job: &Job, mut granted: Granted, cancel: watch::Receiver<Option<Why>>) {
    loop {
        let (verdict, tries_again) = attempt(node, job, &granted, cancel.clone()).await;
        if job.terms.scope == Scope::PerNode {
            remember(node, job, &granted, verdict);
            return;
        }
        let claim = granted.claim;
        let finish = |verdict: Verdict, then| {
            let Verdict { outcome, detail } = verdict;
            end(node, job.name.clone(), granted.run, claim, outcome, detail, then)
        };
        let lost = verdict.outcome == RunOutcome::Abandoned;
        if lost && granted.attempt < job.terms.attempts_of_orphan() {
            // Whoever leads finds it, and runs it again.
            return;
        }
        if !tries_again {
            finish(verdict, Then::Over).await;
            break;
        }
        if !finish(verdict, Then::Again).await {
            break;
        }
        match again(node, job, &granted, cancel.clone()).await {
            Some((claim, token, attempt, started)) => {
                granted = Granted { claim, token, attempt, started, ..granted };
            }
            None => {
                let detail = "no further attempt".to_owned();
                end(
                    node,
                    job.name.clone(),
                    granted.run,
                    granted.claim,
                    RunOutcome::Cancelled,
                    detail,
                    Then::Over,
                )
                .await;
                break;
            }
        }
    }
    // After the record: else the next leader would find a run without lock and end.
    if let Some(guard) = granted.guard.take() {
        let _ = guard.release().await;
    }
}

/// Waits, and claims the next attempt under the same lock; `None` if it shall not or may not be.
async fn again(
    node: &Node,
    job: &Job,
    granted: &Granted,
    cancel: watch::Receiver<Option<Why>>,
) -> Option<(ClaimId, FencingToken, u32, crate::UtcTime)> {
    let hold = granted.guard.as_ref()?.hold();
    let claim = ClaimId::random();
    // A claim id is random, and fit to draw the jitter from.
    let mut wait = job.terms.retries.wait(granted.attempt, crate::options::fnv(&claim.to_string()));
    let request = ClaimRequest {
        job: node.store.job(&job.name),
        run: granted.run,
        claim,
        again: Some(Again { claim: granted.claim, most: job.terms.attempts() }),
        epoch: FencingToken::new(0),
        revision: 0,
        tolerance: Duration::ZERO,
        overlap: rule(job.terms.overlap),
        lease: node.run_lease,
        node: node.name.clone(),
        catch_up: granted.catch_up,
        missed: granted.missed,
    };
    loop {
        tokio::select! {
            biased;
            () = lost(Some(&hold)) => return None,
            _ = asked_to_end(cancel.clone()) => return None,
            () = tokio::time::sleep(wait) => {}
        }
        node.changes(&job.name, granted.run);
        let give_up = async {
            tokio::select! {
                () = lost(Some(&hold)) => {}
                _ = asked_to_end(cancel.clone()) => {}
            }
        };
        match node.store.claim(&request, give_up).await.answer {
            Ok(reply) => match reply.outcome {
                Claimed::Claimed { token, attempt } if hold.is_held() => {
                    node.follow(&job.name, granted.run, claim);
                    return Some((claim, token, attempt, node.store.now()));
                }
                _ => return None,
            },
            // Nothing was claimed, and the run is still ours: a store that is away for a moment costs no attempt.
            Err(error) => {
                node.store_failed(&error);
                node.follow(&job.name, granted.run, granted.claim);
                if !error.is_retryable() {
                    return None;
                }
                wait = AFTER_FAILURE;
            }
        }
    }
}

/// One attempt of the body, and whether another shall follow.
async fn attempt(
    node: &Node,
    job: &Job,
    granted: &Granted,
    cancel: watch::Receiver<Option<Why>>,
) -> (Verdict, bool) {
    let (job_name, run, attempt) = (&job.name, granted.run, granted.attempt);
    // A later one waited for its turn, and that is not lateness.
    let first = run.scheduled().filter(|_| attempt == 1);
    let lag = first.map_or(Duration::ZERO, |at| granted.started.since(utc(at)));
    let catch_up = granted.catch_up == CatchUp::Yes;
    node.observers.tell(&CronEvent::Started { job: job_name, run, attempt, catch_up, lag });
    let began = tokio::time::Instant::now();
    let verdict = supervised(job, granted, cancel.clone()).await;
    let took = began.elapsed();
    let again = verdict.is_failure() && attempt < job.terms.attempts() && cancel.borrow().is_none();
    let Verdict { outcome, detail } = &verdict;
    node.observers.tell(&CronEvent::Ended {
        job: job_name,
        run,
        attempt,
        outcome: *outcome,
        detail,
        again,
        took,
    });
    (verdict, again)
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

/// The body, until it ends or has to.
async fn supervised(job: &Job, granted: &Granted, cancel: watch::Receiver<Option<Why>>) -> Verdict {
    let hold = granted.guard.as_ref().map(lock_core::LockGuard::hold);
    let (tell, told) = watch::channel(false);
    let context = RunContext {
        job: job.name.clone(),
        run: granted.run,
        started: granted.started,
        attempt: granted.attempt,
        token: granted.token,
        catch_up: granted.catch_up,
        hold: hold.clone(),
        cancel: told,
    };
    let random = crate::options::fnv(&granted.claim.to_string());
    let jitter = match granted.attempt {
        1 => job.terms.jitter.wait(job.name.as_str(), random),
        _ => Duration::ZERO,
    };
    let body = async {
        tokio::time::sleep(jitter).await;
        // Here, so that an error that panics is a body that panics.
        (job.body)(context).await.map_err(|error| with_causes(&*error).into())
    };
    let mut body = Box::pin(AssertUnwindSafe(body).catch_unwind());
    let verdict = until_it_ends_or_has_to(job, hold.as_ref(), cancel, jitter, &tell, &mut body).await;
    // What a body leaves behind is the application's as well, and may panic.
    if catch_unwind(AssertUnwindSafe(move || drop(body))).is_err() {
        tracing::error!(cron.job = %job.name, "a body panicked when it was dropped");
    }
    verdict
}

/// Polls the body, and tells it to end when it has to.
async fn until_it_ends_or_has_to(
    job: &Job,
    hold: Option<&Hold>,
    cancel: watch::Receiver<Option<Why>>,
    jitter: Duration,
    tell: &watch::Sender<bool>,
    body: &mut (impl Future<Output = std::thread::Result<RunResult>> + Unpin),
) -> Verdict {
    let stopped = tokio::select! {
        biased;
        _ = lost(hold) => Verdict::new(RunOutcome::Abandoned, "its lease was lost"),
        why = asked_to_end(cancel) => match why {
            Why::ShutDown => Verdict::new(RunOutcome::Cancelled, "the scheduler shut down"),
            Why::Replaced => Verdict::new(RunOutcome::Cancelled, "a later run replaced it"),
            Why::Gone => Verdict::new(RunOutcome::Abandoned, "the ledger no longer had it"),
        },
        () = time_out(job.terms.timeout, jitter) => Verdict::new(RunOutcome::TimedOut, "it took longer than it may"),
        done = &mut *body => return judge(done),
    };
    tell.send_replace(true);
    // What it says now is not asked for: it was told to end.
    let _ = tokio::time::timeout(job.terms.cancel_grace, body).await;
    stopped
}

fn judge(done: std::thread::Result<RunResult>) -> Verdict {
    match done {
        Ok(Ok(())) => Verdict::new(RunOutcome::Succeeded, ""),
        Ok(Err(error)) => match catch_unwind(AssertUnwindSafe(move || error.to_string())) {
            Ok(text) => Verdict::new(RunOutcome::Failed, text),
            Err(_) => Verdict::new(RunOutcome::Panicked, "its error panicked when it was asked what it is"),
        },
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Verdict::new(RunOutcome::Panicked, text.unwrap_or_default())
        }
    }
}

/// Looks at the clock whenever it is polled: after a pause of the process, all its timers are due at once, and the body must
/// not be polled before it is known that the run is lost.
async fn lost(hold: Option<&Hold>) {
    let Some(hold) = hold else { return std::future::pending().await };
    let mut told = pin!(hold.lost());
    poll_fn(|cx| if hold.is_held() { told.as_mut().poll(cx).map(drop) } else { Poll::Ready(()) }).await;
}

async fn asked_to_end(mut cancel: watch::Receiver<Option<Why>>) -> Why {
    let asked = cancel.wait_for(Option::is_some).await.map(|why| *why);
    match asked {
        Ok(Some(why)) => why,
        // The sender is gone with the scheduler.
        _ => Why::ShutDown,
    }
}

async fn time_out(timeout: Option<Duration>, jitter: Duration) {
    match timeout {
        Some(time) => tokio::time::sleep(time.saturating_add(jitter)).await,
        None => std::future::pending().await,
    }
}

/// The record of a job of each node is this process's own.
fn remember(node: &Node, job: &Job, granted: &Granted, verdict: Verdict) {
    let micros = |time: crate::UtcTime| {
        lock_core::ServerTime::from_micros(u64::try_from(time.as_millis()).unwrap_or(0).saturating_mul(1000))
    };
    let attempt = Attempt {
        run: granted.run,
        attempt: granted.attempt,
        claim: granted.claim,
        token: granted.token,
        node: node.name.clone(),
        catch_up: granted.catch_up,
        missed: granted.missed,
        started: micros(granted.started),
        ended: micros(node.store.now()),
        outcome: verdict.outcome,
        detail: verdict.detail,
    };
    node.remember(&job.name, attempt);
}
