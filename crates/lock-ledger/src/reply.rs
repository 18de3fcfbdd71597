//! The replies of a ledger.

use lock_core::{FencingToken, clock::UtcTime};
use std::time::Duration;

/// The reply to the registration of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegisteredJob {
    /// The time up to which nothing of this schedule is started: the watermark of the job or the start of this
    /// schedule, whichever is later. It is in the future if the server's clock was ahead.
    pub watermark: UtcTime,
    /// [`New`](JobStatus::New) if the ledger did not know the job before.
    pub status: JobStatus,
}

/// The ledger's knowledge of a job before its registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobStatus {
    /// The job is new, or the data was lost.
    New,
    /// The ledger knew the job.
    Existing,
}

/// The reply to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClaimReply {
    /// The caller may start the run.
    Claimed {
        /// The fencing token of this attempt.
        token: FencingToken,
        /// The number of the attempt, starting at 1.
        attempt: u32,
        /// The number of earlier attempts that failed.
        failures: u32,
        /// The payload of the trigger, the same for all attempts.
        payload: Option<String>,
    },
    /// This instant was already decided, or the trigger was already used.
    Duplicate,
    /// A later instant was already decided.
    Superseded,
    /// The instant is still in the future.
    Early {
        /// The time until the instant.
        wait: Duration,
    },
    /// An earlier instant is not decided yet: see [`ClaimRequest::after`](crate::ClaimRequest::after).
    Behind,
    /// The run is decided but not started: other runs are open, or the request asked for a [skip](crate::Skip).
    Skipped,
    /// The trigger has waited longer than its lifetime and is withdrawn.
    Expired,
    /// Other runs are open, and this one has to wait by the overlap rule. Ask again.
    Busy {
        /// The number of other runs.
        running: u32,
    },
    /// The run would start, but its pool is full. Nothing is decided. Ask again.
    PoolFull {
        /// The number of other open runs in the pool.
        running: u32,
    },
    /// The job is paused.
    Paused,
    /// The controls or the definition of the job have changed. Read them.
    Outdated,
    /// The attempt to follow no longer exists or was the last, or the lease of this very claim has ended.
    Gone,
    /// The job has no watermark, so the data was lost. Register it again.
    Unregistered,
}

/// The reply to the renewal of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunRenewal {
    /// The lease was extended.
    Renewed,
    /// The lease was extended, but the run is asked to end, since a later run is waiting to replace it.
    Replaced,
    /// The lease was extended, but the run is asked to end for good.
    Cancelled,
    /// The attempt has ended or was taken over, or its lease had ended.
    Gone,
}

/// The reply to the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReply {
    /// The end is recorded, by this request or by an earlier one.
    Recorded,
    /// No such attempt exists: another request has ended it, or the data was lost.
    Gone,
}
