//! Commands for a fleet's jobs, and the controls that they set: pauses, schedules, triggers, and backfills, which run a
//! job for past scheduled times.

use crate::ids::RunId;
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;
use uuid::Uuid;

/// A command for a job, which applies to the entire fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobCommand {
    /// Pauses scheduled runs. Pausing a paused job replaces the note.
    Pause(PauseNote),
    /// Resumes scheduled runs from now on.
    Resume,
    /// Replaces the program's schedule with this one from now on. The ledger does not parse the
    /// text.
    Replace(String),
    /// Uses the program's schedule again from now on.
    Restore,
    /// Sets the watermark to the server's current time, even if that lowers it. No other operation
    /// lowers it. Lets runs start again after the server's clock was ahead.
    Reset,
    /// Restores the controls that the caller read before the group lost its data, if their revision
    /// is higher than that of the job's current controls. Controls set since the loss have a higher
    /// revision, so they are kept. An unknown job is registered with the current time as its
    /// watermark.
    Reinstate(JobControls),
    /// Starts a run immediately.
    Trigger {
        /// The run.
        id: Uuid,
        /// The time within which the run can be started, in whole milliseconds.
        life: Duration,
        /// The run's argument, which each of its claims returns. An empty string counts as none.
        /// The ledger does not parse it.
        payload: Option<String>,
    },
    /// Withdraws a trigger that has not been started.
    CancelTrigger(Uuid),
    /// Runs the job for past scheduled times, one at a time, oldest first.
    Backfill(BackfillRequest),
    /// Withdraws the scheduled times of a backfill that have not been started.
    CancelBackfill(Uuid),
    /// Cancels one or all open runs of the job, without further attempts. Also accepted for a
    /// removed instance.
    Cancel {
        /// The run; `None` for all open runs.
        run: Option<RunId>,
    },
}

/// The author of a pause and the reason for it, for display.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
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
    /// The command applies to the fleet.
    Accepted {
        /// The revision of the group's controls.
        revision: u64,
    },
    /// The job is not in the ledger.
    Unregistered,
    /// A limit is reached: [`MAX_TRIGGERS`](crate::MAX_TRIGGERS),
    /// [`MAX_TRIGGERS_PER_JOB`](crate::MAX_TRIGGERS_PER_JOB) or
    /// [`MAX_TRIGGER_PAYLOADS`](crate::MAX_TRIGGER_PAYLOADS) for pending triggers, or
    /// [`MAX_BACKFILLS`](crate::MAX_BACKFILLS) or
    /// [`MAX_BACKFILLS_PER_JOB`](crate::MAX_BACKFILLS_PER_JOB) for open backfills.
    Full,
    /// The trigger or the backfill to cancel is no longer waiting, or there is no open run to cancel.
    Gone,
}

/// The controls of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FleetControls {
    /// The controls still have the caller's revision.
    Unchanged,
    /// The controls have changed.
    Changed {
        /// The current revision of the controls.
        revision: u64,
        /// The time at which the first job of the group was added or registered, by the server's
        /// clock. It changes after a data loss. `None` for a group without data.
        created: Option<UtcTime>,
        /// The controls of each job that has received a command, ordered by name.
        jobs: Vec<(LockName, JobControls)>,
        /// The pending triggers, oldest first.
        triggers: Vec<Trigger>,
        /// The backfills, oldest first.
        backfills: Vec<Backfill>,
        /// The revision at which a node last [declined](crate::AfterAttempt::Decline) a run; 0 if none has.
        declined: u64,
    },
}

/// The controls of a job, as set by commands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct JobControls {
    /// The revision of these controls; 0 before the first command.
    pub revision: u64,
    /// `true` if scheduled runs are paused.
    pub paused: bool,
    /// The pause note; empty unless the job is paused.
    pub note: PauseNote,
    /// The schedule that replaces the program's.
    pub schedule: Option<String>,
}

/// A triggered run that no node has started yet. Only the claim returns its payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Trigger {
    /// The time of the command, by the server's clock.
    pub given: UtcTime,
    /// The time after which the run is no longer started, by the server's clock.
    pub until: UtcTime,
    /// The run's id.
    pub id: Uuid,
    /// The job.
    pub job: LockName,
}

/// A request to run a job for past times of a schedule. The ledger parses neither the schedule nor
/// the policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackfillRequest {
    /// The backfill's random id.
    pub id: Uuid,
    /// The first scheduled time, in whole milliseconds. It must be after the epoch.
    pub first: UtcTime,
    /// The last scheduled time, in whole milliseconds.
    pub last: UtcTime,
    /// The number of scheduled times, for display.
    pub count: u32,
    /// The schedule, with its time zone.
    pub schedule: String,
    /// The policy for clock changes.
    pub dst: String,
}

/// A backfill with scheduled times left to start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Backfill {
    /// The backfill's id.
    pub id: Uuid,
    /// The job.
    pub job: LockName,
    /// The time of the command, by the server's clock.
    pub given: UtcTime,
    /// The first scheduled time.
    pub first: UtcTime,
    /// The time up to which runs have been started.
    pub mark: UtcTime,
    /// The last scheduled time.
    pub last: UtcTime,
    /// The number of scheduled times, for display.
    pub count: u32,
    /// The number of scheduled times that have been started, for display.
    pub done: u32,
    /// The schedule, with its time zone.
    pub schedule: String,
    /// The policy for clock changes.
    pub dst: String,
}
