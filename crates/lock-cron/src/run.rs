//! A run, from its claim to its recorded end: the attempts, and the waits before them.
//!
//! ```text
//!   claimed ──jitter──▶ body ──ends──▶ over
//!      ▲         │        │ failed, and attempts are left ──▶ back-off ──claim again──▶ claimed
//!      │         │        │ shutdown, and the orphan policy retries ──▶ handed over
//!   (adopted)    └────────┴── shutdown before a body begins ──▶ given back
//! ```
//!
//! Invariants:
//! - a body begins only while the hold of its claim is valid;
//! - a shutdown never ends a run that the death of the node would not end;
//! - each attempt whose body began has one record, except one that was lost and that the next leader may retry.

use crate::{
    backoff::RETRY_PAUSE,
    body::{self, Ended},
    hash::StableHash,
    job::Job,
    node::{Ending, Node},
    observer::{CronEvent, attempt_span},
    options::{OnOrphan, Scope},
    running::Why,
    start::{Granted, again, end, granted},
    time::UtcTime,
};
use lock_ledger::{AfterAttempt, Attempt, CatchUp, ClaimReply, RunOutcome};
use std::time::Duration;
use tokio::sync::watch;
use tracing::{Instrument, Span};

/// Told to end, with the reason.
pub(crate) type Cancel = watch::Receiver<Option<Why>>;

/// Runs it to its end.
pub(crate) async fn run(node: &Node, job: &Job, mut granted: Granted, cancel: Cancel) {
    loop {
        let ended = match before_body(node, job, &granted, cancel.clone()).await {
            Some(ended) => ended,
            None => attempt(node, job, &granted, cancel.clone()).await,
        };
        if job.terms.scope == Scope::PerNode {
            remember(node, job, &granted, ended);
            return;
        }
        // The next leader finds it, and goes on.
        let Some(then) = ended.then else { return };
        let Ended { outcome, detail, .. } = ended;
        let recorded = end(node, job, granted.run, granted.claim, outcome, detail, then).await;
        if then != AfterAttempt::Retry || recorded.is_none() {
            return;
        }
        match retry(node, job, &granted, cancel.clone()).await {
            Some(next) => granted = next,
            None => return,
        }
    }
}

/// Waits for the jitter. Gives the end of an attempt whose body does not begin.
async fn before_body(node: &Node, job: &Job, granted: &Granted, cancel: Cancel) -> Option<Ended> {
    let jitter = match granted.attempt {
        1 => job.terms.jitter.wait(job.name.as_str(), StableHash::of(&granted.claim.to_string())),
        _ => Duration::ZERO,
    };
    let waits = async {
        if !jitter.is_zero() {
            tokio::select! {
                () = node.ends(Ending::Draining) => return true,
                () = tokio::time::sleep(jitter) => {}
            }
        }
        false
    };
    let given_back = tokio::select! {
        biased;
        // Also if the policy is not to retry: the body has not begun.
        _ = body::lost(granted.hold.as_ref()) => true,
        why = body::asked_to_end(cancel) => match why {
            Why::ShutDown => true,
            Why::Replaced => return Some(Ended::new(RunOutcome::Cancelled, "a later run replaced it", Some(AfterAttempt::Finish))),
        },
        given_back = waits => given_back,
    };
    given_back
        .then(|| Ended::new(RunOutcome::Cancelled, "its body had not begun", Some(AfterAttempt::Requeue)))
}

/// Runs one attempt in a span of its own.
async fn attempt(node: &Node, job: &Job, granted: &Granted, cancel: Cancel) -> Ended {
    let span = attempt_span(node.observers.group(), &job.name, granted.run, granted.attempt, granted.token);
    attempt_in(&span, node, job, granted, cancel).instrument(span.clone()).await
}

/// Runs the body, and decides the state of the run after it.
async fn attempt_in(span: &Span, node: &Node, job: &Job, granted: &Granted, cancel: Cancel) -> Ended {
    let (run, attempt) = (granted.run, granted.attempt);
    // A later one waited for its turn, and that is not lateness.
    let first = run.scheduled().filter(|_| attempt == 1);
    let lag = first.map_or(Duration::ZERO, |at| granted.started.since(UtcTime::from(at)));
    let catch_up = granted.catch_up == CatchUp::Yes;
    let started = |group| CronEvent::Started { group, job: &job.name, run, attempt, catch_up, lag };
    node.observers.notify(started);
    let began = tokio::time::Instant::now();
    let body::Verdict { outcome, detail, told } = body::supervised(job, granted, cancel).await;
    let took = began.elapsed();
    span.record("cron.outcome", outcome.as_str());
    let is_failure = matches!(outcome, RunOutcome::Failed | RunOutcome::Panicked | RunOutcome::TimedOut);
    let retries_orphans = job.terms.on_orphan != OnOrphan::Skip;
    let then = match (outcome, told) {
        (RunOutcome::Abandoned, _) if retries_orphans => None,
        (RunOutcome::Cancelled, Some(Why::ShutDown)) if retries_orphans => Some(AfterAttempt::Reassign),
        _ if is_failure && granted.failures < job.terms.retries.max => Some(AfterAttempt::Retry),
        _ => Some(AfterAttempt::Finish),
    };
    let retried = then == Some(AfterAttempt::Retry);
    let (job, detail) = (&job.name, &*detail);
    let ended = |group| CronEvent::Ended { group, job, run, attempt, outcome, detail, retried, took };
    node.observers.notify(ended);
    let detail = detail.to_owned();
    Ended { outcome, detail, then }
}

/// Waits, and claims the next attempt; `None` if this node makes none.
async fn retry(node: &Node, job: &Job, failed: &Granted, cancel: Cancel) -> Option<Granted> {
    let hold = failed.hold.as_ref()?;
    let request = again(node, job, failed.run, failed.catch_up, failed.claim);
    let finish = |detail: &str, then| {
        end(node, job, failed.run, failed.claim, RunOutcome::Cancelled, detail.to_owned(), then)
    };
    // A claim id is random, and fit to draw the jitter from.
    let mut wait = job.terms.retries.wait(failed.failures + 1, StableHash::of(&request.claim.to_string()));
    loop {
        tokio::select! {
            biased;
            _ = hold.lost() => return None,
            why = body::asked_to_end(cancel.clone()) => {
                let then = if why == Why::ShutDown { AfterAttempt::Requeue } else { AfterAttempt::Finish };
                finish("a later run replaced it", then).await;
                return None;
            }
            () = node.ends(Ending::Draining) => {
                finish("the scheduler shut down", AfterAttempt::Requeue).await;
                return None;
            }
            () = tokio::time::sleep(wait) => {}
        }
        // Not `lost`: the ledger does not have this attempt any more as soon as the next one is claimed.
        let left = hold.remaining();
        let given_up = async {
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = node.ends(Ending::GivingUp) => {}
            }
        };
        let asked = node.store.claim(&request, given_up).await;
        match asked.answer {
            Ok(reply) => {
                let hold = node.store.hold(asked.sent, node.terms.lease);
                if let Some(next) = granted(&request, &reply.outcome, UtcTime::from(reply.now), hold) {
                    node.running.follow(&job.name, failed.run, next.held()?);
                    return Some(next);
                }
                // Another run of the job began meanwhile, or another node has this one.
                if matches!(reply.outcome, ClaimReply::Busy { .. }) {
                    finish("another run began meanwhile", AfterAttempt::Finish).await;
                }
                return None;
            }
            // Nothing was claimed, and the run is still ours: a store that is away for a moment costs no attempt.
            Err(error) => {
                node.store_failed(&error);
                if asked.in_doubt {
                    return None;
                }
                if !error.is_retryable() {
                    finish("the store refused another attempt", AfterAttempt::Finish).await;
                    return None;
                }
                wait = RETRY_PAUSE;
            }
        }
    }
}

/// The record of a job of each node is this process's own.
fn remember(node: &Node, job: &Job, granted: &Granted, ended: Ended) {
    let attempt = Attempt {
        run: granted.run,
        first: granted.run,
        count: 1,
        attempt: granted.attempt,
        claim: granted.claim,
        token: granted.token,
        node: node.name.clone(),
        catch_up: granted.catch_up,
        started: granted.started.to_server_time(),
        ended: node.store.now().to_server_time(),
        outcome: ended.outcome,
        detail: ended.detail,
    };
    node.remember(&job.name, attempt);
}
