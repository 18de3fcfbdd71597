//! A group's summary: its live nodes, and each job's schedule and latest outcomes.

use crate::{
    heartbeat::LiveNode,
    run::{Attempt, RunOutcome},
};
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;

/// The description of a job or kind, which the ledger stores for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDescription {
    /// The job, in the request's group, or a kind's name followed by a slash.
    pub job: LockName,
    /// The program's schedule, or an empty string for a kind. The ledger does not parse the text.
    pub schedule: String,
    /// The schedule's policy for clock changes. The ledger does not parse the text.
    pub dst: String,
    /// The job's terms. The ledger does not parse the text.
    pub terms: String,
    /// The time without a success after which the job is overdue, in whole milliseconds.
    pub alert_after: Option<Duration>,
}

/// The summary of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSummary {
    /// The kinds with a description, and the jobs with a description or an outcome, ordered by
    /// name. Removed instances are left out.
    pub jobs: Vec<JobSummary>,
    /// The live nodes, ordered by id.
    pub nodes: Vec<LiveNode>,
}

/// The summary of a job, or the description of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSummary {
    /// The job's name, or the kind's name followed by a slash.
    pub job: LockName,
    /// The program's schedule, or an empty string if the job was never described.
    pub schedule: String,
    /// The schedule's policy for clock changes, or an empty string if it was never described.
    pub dst: String,
    /// The job's terms, or an empty string if they were never described.
    pub terms: String,
    /// The time without a success after which the job is overdue, if described.
    pub alert_after: Option<Duration>,
    /// The time at which the job's latest schedule started, as of its last description; `None` if
    /// it was never described.
    pub since: Option<UtcTime>,
    /// The time of the last description, by the server's clock. A leader describes its jobs every minute.
    pub described: UtcTime,
    /// The last [`RECENT_OUTCOMES`](crate::RECENT_OUTCOMES) outcomes of attempts, newest first.
    /// Adjacent skips count as one outcome.
    pub recent: Vec<RunOutcome>,
    /// The last attempt that ended, not counting skips.
    pub last: Option<Attempt>,
    /// The end of the last attempt that succeeded, by the server's clock.
    pub last_success: Option<UtcTime>,
    /// The end of the first failed attempt after the last success, by the server's clock; `None`
    /// while the job is not failing. Cancelled attempts do not affect it.
    pub failing_since: Option<UtcTime>,
}
