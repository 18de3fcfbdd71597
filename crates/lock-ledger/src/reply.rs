//! What a ledger answers.

use super::{
    CatchUp,
    ids::{ClaimId, RunId},
};
use lock_core::{FencingToken, LockName, ServerTime};
use std::{fmt, time::Duration};
use uuid::Uuid;

/// The state of a job that was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registered {
    /// The time up to which nothing of this schedule is started any more: the watermark of the job, or the time since which
    /// it has this schedule, whichever is later. It is ahead of the server's now after its clock was.
    pub watermark: ServerTime,
    /// Whether the store had the job.
    pub state: Known,
}

/// Whether a ledger had a job before it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Known {
    /// No: it is new, or the data were lost.
    New,
    /// Yes.
    Before,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Claimed {
    /// The run is the caller's to start.
    Claimed {
        /// The fencing token of this attempt.
        token: FencingToken,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The number of attempts before it that failed.
        failures: u32,
    },
    /// This very instant was decided before, or the trigger was used.
    Duplicate,
    /// A later instant was decided before.
    Superseded,
    /// The instant has not come yet.
    Early {
        /// When to ask again.
        wait: Duration,
    },
    /// The run is decided and not started: other runs are open, or the request asked for a [skip](super::Skip).
    Skipped,
    /// The trigger waited for longer than its life. It is withdrawn.
    Expired,
    /// Other runs are open, and the rule says that this one waits. Ask again.
    Busy {
        /// How many others.
        running: u32,
    },
    /// The job is paused.
    Paused,
    /// The orders for the job have changed: read them.
    Outdated,
    /// The attempt that is to be followed is not there any more, or was the last; or the lease of this very claim is over.
    Gone,
    /// The job has no watermark: the data were lost; register it again.
    Unregistered,
}

/// The answer to keeping a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeptRun {
    /// It counts as running for longer.
    Kept,
    /// The same, and it is asked to end, since a later run is to replace it.
    Replaced,
    /// It has ended, was taken over, or its time was over.
    Gone,
}

/// The answer to the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// It is recorded, now or before.
    Recorded,
    /// There is no such attempt: somebody else has ended it, or the data were lost.
    Gone,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// It did what it should.
    Succeeded,
    /// It gave an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It took longer than it may.
    TimedOut,
    /// It was asked to end.
    Cancelled,
    /// Nobody knows: whoever ran it died, or lost it.
    Abandoned,
    /// It was decided and not started.
    Skipped,
    /// A later version of this library wrote another word.
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

    /// Returns the word of the outcome, as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, _)| *outcome == self).map_or("other", |(_, word)| word)
    }

    /// Reads a stored word; an unknown one is [`Other`](Self::Other).
    #[must_use]
    pub fn of_word(text: &str) -> Self {
        Self::ALL.iter().find(|(_, word)| *word == text).map_or(Self::Other, |(outcome, _)| *outcome)
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry of a history: one attempt of a run, or a row of runs that were skipped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The run; of a row the last one.
    pub run: RunId,
    /// The first run of a row; otherwise the run.
    pub first: RunId,
    /// The number of runs in a row; otherwise 1.
    pub count: u32,
    /// The number of the attempt, from 1; 0 for a run that was skipped.
    pub attempt: u32,
    /// Its claim.
    pub claim: ClaimId,
    /// Its fencing token; 0 for a run that was skipped.
    pub token: FencingToken,
    /// The node that ran or skipped it.
    pub node: String,
    /// Whether it made up for a missed instant.
    pub catch_up: CatchUp,
    /// The time at which it was claimed, by the server's clock.
    pub started: ServerTime,
    /// The time at which its end was recorded.
    pub ended: ServerTime,
    /// The way in which it ended.
    pub outcome: RunOutcome,
    /// The reason, in words.
    pub detail: String,
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenRun {
    /// The job.
    pub job: LockName,
    /// The run.
    pub run: RunId,
    /// The number of its last attempt, from 1.
    pub attempt: u32,
    /// The claim of that attempt.
    pub claim: ClaimId,
    /// The fencing token of that attempt.
    pub token: FencingToken,
    /// Who runs it.
    pub node: String,
    /// When that attempt was claimed, by the server's clock.
    pub started: ServerTime,
    /// How much longer it counts as running.
    pub remaining: Duration,
    /// Whether it runs.
    pub state: RunState,
}

/// Where an open run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// An attempt is under way.
    Running,
    /// The last attempt failed, and its node makes another one.
    Waiting,
    /// Its node has not kept it: the node died, or lost it.
    Orphaned,
    /// No node has it, and no attempt is under way: the next leader goes on with it.
    Released,
}

/// The answer to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ordered {
    /// It holds from now on, for the fleet.
    Accepted {
        /// The revision of the group's orders.
        revision: u64,
    },
    /// There is no such job.
    Unregistered,
    /// [`MOST_TRIGGERS`](super::MOST_TRIGGERS) of the group, or [`MOST_OF_A_JOB`](super::MOST_OF_A_JOB) of the job, wait
    /// already.
    Full,
    /// The trigger that is to be cancelled does not wait any more.
    Gone,
}

/// The orders of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Orders {
    /// They are those that the caller knows.
    Unchanged,
    /// They are these.
    Changed {
        /// Their revision.
        revision: u64,
        /// Of each job that has ever had an order, in the order of the names.
        jobs: Vec<(LockName, JobOrders)>,
        /// The triggers that wait, the oldest first.
        triggers: Vec<Trigger>,
    },
}

/// What was ordered for a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JobOrders {
    /// The revision of these orders; 0 before the first.
    pub revision: u64,
    /// Whether its scheduled runs are paused.
    pub paused: bool,
    /// The schedule that replaces that of the program.
    pub schedule: Option<String>,
}

/// An order to start a run that was not carried out yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trigger {
    /// When it was given, by the server's clock.
    pub given: ServerTime,
    /// The time after which it is not started any more, by the server's clock.
    pub until: ServerTime,
    /// The run that it is.
    pub id: Uuid,
    /// Of which job.
    pub job: LockName,
}
