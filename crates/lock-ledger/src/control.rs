//! Commands for the jobs of a fleet, and the controls that they set: pauses, schedules and triggers.

use crate::{
    backfill::{Backfill, BackfillRequest},
    ids::RunId,
};
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;
use uuid::Uuid;

/// A command for a job, which applies to the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobCommand {
    /// Stops starting scheduled runs. Pausing a paused job replaces the note.
    Pause(PauseNote),
    /// Starts scheduled runs again, from now on.
    Resume,
    /// Uses this schedule from now on. The ledger does not parse the text.
    Replace(String),
    /// Uses the schedule of the program again from now on.
    Restore,
    /// Sets the watermark to the server's current time, even if that lowers it. No other operation lowers it. Runs
    /// start again after the server's clock was ahead.
    Reset,
    /// Sets the controls that the caller read before the group lost its data, if their revision is higher than the
    /// revision of the job's current controls. A command since the loss has a higher one, so it is kept. A job that the
    /// ledger does not have is registered, with a watermark of now.
    Reinstate(JobControls),
    /// Starts a run now.
    Trigger {
        /// The run.
        id: Uuid,
        /// The time in which it may be started; whole milliseconds.
        life: Duration,
        /// The argument of the run, which every claim of it returns. An empty string counts as none. The ledger does
        /// not parse it.
        payload: Option<String>,
    },
    /// Withdraws a trigger that has not been started.
    CancelTrigger(Uuid),
    /// Runs past instants, oldest first and one at a time.
    Backfill(BackfillRequest),
    /// Withdraws the instants of a backfill that were not started.
    CancelBackfill(Uuid),
    /// Asks the open runs of the job to end for good, or one of them. It is accepted for a removed instance as well.
    Cancel {
        /// The run; `None` for all open ones.
        run: Option<RunId>,
    },
}

/// The author of a pause and the reason for it, for display.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PauseNote {
    /// The author, or an empty string.
    pub actor: String,
    /// The reason, or an empty string.
    pub text: String,
}

/// The reply to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommandReply {
    /// The command is in force for the fleet.
    Accepted {
        /// The revision of the group's controls.
        revision: u64,
    },
    /// The ledger does not have the job.
    Unregistered,
    /// [`MAX_TRIGGERS`](crate::MAX_TRIGGERS) of the group or [`MAX_TRIGGERS_PER_JOB`](crate::MAX_TRIGGERS_PER_JOB) of
    /// the job are already waiting, or [`MAX_TRIGGER_PAYLOADS`](crate::MAX_TRIGGER_PAYLOADS) of the group with a
    /// payload; or [`MAX_BACKFILLS`](crate::MAX_BACKFILLS) or
    /// [`MAX_BACKFILLS_PER_JOB`](crate::MAX_BACKFILLS_PER_JOB) are open.
    Full,
    /// The trigger or the backfill to cancel is no longer waiting, or there is no open run to cancel.
    Gone,
}

/// The controls of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FleetControls {
    /// The controls have the revision that the caller knows.
    Unchanged,
    /// They have changed.
    Changed {
        /// Their revision.
        revision: u64,
        /// The time at which the first job of the group was added or registered, by the server's clock. It
        /// changes after a loss of data. `None` for a group without data.
        created: Option<UtcTime>,
        /// The controls of each job that has ever received a command, ordered by name.
        jobs: Vec<(LockName, JobControls)>,
        /// The waiting triggers, oldest first.
        triggers: Vec<Trigger>,
        /// The backfills, oldest first.
        backfills: Vec<Backfill>,
    },
}

/// The controls of a job, as set by commands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JobControls {
    /// The revision of these controls; 0 before the first command.
    pub revision: u64,
    /// `true` if scheduled runs are paused.
    pub paused: bool,
    /// The note of the pause; empty unless the job is paused.
    pub note: PauseNote,
    /// The schedule that replaces the program's.
    pub schedule: Option<String>,
}

/// A triggered run that no node has started yet. Its payload is returned by the claim, not with the trigger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trigger {
    /// The time of the command, by the server's clock.
    pub given: UtcTime,
    /// The time after which it is no longer started, by the server's clock.
    pub until: UtcTime,
    /// The id of the run.
    pub id: Uuid,
    /// The job.
    pub job: LockName,
}
