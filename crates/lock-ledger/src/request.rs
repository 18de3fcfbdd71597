//! The requests about jobs and runs, and the replies to them. Requests own their data, so that a call can outlive its
//! caller.

use crate::{
    ids::{ClaimId, JobId, RunId},
    run::{CatchUp, RunOutcome},
};
use lock_core::{FencingToken, LockName, clock::UtcTime};
use std::time::Duration;

/// A job to register, with its schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The job, in the request's group.
    pub job: LockName,
    /// The fingerprint of the schedule, equal on all nodes with the same schedule.
    pub schedule: u64,
}

/// A request to start a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: RunId,
    /// The id of this claim. Repeating a request with the same id has no further effect.
    pub claim: ClaimId,
    /// The attempt to retry; `None` for the first attempt.
    pub retry_of: Option<RetryOf>,
    /// The scheduled times to decide without starting them; `None` to start the run.
    pub skip: Option<Skip>,
    /// The preceding time of the same schedule, if the caller does not know whether it is decided.
    /// The claim is rejected until that time is decided, since claiming a later one would lose it.
    pub after: Option<UtcTime>,
    /// The end of the grace: the server time after which a scheduled run is not started. A claim that was granted
    /// before is still granted again. `None` for a run without a grace, such as a catch-up run.
    pub not_after: Option<UtcTime>,
    /// The fingerprint of the run's schedule, as [registered](Registration).
    pub schedule: u64,
    /// The revision of the job's controls that the caller has read.
    pub revision: u64,
    /// The revision of the definition that the caller has read; 0 for a job that is not an instance.
    pub definition: u64,
    /// The rule that applies while other runs of the job are open.
    pub overlap: OverlapRule,
    /// The job's pool and its limit, if any. The run is not claimed while the pool is full.
    pub pool: Option<PoolLimit>,
    /// The time for which the run counts as running without a [renewal](crate::RunLedger::renew),
    /// in whole milliseconds.
    pub lease: Duration,
    /// The name of the node that will start the run, for display.
    pub node: String,
    /// [`Yes`](CatchUp::Yes) if the run makes up for a missed scheduled time. Recorded in the
    /// history; it does not affect the claim.
    pub catch_up: CatchUp,
    /// The maximum number of entries in the job's history; at least 1.
    pub history: u32,
}

/// Consecutive scheduled times that are decided but not run. The last one is the claim's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The first of these times.
    pub first: RunId,
    /// The number of these times.
    pub count: u32,
    /// The reason, for display. Adjacent entries with equal reasons are merged.
    pub detail: String,
}

/// The attempt to retry, and the budgets that limit retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryOf {
    /// The claim of the attempt to retry.
    pub claim: ClaimId,
    /// The maximum number of failures after which another attempt may follow.
    pub failures: u32,
    /// The number of orphanings and interruptions below which another attempt may follow.
    pub orphanings: u32,
}

/// The rule for a run that is claimed while other runs of its job are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverlapRule {
    /// The run is skipped, which decides its scheduled time.
    Skip,
    /// The run is claimed while fewer than `max` are open, and not claimed yet otherwise.
    Queue {
        /// The maximum number of open runs.
        max: u32,
    },
    /// The run is not claimed yet, and the other runs are requested to end.
    Replace,
    /// The run is claimed while fewer than `max` are open, and skipped otherwise.
    Allow {
        /// The maximum number of open runs.
        max: u32,
    },
}

/// A pool of a group, and the limit that applies to one claim.
///
/// An attempt occupies a slot in its claim's pool until the end of its run is recorded, including
/// while the run waits for its next attempt. An attempt whose lease has ended occupies no slot, so
/// an orphaned or released run needs a free slot to continue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolLimit {
    /// The pool's name in its group.
    pub name: LockName,
    /// The maximum number of open runs in the pool, across all jobs of the group. Other claims can
    /// specify a different limit.
    pub max: u32,
}

/// A request to renew the lease of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewRun {
    /// The job, in the request's group.
    pub job: LockName,
    /// The run.
    pub run: RunId,
    /// The claim of the run's attempt.
    pub claim: ClaimId,
    /// The minimum time for which the run counts as running after the request is executed, in whole
    /// milliseconds.
    pub lease: Duration,
}

/// A request to record the end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndRequest {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: RunId,
    /// The claim of the attempt.
    pub claim: ClaimId,
    /// The outcome of the attempt.
    pub outcome: RunOutcome,
    /// The reason for the outcome, for display.
    pub detail: String,
    /// The state of the run after the attempt.
    pub then: AfterAttempt,
    /// The maximum number of entries in the job's history; at least 1.
    pub history: u32,
}

/// The state of a run after the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AfterAttempt {
    /// The run has ended.
    Finish,
    /// The attempt failed, and its node starts another one. The run stays open, and the node keeps renewing its lease.
    Retry,
    /// The attempt was interrupted. Any node may start another one immediately.
    Reassign,
    /// The attempt has not begun. Any node may start it immediately. No entry is written to the history.
    Requeue,
    /// Like [`Requeue`](Self::Requeue), but no other node continues the run before `delay` has passed. A run that waits
    /// for its next attempt keeps its back-off when its node leaves.
    Postpone {
        /// The time for which the run stays open without a node, in whole milliseconds.
        delay: Duration,
    },
    /// The attempt has not begun, because its node cannot read the payload. Any other node may start it immediately. No
    /// entry is written to the history. After [`MAX_DECLINES`](crate::MAX_DECLINES), the run has ended instead.
    Decline,
}

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
