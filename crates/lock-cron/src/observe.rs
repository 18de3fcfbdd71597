//! What a scheduler tells whoever watches it. Log lines are emitted always, metrics by an observer.

use crate::plan::SkipReason;
use lock_core::{FencingToken, LockName, backend::ledger::RunOutcome};
use std::{fmt::Debug, panic::AssertUnwindSafe, sync::Arc, time::Duration};

/// Something happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CronEvent<'a> {
    /// This node leads from now on.
    Leading {
        /// The fencing token of its leadership.
        epoch: FencingToken,
    },
    /// It leads no more.
    Resigned,
    /// A body begins.
    Started {
        /// The job.
        job: &'a LockName,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How late it was claimed; zero for a run without an instant.
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
        /// How.
        outcome: RunOutcome,
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
    /// The store was asked in vain.
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
        CronEvent::Leading { epoch } => {
            tracing::info!(cron.group = group, cron.epoch = epoch.get(), "leading")
        }
        CronEvent::Resigned => tracing::info!(cron.group = group, "leading no more"),
        CronEvent::Started { job, attempt, lag } => {
            tracing::debug!(cron.group = group, cron.job = %job, attempt, lag_ms = lag.as_millis() as u64, "run started");
        }
        // Two leaders for a moment are nothing to worry about: one of them loses.
        CronEvent::Skipped { job, reason: reason @ SkipReason::DecidedElsewhere, count } => {
            tracing::debug!(cron.group = group, cron.job = %job, ?reason, count, "not run here");
        }
        CronEvent::Skipped { job, reason: reason @ SkipReason::DataLoss, count } => {
            tracing::error!(cron.group = group, cron.job = %job, ?reason, count, "the store lost the watermark: not run");
        }
        CronEvent::Skipped { job, reason, count } => {
            tracing::warn!(cron.group = group, cron.job = %job, ?reason, count, "not run");
        }
        CronEvent::Ended { job, outcome: RunOutcome::Succeeded, took } => {
            tracing::debug!(cron.group = group, cron.job = %job, took_ms = took.as_millis() as u64, "run succeeded");
        }
        CronEvent::Ended { job, outcome, took } => {
            tracing::warn!(cron.group = group, cron.job = %job, %outcome, took_ms = took.as_millis() as u64, "run ended");
        }
        CronEvent::Orphan { job, again } => {
            tracing::warn!(cron.group = group, cron.job = %job, again, "a run was abandoned by its node");
        }
        CronEvent::Unowned { job } => {
            tracing::error!(cron.group = group, cron.job = %job, "no node that leads has this job: nobody runs it");
        }
        CronEvent::StoreFailed => tracing::debug!(cron.group = group, "the store was asked in vain"),
        CronEvent::ClockOffset { .. } => {}
    }
}
