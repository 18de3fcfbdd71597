//! The summary of a group: its live nodes, and the schedule and the latest outcomes of each job.

use crate::{
    heartbeat::LiveNode,
    run::{Attempt, RunOutcome},
};
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;

/// The description of a job or of a kind, which the ledger keeps for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDescription {
    /// The job, in the group of the request; or a kind, by its name and a slash.
    pub job: LockName,
    /// The schedule of the program, or an empty string for a kind. The ledger does not parse the text.
    pub schedule: String,
    /// The policy of the schedule for clock changes. The ledger does not parse the text.
    pub dst: String,
    /// The terms of the job. The ledger does not parse the text.
    pub terms: String,
    /// The time without a success after which the job is overdue; whole milliseconds.
    pub alert_after: Option<Duration>,
}

/// The summary of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSummary {
    /// The kinds that have a description, and the jobs that have one or at least one outcome, ordered by name; removed
    /// instances are left out.
    pub jobs: Vec<JobSummary>,
    /// The live nodes, ordered by id.
    pub nodes: Vec<LiveNode>,
}

/// The summary of a job, or the description of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSummary {
    /// The name of the job, or the name of the kind and a slash.
    pub job: LockName,
    /// The schedule of the program, or an empty string if the job was never described.
    pub schedule: String,
    /// The policy of the schedule for clock changes, or an empty string if it was never described.
    pub dst: String,
    /// The terms of the job, or an empty string if they were never described.
    pub terms: String,
    /// The time without a success after which the job is overdue, if its description has one.
    pub alert_after: Option<Duration>,
    /// The time at which the latest schedule of the job started, as of its last description; `None` if it was never
    /// described.
    pub since: Option<UtcTime>,
    /// The time of the last description, by the server's clock. A leader describes its jobs every minute.
    pub described: UtcTime,
    /// The last [`RECENT_OUTCOMES`](crate::RECENT_OUTCOMES) outcomes of attempts, newest first. Adjacent skips are one
    /// outcome.
    pub recent: Vec<RunOutcome>,
    /// The last attempt that ended, not counting skips.
    pub last: Option<Attempt>,
    /// The end of the last attempt that succeeded, by the server's clock.
    pub last_success: Option<UtcTime>,
    /// The end of the first failed attempt after the last success, by the server's clock; `None` while the job does not
    /// fail. An attempt that was cancelled changes nothing.
    pub failing_since: Option<UtcTime>,
}
