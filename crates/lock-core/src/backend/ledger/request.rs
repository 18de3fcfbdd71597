//! What a ledger is asked. Requests are owned, so that a call outlives whoever started it.

use super::{
    RunOutcome,
    ids::{ClaimId, JobId, RunId},
};
use crate::{name::LockName, token::FencingToken};
use std::time::Duration;
use uuid::Uuid;

/// Start a run, if nothing speaks against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: RunId,
    /// Who asks. Asking twice with the same id is asking once.
    pub claim: ClaimId,
    /// The attempt that this one follows, if it is not the first.
    pub again: Option<Again>,
    /// The fencing token of the leadership under which this is asked.
    pub epoch: FencingToken,
    /// The revision of the job's orders that the caller knows.
    pub revision: u64,
    /// By how much the instant may lie ahead of the server's clock.
    pub tolerance: Duration,
    /// What becomes of the run if others of the job are open.
    pub overlap: OverlapRule,
    /// For how long the run counts as running without being [kept](super::RunLedger::keep); whole milliseconds.
    pub lease: Duration,
    /// Who will run it, for people.
    pub node: String,
    /// Whether it is late because nobody could start it in time, for the record.
    pub catch_up: CatchUp,
    /// How many instants before this one were missed and will not be run, for the record.
    pub missed: u32,
}

/// The attempt that is to be followed by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Again {
    /// Its claim.
    pub claim: ClaimId,
    /// How many attempts the run may have in all.
    pub most: u32,
}

/// Whether a run makes up for an instant that was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CatchUp {
    /// It does.
    Yes,
    /// It was due.
    No,
}

/// What becomes of a run while others of its job are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverlapRule {
    /// It is skipped, and its instant is decided by that.
    Skip,
    /// It is not claimed yet.
    Queue,
    /// It is not claimed yet, and the others are told to end.
    Replace,
    /// It is claimed while fewer than so many are open, and skipped otherwise.
    Allow {
        /// How many may be open at once.
        max: u32,
    },
}

/// Keep a run from being taken for an orphan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepRun {
    /// The job, of the group that is asked.
    pub job: LockName,
    /// The run.
    pub run: RunId,
    /// Its attempt.
    pub claim: ClaimId,
    /// The time from the execution on that it shall count as running at least; whole milliseconds.
    pub lease: Duration,
}

/// Record how an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndRequest {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub claim: ClaimId,
    /// How it ended.
    pub outcome: RunOutcome,
    /// In words, for people.
    pub detail: String,
    /// What comes after it.
    pub then: Then,
}

/// What comes after the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Then {
    /// Nothing: the run is over.
    Over,
    /// Another attempt: the run stays open until then.
    Again,
}

/// An order for a job, for the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Start no more scheduled runs.
    Pause,
    /// Start them again, from now on.
    Resume,
    /// Use this schedule, from now on; the text is the caller's to read.
    Replace(String),
    /// Use the schedule of the program again, from now on.
    Restore,
    /// Start a run now.
    Trigger(Uuid),
}
