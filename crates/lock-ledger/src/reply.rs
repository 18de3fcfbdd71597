//! A ledger's replies.

use lock_core::{FencingToken, clock::UtcTime};
use std::time::Duration;

/// The reply to the registration of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegisteredJob {
    /// The time up to which no run of this schedule starts: the job's watermark or the schedule's
    /// start, whichever is later. It is in the future if the server's clock was ahead.
    pub watermark: UtcTime,
    /// [`New`](JobStatus::New) if the job was not in the ledger before.
    pub status: JobStatus,
}

/// The status of a job before its registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobStatus {
    /// The job is new, or the data was lost.
    New,
    /// The job was already in the ledger.
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
    /// The scheduled time was already decided, or the trigger was already used.
    Duplicate,
    /// A later scheduled time was already decided.
    Superseded,
    /// Some of the scheduled times to [skip](crate::Skip) were already decided, but not the last one. Nothing was
    /// decided. Read the watermark, and count the others again.
    PartlyDecided,
    /// The scheduled time is still in the future.
    Early {
        /// The remaining time until the scheduled time.
        wait: Duration,
    },
    /// The ledger has not yet decided about an earlier scheduled time; see
    /// [`ClaimRequest::after`](crate::ClaimRequest::after).
    Behind,
    /// The time in [`ClaimRequest::not_after`](crate::ClaimRequest::not_after) has passed. Nothing was decided.
    Late,
    /// The run was decided but not started, because other runs are open or the request was a
    /// [skip](crate::Skip).
    Skipped,
    /// The trigger waited longer than its lifetime and was withdrawn.
    Expired,
    /// Other runs are open, and the overlap rule requires this one to wait. Retry later.
    Busy {
        /// The number of other runs.
        running: u32,
    },
    /// The run would start, but its pool is full. Nothing was decided. Retry later.
    PoolFull {
        /// The number of other open runs in the pool.
        running: u32,
    },
    /// The job is paused.
    Paused,
    /// The job's controls or definition have changed. Read them again.
    Outdated,
    /// The attempt to retry no longer exists or allows no further attempt, or this claim's attempt
    /// or lease has ended.
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
    /// The lease was extended, but the run must end, because a later run is waiting to replace it.
    Replaced,
    /// The lease was extended, but the run was cancelled and must end.
    Cancelled,
    /// The run has ended, was taken over or was forgotten, or its lease had ended.
    Gone,
}

/// The reply to a request to record the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReply {
    /// The end was recorded by this request or an earlier one.
    Recorded,
    /// No such attempt exists: another request has ended it, or the data was lost.
    Gone,
}
