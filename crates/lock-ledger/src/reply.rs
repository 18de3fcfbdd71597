//! The replies of a ledger.

use lock_core::{FencingToken, clock::ServerTime};
use std::time::Duration;

/// The reply to the registration of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegisteredJob {
    /// The time up to which nothing of this schedule is started any more: the watermark of the job, or the time since which
    /// it has this schedule, whichever is later. It is ahead of the server's now after its clock was.
    pub watermark: ServerTime,
    /// Whether the ledger had the job.
    pub status: JobStatus,
}

/// Whether a ledger had a job before it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobStatus {
    /// It did not: the job is new, or the data were lost.
    New,
    /// It did.
    Existing,
}

/// The reply to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClaimReply {
    /// The run is the caller's to start.
    Claimed {
        /// The fencing token of this attempt.
        token: FencingToken,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The number of attempts before it that failed.
        failures: u32,
    },
    /// This instant was decided before, or the trigger was used.
    Duplicate,
    /// A later instant was decided before.
    Superseded,
    /// The instant has not come yet.
    Early {
        /// The time until it comes.
        wait: Duration,
    },
    /// The run is decided and not started: other runs are open, or the request asked for a [skip](crate::Skip).
    Skipped,
    /// The trigger waited for longer than its life. It is withdrawn.
    Expired,
    /// Other runs are open, and by the overlap rule this one waits. Ask again.
    Busy {
        /// The number of other runs.
        running: u32,
    },
    /// The job is paused.
    Paused,
    /// The controls of the job have changed: read them.
    Outdated,
    /// The attempt that is to be followed is not there any more, or was the last; or the lease of this very claim is over.
    Gone,
    /// The job has no watermark: the data were lost. Register it again.
    Unregistered,
}

/// The reply to the renewal of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunRenewal {
    /// The lease was extended.
    Renewed,
    /// The lease was extended, and the run is asked to end, since a later run is to replace it.
    Replaced,
    /// The attempt has ended, was taken over, or its lease was over.
    Gone,
}

/// The reply to the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReply {
    /// The end is recorded, by this request or by an earlier one.
    Recorded,
    /// There is no such attempt: another request has ended it, or the data were lost.
    Gone,
}
