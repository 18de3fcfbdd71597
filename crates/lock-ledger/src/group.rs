//! The state of a group: heartbeats, which record its live nodes and return what has changed, and its summary for
//! display.

use crate::{
    control::FleetControls,
    ids::GroupName,
    request::Registration,
    run::{Attempt, RunOutcome},
};
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;
use uuid::Uuid;

/// A request that records a live node and reads its group's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// The group.
    pub group: GroupName,
    /// The node. It replaces an earlier record with the same id.
    pub node: LiveNode,
    /// The time for which the node counts as alive without another heartbeat, in whole milliseconds; zero removes the
    /// node.
    pub lease: Duration,
    /// The revision of the group's controls that the node has read.
    pub known: u64,
    /// The jobs whose watermarks are returned.
    pub watermarks: Vec<Registration>,
}

/// A node that runs a group's jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct LiveNode {
    /// The node's random id. A restarted process is a different node.
    pub id: Uuid,
    /// The node's name, for display.
    pub name: String,
    /// The hash of the node's jobs, their schedules and its kinds, equal for nodes that agree on
    /// all three.
    pub jobs: u64,
    /// The number of additional runs that the node can start.
    pub room: u32,
    /// The kinds that the node has registered, sorted. A kind contains no slash.
    pub kinds: Vec<String>,
    /// `true` if the node leads the nodes with the same jobs, for display.
    pub leading: bool,
}

/// The reply to a heartbeat, read at a single point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The controls of the group, or [`FleetControls::Unchanged`] if the node already has their
    /// revision.
    pub controls: FleetControls,
    /// The revision of the group's instances; 0 if there have never been any.
    pub instances: u64,
    /// The live nodes of the group, ordered by id.
    pub nodes: Vec<LiveNode>,
    /// The time up to which the scheduled times of each requested job are decided, in order; `None`
    /// for an unknown job.
    pub watermarks: Vec<Option<UtcTime>>,
}

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
