//! The events of a scheduler, and the trait of their observers.

use super::skip_reason::SkipReason;
use lock_core::{FencingToken, LockName};
use lock_ledger::{RunId, RunOutcome};
use std::{fmt::Debug, sync::Arc, time::Duration};

/// Observes a scheduler.
///
/// It is called on the task of the scheduler, including in Drop: return quickly and do not block. A panic is caught and
/// ends only this call. For events of the leadership's lock, see [`LockObserver`](lock_core::observer::LockObserver).
///
/// ```
/// use lock_cron::observer::{CronEvent, CronObserver};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// #[derive(Debug, Default)]
/// struct Failures(AtomicU64);
///
/// impl CronObserver for Failures {
///     fn on_event(&self, event: &CronEvent<'_>) {
///         if let CronEvent::Ended { outcome: lock_cron::RunOutcome::Failed, .. } = event {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
/// let failures = Arc::new(Failures::default()); // keep one to read it
/// let cron = lock_cron::Scheduler::builder(locks, lock_cron::MemoryLedger::new()).observer(failures.clone()).build()?;
/// # let _ = cron;
/// # Ok(()) }
/// ```
pub trait CronObserver: Debug + Send + Sync + 'static {
    /// Called for each event.
    fn on_event(&self, event: &CronEvent<'_>);
}

impl<O: CronObserver + ?Sized> CronObserver for Arc<O> {
    fn on_event(&self, event: &CronEvent<'_>) {
        (**self).on_event(event);
    }
}

/// Something that happened to a scheduler or its jobs.
///
/// `group` is the [group](crate::SchedulerBuilder::group) of the scheduler, `job` the name of a job, and `run` the
/// [id](crate::RunContext::id) of a run in the history.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum CronEvent<'a> {
    /// This node was elected leader.
    Elected {
        /// The group.
        group: &'a str,
        /// The fencing token of the leadership.
        token: FencingToken,
    },
    /// This node is no longer the leader. There is one for each [`Elected`](Self::Elected).
    Resigned {
        /// The group.
        group: &'a str,
    },
    /// The body of an attempt starts.
    Started {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The run.
        run: RunId,
        /// The number of the attempt, starting at 1.
        attempt: u32,
        /// `true` if the run makes up for a missed instant.
        catch_up: bool,
        /// The time from the instant of the run to its claim. Zero for a run without an instant, and for every
        /// attempt but the first.
        lag: Duration,
    },
    /// Runs were skipped. Each is counted once in the fleet, except those that were decided elsewhere.
    Skipped {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The reason.
        reason: SkipReason,
        /// The number of runs.
        count: u32,
    },
    /// An attempt ended. There is one for each [`Started`](Self::Started).
    Ended {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The run.
        run: RunId,
        /// The number of the attempt, starting at 1.
        attempt: u32,
        /// The outcome.
        outcome: RunOutcome,
        /// The reason, as in the history: an error with its causes, at most 300 characters. Empty if it succeeded.
        detail: &'a str,
        /// `true` if this node makes another attempt. The leader decides what happens to an abandoned run; see
        /// [`Orphaned`](Self::Orphaned).
        retried: bool,
        /// The time from the start of the body to its end.
        took: Duration,
    },
    /// An orphaned run was found: its node died, or lost the run.
    Orphaned {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// `true` if it is run again.
        retried: bool,
    },
    /// A job of the group has an orphan or a trigger that no leader takes, since no leader has registered the job; or
    /// it is an instance, and no live node has its kind. Each leader reports a job once.
    Unowned {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
    },
    /// The watermark of a job is in the future: the server's clock was ahead, and the job starts nothing until then.
    /// Reported every minute. [`Scheduler::reset`](crate::Scheduler::reset) corrects it.
    WatermarkAhead {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The time until the watermark.
        by: Duration,
    },
    /// A job has not succeeded within its [`alert_after`](crate::JobBuilder::alert_after). The leader reports it once;
    /// after a change of the leader, the next one reports it again.
    Overdue {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The time without a success.
        silent: Duration,
    },
    /// A job is no longer overdue, or this node no longer leads. There is one for each [`Overdue`](Self::Overdue).
    OverdueEnded {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// `true` if it has succeeded; `false` if it was paused or removed, if an operator gave it a command, or if
        /// this node no longer leads.
        succeeded: bool,
    },
    /// The store lost data; the leader reports it. The jobs restart from now, and their history is lost. The nodes
    /// restore the pauses and replacement schedules that they have read.
    DataLost {
        /// The group.
        group: &'a str,
        /// The job; `None` if the store lost the data of the whole group.
        job: Option<&'a LockName>,
    },
    /// The clock of this node jumped relative to the server's, by more than 5 seconds between two heartbeats.
    ClockChanged {
        /// The group.
        group: &'a str,
        /// The change in seconds: positive if the clock of this node is now further ahead.
        by: f64,
    },
    /// A request to the store failed.
    StoreFailed {
        /// The group.
        group: &'a str,
    },
    /// The clock of this node was compared with the server's.
    ClockCompared {
        /// The group.
        group: &'a str,
        /// The clock of this node minus that of the server, in seconds.
        offset: f64,
    },
}

impl<'a> CronEvent<'a> {
    /// Returns the group of the scheduler.
    #[must_use]
    pub fn group(&self) -> &'a str {
        match self {
            Self::Elected { group, .. }
            | Self::Resigned { group }
            | Self::Started { group, .. }
            | Self::Skipped { group, .. }
            | Self::Ended { group, .. }
            | Self::Orphaned { group, .. }
            | Self::Unowned { group, .. }
            | Self::WatermarkAhead { group, .. }
            | Self::Overdue { group, .. }
            | Self::OverdueEnded { group, .. }
            | Self::DataLost { group, .. }
            | Self::StoreFailed { group }
            | Self::ClockChanged { group, .. }
            | Self::ClockCompared { group, .. } => group,
        }
    }

    /// Returns the job, if the event concerns one.
    #[must_use]
    pub fn job(&self) -> Option<&'a LockName> {
        match self {
            Self::Started { job, .. }
            | Self::Skipped { job, .. }
            | Self::Ended { job, .. }
            | Self::Orphaned { job, .. }
            | Self::Unowned { job, .. }
            | Self::WatermarkAhead { job, .. }
            | Self::Overdue { job, .. }
            | Self::OverdueEnded { job, .. } => Some(job),
            Self::DataLost { job, .. } => *job,
            Self::Elected { .. }
            | Self::Resigned { .. }
            | Self::StoreFailed { .. }
            | Self::ClockChanged { .. }
            | Self::ClockCompared { .. } => None,
        }
    }
}
