//! The summary of a group: its live nodes, and the schedule and the latest outcomes of each job.

use crate::{
    heartbeat::LiveNode,
    run::{Attempt, RunOutcome},
};
use lock_core::{LockName, clock::ServerTime};

/// The description of a job, which the ledger keeps for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDescription {
    /// The job, in the group of the request.
    pub job: LockName,
    /// The schedule of the program. The ledger does not parse the text.
    pub schedule: String,
}

/// The summary of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSummary {
    /// The jobs that were described or have ended an attempt, ordered by name; no removed instance.
    pub jobs: Vec<JobSummary>,
    /// The live nodes, ordered by id.
    pub nodes: Vec<LiveNode>,
}

/// The summary of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSummary {
    /// The name of the job.
    pub job: LockName,
    /// The schedule of the program, or an empty text if the job was never described.
    pub schedule: String,
    /// The time of the last description, by the server's clock. A leader describes its jobs every minute.
    pub described: ServerTime,
    /// The last [`RECENT_OUTCOMES`](crate::RECENT_OUTCOMES) outcomes of attempts, newest first. Adjacent skips are one
    /// outcome.
    pub recent: Vec<RunOutcome>,
    /// The last attempt that has ended, unless it was a skip.
    pub last: Option<Attempt>,
    /// The end of the last attempt that succeeded.
    pub last_success: Option<ServerTime>,
    /// The end of the first failed attempt after the last success; `None` while the job does not fail. An attempt that
    /// was cancelled changes nothing.
    pub failing_since: Option<ServerTime>,
}
