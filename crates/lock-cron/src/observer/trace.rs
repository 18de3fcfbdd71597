//! The dispatch of events to the log and to observers, and the span of an attempt.

use super::{CronEvent, CronObserver, SkipReason};
use lock_core::{__private::notify_all, FencingToken, LockName};
use lock_ledger::{RunId, RunOutcome};
use std::sync::Arc;
use tracing::{Span, field::Empty};

/// The observers of a scheduler, and its group.
#[derive(Debug, Clone)]
pub(crate) struct Observers {
    group: Arc<str>,
    observers: Arc<[Arc<dyn CronObserver>]>,
}

impl Observers {
    pub(crate) fn new(group: &str, observers: Vec<Arc<dyn CronObserver>>) -> Self {
        Self { group: group.into(), observers: observers.into() }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Builds an event with the group and dispatches it.
    pub(crate) fn notify<'a>(&'a self, make: impl FnOnce(&'a str) -> CronEvent<'a>) {
        let event = make(&self.group);
        notify_all(&self.observers, || log(&event), |observer| observer.on_event(&event));
    }
}

/// Opens the span of an attempt. The span has no parent, because the request that triggered a run
/// may have ended on another node.
pub(crate) fn attempt_span(
    group: &str,
    job: &LockName,
    run: RunId,
    attempt: u32,
    token: FencingToken,
) -> Span {
    tracing::info_span!(
        parent: None,
        "cron.run",
        cron.group = group,
        cron.job = %job,
        cron.run = %run,
        cron.attempt = attempt,
        cron.token = token.get(),
        cron.outcome = Empty,
    )
}

/// Logs an event.
fn log(event: &CronEvent<'_>) {
    match *event {
        CronEvent::Joined { group, .. } => tracing::debug!(cron.group = group, "scheduler started"),
        CronEvent::Elected { group, token, .. } => {
            tracing::info!(cron.group = group, cron.token = token.get(), "leadership acquired");
        }
        CronEvent::Resigned { group, .. } => tracing::info!(cron.group = group, "leadership ended"),
        CronEvent::Started { group, job, run, attempt, lag, .. } => {
            let lag_ms = (attempt == 1).then_some(lag.as_millis() as u64);
            tracing::debug!(cron.group = group, cron.job = %job, cron.run = %run, cron.attempt = attempt, lag_ms, "run started");
        }
        CronEvent::Skipped { group, job, reason, count } => skipped(group, job, reason, count),
        CronEvent::Ended { group, job, run, attempt, outcome: RunOutcome::Succeeded, took, .. } => {
            let took_ms = took.as_millis() as u64;
            tracing::debug!(cron.group = group, cron.job = %job, cron.run = %run, cron.attempt = attempt, took_ms, "run succeeded");
        }
        CronEvent::Ended { group, job, run, attempt, outcome, detail, retried, took } => {
            let took_ms = took.as_millis() as u64;
            tracing::warn!(
                cron.group = group, cron.job = %job, cron.run = %run, cron.attempt = attempt,
                %outcome, error = detail, retried, took_ms, "run did not succeed"
            );
        }
        CronEvent::Orphaned { group, job, retried } => {
            tracing::warn!(cron.group = group, cron.job = %job, retried, "run abandoned by its node");
        }
        CronEvent::Unowned { group, job } => {
            tracing::error!(
                cron.group = group,
                cron.job = %job,
                "job is unowned; no live node has registered it or its kind"
            );
        }
        CronEvent::WatermarkAhead { group, job, by } => {
            let ahead_s = by.as_secs();
            tracing::error!(cron.group = group, cron.job = %job, ahead_s, "watermark is in the future: no \
                scheduled run starts until then, unless the job is reset");
        }
        CronEvent::Overdue { group, job, silent } => {
            let silent_s = silent.as_secs();
            tracing::warn!(cron.group = group, cron.job = %job, silent_s, "job is overdue; no run has succeeded within its alert time");
        }
        CronEvent::OverdueEnded { group, job, succeeded: true } => {
            tracing::info!(cron.group = group, cron.job = %job, "overdue job succeeded");
        }
        CronEvent::OverdueEnded { group, job, succeeded: false } => {
            tracing::debug!(cron.group = group, cron.job = %job, "job is no longer reported as overdue");
        }
        CronEvent::ClockChanged { group, by } => {
            tracing::warn!(cron.group = group, by_s = by, "node clock jumped relative to the server clock");
        }
        CronEvent::DataLost { group, job: None } => {
            tracing::error!(
                cron.group = group,
                "store lost the group's data: scheduling starts again from the current time, without its history"
            );
        }
        CronEvent::DataLost { group, job: Some(job) } => {
            tracing::error!(
                cron.group = group,
                cron.job = %job,
                "store lost the job's data: scheduling starts again from the current time, without its history"
            );
        }
        // The error itself is logged where it occurs.
        CronEvent::StoreFailed { .. } | CronEvent::ClockCompared { .. } => {}
    }
}

fn skipped(group: &str, job: &LockName, reason: SkipReason, count: u32) {
    let reason_word = reason.as_str();
    match reason {
        // Concurrent claims are harmless, and the overlap policy may skip a run every second.
        SkipReason::DecidedElsewhere | SkipReason::Overlap | SkipReason::Queue => {
            tracing::debug!(cron.group = group, cron.job = %job, reason = reason_word, count, "runs skipped");
        }
        SkipReason::DataLoss => {
            tracing::error!(cron.group = group, cron.job = %job, reason = reason_word, count, "runs skipped; the store lost the job's watermark");
        }
        SkipReason::Missed | SkipReason::Expired | SkipReason::NoCapacity => {
            tracing::warn!(cron.group = group, cron.job = %job, reason = reason_word, count, "runs skipped");
        }
    }
}
