//! Events of a scheduler, for custom observers, OpenTelemetry metrics, and `tracing` events and
//! spans.
//!
//! Each attempt of a run has a span `cron.run`, in which its body runs:
//!
//! | field | value |
//! | --- | --- |
//! | `cron.group` | the scheduler's group |
//! | `cron.job` | the name of the job |
//! | `cron.run` | the [id](crate::RunContext::id) of the run |
//! | `cron.attempt` | the attempt number, starting at 1 |
//! | `cron.token` | the attempt's fencing token |
//! | `cron.outcome` | the metric value of the [`RunOutcome`], once it is known |

#[cfg(feature = "otel")]
mod otel;
mod trace;

#[cfg(feature = "otel")]
pub use otel::OtelCronObserver;
pub(crate) use trace::{Observers, attempt_span};

use lock_core::{FencingToken, LockName};
use lock_ledger::{RunId, RunOutcome};
use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

/// Observes a scheduler.
///
/// Observers are called on the scheduler's task, including in `Drop`, so they must return quickly
/// and not block. A panic is caught and ends only that call. For the leadership lock's events, see
/// [`LockObserver`](lock_core::observer::LockObserver).
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

/// An event of a scheduler or its jobs.
///
/// `group` is the [group](crate::SchedulerBuilder::group) of the scheduler, `job` the name of a job, and `run` the
/// [id](crate::RunContext::id) of a run in the history.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum CronEvent<'a> {
    /// The scheduler started. The nodes of a group with the same jobs elect one leader.
    Joined {
        /// The group.
        group: &'a str,
        /// The hash of this node's jobs, their schedules and its kinds.
        jobs: u64,
    },
    /// This node was elected leader.
    Elected {
        /// The group.
        group: &'a str,
        /// The hash of this node's jobs, as in [`Joined`](Self::Joined).
        jobs: u64,
        /// The fencing token of the leadership.
        token: FencingToken,
    },
    /// This node is no longer the leader. Emitted once for each [`Elected`](Self::Elected).
    Resigned {
        /// The group.
        group: &'a str,
        /// The hash of this node's jobs, as in [`Joined`](Self::Joined).
        jobs: u64,
    },
    /// The body of an attempt is starting.
    Started {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The run.
        run: RunId,
        /// The attempt number, starting at 1.
        attempt: u32,
        /// `true` for a catch-up run.
        catch_up: bool,
        /// The time from the scheduled time to the claim. Zero for a run without a scheduled time,
        /// and for every attempt except the first.
        lag: Duration,
    },
    /// Runs were skipped. Each skip is reported by one node, except for
    /// [`DecidedElsewhere`](SkipReason::DecidedElsewhere).
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
    /// An attempt ended. Emitted once for each [`Started`](Self::Started).
    Ended {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The run.
        run: RunId,
        /// The attempt number, starting at 1.
        attempt: u32,
        /// The outcome.
        outcome: RunOutcome,
        /// The reason, as in the history: an error with its causes, at most 300 characters. Empty if the body succeeded
        /// without being told to stop.
        detail: &'a str,
        /// `true` if this node will retry. Abandoned runs are handled by the leader; see
        /// [`Orphaned`](Self::Orphaned).
        retried: bool,
        /// The time from the start of the body to its end.
        took: Duration,
    },
    /// An orphaned run was found: its node died or lost it.
    Orphaned {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// `true` if the run is retried.
        retried: bool,
    },
    /// A job has an orphan or a trigger, but no leader has registered the job, or it is an instance
    /// and no live node has registered its kind. Each leader reports a job once.
    Unowned {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
    },
    /// A job's watermark is in the future because the server's clock was ahead. No scheduled runs
    /// start until then. Reported every minute. [`Scheduler::reset`](crate::Scheduler::reset)
    /// corrects the watermark.
    WatermarkAhead {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The time until the watermark.
        by: Duration,
    },
    /// A job has not succeeded within its [`alert_after`](crate::JobBuilder::alert_after). Each
    /// leader reports the job once.
    Overdue {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// The time without a success.
        silent: Duration,
    },
    /// A job is no longer overdue, or this node no longer leads. Emitted once for each
    /// [`Overdue`](Self::Overdue).
    OverdueEnded {
        /// The group.
        group: &'a str,
        /// The job.
        job: &'a LockName,
        /// `true` if the job has succeeded; `false` if it was paused or removed, an operator sent
        /// it a command, or this node no longer leads.
        succeeded: bool,
    },
    /// The store lost data. Reported by the leader. The jobs restart from now, and their history is
    /// lost. The nodes restore the pauses and replacement schedules that they have read.
    DataLost {
        /// The group.
        group: &'a str,
        /// The job; `None` if the store lost the data of the whole group.
        job: Option<&'a LockName>,
    },
    /// This node's clock jumped relative to the server's by more than 5 seconds between two
    /// heartbeats.
    ClockChanged {
        /// The group.
        group: &'a str,
        /// The change, in seconds; positive if this node's clock is now further ahead.
        by: f64,
    },
    /// A request to the store failed.
    StoreFailed {
        /// The group.
        group: &'a str,
    },
    /// This node's clock was compared with the server's.
    ClockCompared {
        /// The group.
        group: &'a str,
        /// This node's clock minus the server's clock, in seconds.
        offset: f64,
    },
}

impl<'a> CronEvent<'a> {
    /// Returns the group of the scheduler.
    #[must_use]
    pub fn group(&self) -> &'a str {
        match self {
            Self::Joined { group, .. }
            | Self::Elected { group, .. }
            | Self::Resigned { group, .. }
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

    /// Returns the job, if the event refers to one.
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
            Self::Joined { .. }
            | Self::Elected { .. }
            | Self::Resigned { .. }
            | Self::StoreFailed { .. }
            | Self::ClockChanged { .. }
            | Self::ClockCompared { .. } => None,
        }
    }
}

/// The reason for skipping a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SkipReason {
    /// Other runs of the job were open.
    Overlap,
    /// The run was missed, and the misfire policy does not start it.
    Missed,
    /// The run waited in the queue until a later run replaced it.
    Queue,
    /// The trigger waited longer than its life.
    Expired,
    /// No node had room for the run within its grace, or its pool was full; see
    /// [`max_running`](crate::SchedulerBuilder::max_running) and [`pool`](crate::JobBuilder::pool).
    NoCapacity,
    /// Another node had already decided this run, or a later one.
    DecidedElsewhere,
    /// The store lost the job's watermark, so it is unknown which runs were started.
    DataLoss,
}

impl SkipReason {
    /// Returns the value in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::Missed => "missed",
            Self::Queue => "queue",
            Self::Expired => "expired",
            Self::NoCapacity => "no_capacity",
            Self::DecidedElsewhere => "decided_elsewhere",
            Self::DataLoss => "data_loss",
        }
    }

    /// Returns the text for the history.
    pub(crate) const fn detail(self) -> &'static str {
        match self {
            Self::Overlap => "other runs were open",
            Self::Missed => "missed",
            Self::Queue => "a later run took its place",
            Self::Expired => "the trigger expired",
            Self::NoCapacity => "no node had room, or its pool was full",
            Self::DecidedElsewhere => "decided elsewhere",
            Self::DataLoss => "the store lost its data",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
