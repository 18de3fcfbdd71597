//! The requests to a ledger. They are owned, so that a call may outlive its caller.

use crate::{
    ids::{ClaimId, JobId, RunId},
    run::{CatchUp, RunOutcome},
};
use lock_core::LockName;
use std::time::Duration;

/// A job and its schedule, to be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The job, in the group of the request.
    pub job: LockName,
    /// The fingerprint of its schedule: equal on all nodes for which the schedule means the same.
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
    /// The attempt that this one follows, if it is not the first.
    pub retry_of: Option<RetryOf>,
    /// Decides the instant without starting it.
    pub skip: Option<Skip>,
    /// The fingerprint of the schedule that has this instant, as it was [registered](Registration).
    pub schedule: u64,
    /// The revision of the job's controls that the caller knows.
    pub revision: u64,
    /// The rule for other open runs of the job.
    pub overlap: OverlapRule,
    /// The time for which the run counts as running without [a renewal](crate::RunLedger::renew); whole milliseconds.
    pub lease: Duration,
    /// The node that will run it, for people.
    pub node: String,
    /// Whether it makes up for a missed instant, for the record.
    pub catch_up: CatchUp,
    /// The length of the job's history, in entries; at least 1.
    pub history: u32,
}

/// A row of instants that are decided and not run. The last of them is the run of the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The first of them.
    pub first: RunId,
    /// The number of instants.
    pub count: u32,
    /// The reason, for people. Adjacent entries with equal reasons become one.
    pub detail: String,
}

/// The attempt that is to be followed by another, and the budgets that allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryOf {
    /// The claim of that attempt.
    pub claim: ClaimId,
    /// The number of failures after which another attempt may follow.
    pub failures: u32,
    /// The number of orphanings and interruptions after which another attempt may follow.
    pub orphanings: u32,
}

/// The rule for a run while others of its job are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverlapRule {
    /// It is skipped, and its instant is decided by that.
    Skip,
    /// It is not claimed yet.
    Queue,
    /// It is not claimed yet, and the others are asked to end.
    Replace,
    /// It is claimed while fewer than `max` are open, and skipped otherwise.
    Allow {
        /// The number of runs that may be open at once.
        max: u32,
    },
}

/// A request to renew the lease of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewRun {
    /// The job, in the group of the request.
    pub job: LockName,
    /// The run.
    pub run: RunId,
    /// Its attempt.
    pub claim: ClaimId,
    /// The least time for which it counts as running after the execution of the request; whole milliseconds.
    pub lease: Duration,
}

/// A request to record the end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndRequest {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub claim: ClaimId,
    /// The outcome of the attempt.
    pub outcome: RunOutcome,
    /// The reason of the outcome, for people.
    pub detail: String,
    /// The state of the run after the attempt.
    pub then: AfterAttempt,
    /// The length of the job's history, in entries; at least 1.
    pub history: u32,
}

/// The state of a run after the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AfterAttempt {
    /// The run is over.
    Finish,
    /// The attempt failed, and its node makes another one. The run stays open, and its lease is renewed.
    Retry,
    /// The attempt was interrupted, and any node may make another one at once.
    Reassign,
    /// The attempt has not begun, and any node may make it at once. No entry is written to the history.
    Requeue,
}
