//! What a scheduler tells whoever watches it. Log lines are emitted always, metrics by an observer.

use crate::plan::SkipReason;
use lock_core::{FencingToken, LockName};
use lock_ledger::{RunId, RunOutcome};
use std::{fmt::Debug, panic::AssertUnwindSafe, sync::Arc, time::Duration};

/// Something happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CronEvent<'a> {
    /// This node leads from now on.
    Leading {
        /// The fencing token of its leadership.
        token: FencingToken,
    },
    /// It leads no more.
    Resigned,
    /// A body begins.
    Started {
        /// The job.
        job: &'a LockName,
        /// The run, as the history and [`RunContext::id`](crate::RunContext::id) have it.
        run: RunId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Whether it makes up for a missed instant.
        catch_up: bool,
        /// How late it was claimed; zero for a run without an instant, and for an attempt after the first, which waited.
        lag: Duration,
    },
    /// Runs that will not be. Each counts once in the fleet, except those that were decided elsewhere.
    Skipped {
        /// The job.
        job: &'a LockName,
        /// Why.
        reason: SkipReason,
        /// How many.
        count: u32,
    },
    /// An attempt has ended.
    Ended {
        /// The job.
        job: &'a LockName,
        /// The run, as the history and [`RunContext::id`](crate::RunContext::id) have it.
        run: RunId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How.
        outcome: RunOutcome,
        /// Why it did not succeed, as the history has it: an error with its causes, at most 300 characters. Empty if it did.
        detail: &'a str,
        /// Whether this node is to try again. An abandoned run is for the leader to judge, see [`Orphan`](Self::Orphan).
        again: bool,
        /// After which time.
        took: Duration,
    },
    /// A run was found whose node died, or lost it.
    Orphan {
        /// The job.
        job: &'a LockName,
        /// Whether it is run again.
        again: bool,
    },
    /// A job of the group has an orphan or a trigger that is left lying: no node that leads has registered it. Told once by each leader.
    Unowned {
        /// The job.
        job: &'a LockName,
    },
    /// The watermark of a job is in the future: the server's clock was ahead, and the job starts nothing until then. Told every
    /// minute. [`Scheduler::reset`](crate::Scheduler::reset) ends it.
    Ahead {
        /// The job.
        job: &'a LockName,
        /// The time until the watermark.
        by: Duration,
    },
    /// The store no longer had a job that this node had registered before as a leader: it lost its data. The job begins again now; its history, a
    /// pause and a replaced schedule are gone.
    DataLost {
        /// The job.
        job: &'a LockName,
    },
    /// A request to the store failed.
    StoreFailed,
    /// By how much the wall clock of this node is ahead of the server's, in seconds.
    ClockOffset {
        /// Negative if it is behind.
        seconds: f64,
    },
}

/// Is told what happens, on the task of the scheduler: be quick. A panic is caught.
pub trait CronObserver: Debug + Send + Sync + 'static {
    /// Something happened in this group.
    fn observe(&self, group: &str, event: &CronEvent<'_>);
}

#[derive(Debug, Clone)]
pub(crate) struct Observers {
    pub(crate) group: Arc<str>,
    pub(crate) all: Arc<[Arc<dyn CronObserver>]>,
}

impl Observers {
    pub(crate) fn tell(&self, event: &CronEvent<'_>) {
        log(&self.group, event);
        for observer in self.all.iter() {
            let told = std::panic::catch_unwind(AssertUnwindSafe(|| observer.observe(&self.group, event)));
            if told.is_err() {
                tracing::error!(cron.group = &*self.group, "an observer of the scheduler panicked");
            }
        }
    }
}

fn log(group: &str, event: &CronEvent<'_>) {
    match event {
        CronEvent::Leading { token } => {
            tracing::info!(cron.group = group, cron.token = token.get(), "leading")
        }
        CronEvent::Resigned => tracing::info!(cron.group = group, "leading no more"),
        CronEvent::Started { job, run, attempt, lag, .. } => {
            let lag_ms = (*attempt == 1).then_some(lag.as_millis() as u64);
            tracing::debug!(cron.group = group, cron.job = %job, cron.run = %run, cron.attempt = attempt, lag_ms, "run started");
        }
        // Two leaders for a moment are nothing to worry about: one of them loses.
        CronEvent::Skipped { job, reason: reason @ SkipReason::DecidedElsewhere, count } => {
            tracing::debug!(cron.group = group, cron.job = %job, ?reason, count, "not run here");
        }
        CronEvent::Skipped { job, reason: reason @ SkipReason::DataLoss, count } => {
            tracing::error!(cron.group = group, cron.job = %job, ?reason, count, "the store lost the watermark: not run");
        }
        // The overlap policy at work, which may be once a second.
        CronEvent::Skipped { job, reason: reason @ (SkipReason::Overlap | SkipReason::Queue), count } => {
            tracing::debug!(cron.group = group, cron.job = %job, ?reason, count, "not run");
        }
        CronEvent::Skipped { job, reason, count } => {
            tracing::warn!(cron.group = group, cron.job = %job, ?reason, count, "not run");
        }
        CronEvent::Ended { job, run, attempt, outcome: RunOutcome::Succeeded, took, .. } => {
            let took_ms = took.as_millis() as u64;
            tracing::debug!(cron.group = group, cron.job = %job, cron.run = %run, cron.attempt = attempt, took_ms, "run succeeded");
        }
        CronEvent::Ended { job, run, attempt, outcome, detail, again, took } => {
            let took_ms = took.as_millis() as u64;
            tracing::warn!(
                cron.group = group, cron.job = %job, cron.run = %run, cron.attempt = attempt,
                %outcome, error = *detail, again, took_ms, "run ended"
            );
        }
        CronEvent::Orphan { job, again } => {
            tracing::warn!(cron.group = group, cron.job = %job, again, "a run was abandoned by its node");
        }
        CronEvent::Unowned { job } => {
            tracing::error!(cron.group = group, cron.job = %job, "no node that leads has this job: nobody runs it");
        }
        CronEvent::Ahead { job, by } => {
            let ahead_s = by.as_secs();
            tracing::error!(cron.group = group, cron.job = %job, ahead_s, "the watermark is in the future: no runs until then, unless the job is reset");
        }
        CronEvent::DataLost { job } => {
            tracing::error!(cron.group = group, cron.job = %job, "the store lost the data of the job: it begins again now");
        }
        CronEvent::StoreFailed => tracing::debug!(cron.group = group, "a request to the store failed"),
        CronEvent::ClockOffset { .. } => {}
    }
}
