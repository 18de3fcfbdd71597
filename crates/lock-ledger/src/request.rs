//! What a ledger is asked. Requests are owned, so that a call outlives whoever started it.

use super::{
    RunOutcome,
    ids::{ClaimId, JobId, RunId},
};
use lock_core::LockName;
use std::time::Duration;
use uuid::Uuid;

/// Makes a job known with its schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The job, of the group that is asked.
    pub job: LockName,
    /// The fingerprint of its schedule: equal on all nodes for which the schedule means the same.
    pub schedule: u64,
}

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
    /// Decides the instant without starting it.
    pub skip: Option<Skip>,
    /// The fingerprint of the schedule that has this instant, as it was [registered](super::Registration).
    pub schedule: u64,
    /// The revision of the job's orders that the caller knows.
    pub revision: u64,
    /// What becomes of the run if others of the job are open.
    pub overlap: OverlapRule,
    /// For how long the run counts as running without being [kept](super::RunLedger::keep); whole milliseconds.
    pub lease: Duration,
    /// Who will run it, for people.
    pub node: String,
    /// Whether it is late because nobody could start it in time, for the record.
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
    /// The reason, for people. Entries of one reason that follow one another are folded.
    pub detail: String,
}

/// The attempt that is to be followed by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Again {
    /// Its claim.
    pub claim: ClaimId,
    /// The number of failures after which another attempt may follow.
    pub failures: u32,
    /// The number of orphanings and interruptions after which another attempt may follow.
    pub orphanings: u32,
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
    /// The length of the job's history, in entries; at least 1.
    pub history: u32,
}

/// The state of a run after the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Then {
    /// The run is over.
    Over,
    /// The attempt failed, and its node makes another one. The run stays open and is kept.
    Again,
    /// The attempt was interrupted, and any node may make another one at once.
    HandOver,
    /// The attempt has not begun, and any node may make it at once. No entry is written to the history.
    GiveBack,
}

/// An order for a job, for the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Starts no more scheduled runs.
    Pause,
    /// Starts them again, from now on.
    Resume,
    /// Uses this schedule, from now on; the text is the caller's to read.
    Replace(String),
    /// Uses the schedule of the program again, from now on.
    Restore,
    /// Sets the watermark to the server's now, also if that lowers it. The only operation that lowers one: it ends the
    /// silence after the server's clock was ahead.
    Reset,
    /// Starts a run now.
    Trigger {
        /// The run.
        id: Uuid,
        /// The time after which it is not started any more; whole milliseconds.
        life: Duration,
    },
    /// Withdraws a trigger that has not been started.
    CancelTrigger(Uuid),
}
