//! Open runs, and attempts that have ended.

use crate::ids::{ClaimId, JobId, RunId};
use lock_core::{FencingToken, LockName, clock::UtcTime};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Indicates whether a run makes up for a missed scheduled time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub enum CatchUp {
    /// The run makes up for a missed scheduled time.
    Yes,
    /// The run does not make up for a missed scheduled time.
    No,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The body returned `Ok`.
    Succeeded,
    /// The body returned an error.
    Failed,
    /// The body panicked.
    Panicked,
    /// The body exceeded its timeout.
    TimedOut,
    /// The body was cancelled.
    Cancelled,
    /// The outcome is unknown because the node crashed or lost the run.
    Abandoned,
    /// The run was decided but not started.
    Skipped,
    /// An outcome written by a later version of this library.
    Other,
}

impl RunOutcome {
    const ALL: [(Self, &str); 8] = [
        (Self::Succeeded, "succeeded"),
        (Self::Failed, "failed"),
        (Self::Panicked, "panicked"),
        (Self::TimedOut, "timed_out"),
        (Self::Cancelled, "cancelled"),
        (Self::Abandoned, "abandoned"),
        (Self::Skipped, "skipped"),
        (Self::Other, "other"),
    ];

    /// Returns the word stored for the outcome.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, _)| *outcome == self).map_or("other", |(_, word)| word)
    }

    /// Parses a stored word. Unknown words become [`Other`](Self::Other).
    #[must_use]
    pub fn from_word(text: &str) -> Self {
        Self::ALL.iter().find(|(_, word)| *word == text).map_or(Self::Other, |(outcome, _)| *outcome)
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry of a history: one attempt of a run, or consecutive skipped runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Attempt {
    /// The run, or the last one of consecutive skips.
    pub run: RunId,
    /// The first run of consecutive skips; otherwise the run.
    pub first: RunId,
    /// The number of consecutive skips; otherwise 1.
    pub count: u32,
    /// The number of the attempt, starting at 1; 0 for a skip.
    pub attempt: u32,
    /// The claim of the attempt.
    pub claim: ClaimId,
    /// The fencing token of the attempt; 0 for a skip.
    pub token: FencingToken,
    /// The node that ran or skipped the run.
    pub node: String,
    /// [`Yes`](CatchUp::Yes) if the run made up for a missed scheduled time.
    pub catch_up: CatchUp,
    /// The time of the claim, by the server's clock.
    pub started: UtcTime,
    /// The time at which the end was recorded, by the server's clock.
    pub ended: UtcTime,
    /// The outcome.
    pub outcome: RunOutcome,
    /// The reason for the outcome, for display.
    pub detail: String,
}

/// The attempt of a run whose body is being executed, for a store that records its end in a transaction of the
/// application. The context of a run in `lock-cron` converts into it with `as_ref`.
#[derive(Debug, Clone)]
pub struct StartedRun {
    job: JobId,
    run: RunId,
    claim: ClaimId,
    left_to_transaction: Arc<AtomicBool>,
}

impl StartedRun {
    /// Describes an attempt.
    #[must_use]
    pub fn new(job: JobId, run: RunId, claim: ClaimId) -> Self {
        Self { job, run, claim, left_to_transaction: Arc::default() }
    }

    /// Returns the job.
    #[must_use]
    pub fn job(&self) -> &JobId {
        &self.job
    }

    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns the claim of the attempt.
    #[must_use]
    pub fn claim(&self) -> ClaimId {
        self.claim
    }

    /// Leaves the record of its success to a transaction. If that is not committed, the attempt was interrupted.
    pub fn leave_to_transaction(&self) {
        self.left_to_transaction.store(true, Ordering::Release);
    }

    /// Returns `true` if the record of its success is left to a transaction.
    #[must_use]
    pub fn is_left_to_transaction(&self) -> bool {
        self.left_to_transaction.load(Ordering::Acquire)
    }
}

impl AsRef<Self> for StartedRun {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenRun {
    /// The job.
    pub job: LockName,
    /// The run.
    pub run: RunId,
    /// The number of the last attempt, starting at 1.
    pub attempt: u32,
    /// The claim of that attempt.
    pub claim: ClaimId,
    /// The fencing token of that attempt.
    pub token: FencingToken,
    /// The node that claimed the attempt.
    pub node: String,
    /// The time of that claim, by the server's clock.
    pub started: UtcTime,
    /// The remaining time for which the run counts as running without a renewal.
    pub remaining: Duration,
    /// The state of the run.
    pub state: RunState,
    /// The pool in which the run occupies a slot while its lease lasts.
    pub pool: Option<LockName>,
    /// `true` if the run was cancelled by [`JobCommand::Cancel`](crate::JobCommand::Cancel).
    pub cancelled: bool,
    /// The number of times that a node [declined](crate::AfterAttempt::Decline) the run.
    pub declines: u32,
}

/// The state of an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// An attempt is running.
    Running,
    /// The last attempt failed, and its node is waiting to start another one.
    Waiting,
    /// The node crashed or lost the run, and has not renewed it.
    Orphaned,
    /// No attempt is running. The leader continues the run.
    Released,
}

impl RunState {
    /// Returns the state as one word in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Orphaned => "orphaned",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
