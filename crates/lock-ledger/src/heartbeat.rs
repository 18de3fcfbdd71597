//! Heartbeats: the record of the live nodes of a group, and the state that a node reads with each of them.

use crate::{control::FleetControls, ids::GroupName, request::Registration};
use lock_core::clock::UtcTime;
use std::time::Duration;
use uuid::Uuid;

/// A request that shows that a node is alive, and reads the state of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// The group.
    pub group: GroupName,
    /// The node. This record replaces an earlier one with the same id.
    pub node: LiveNode,
    /// The time for which the node counts as alive without another heartbeat, in whole milliseconds; zero removes the
    /// node.
    pub lease: Duration,
    /// The revision of the group's controls that the node knows.
    pub known: u64,
    /// The jobs whose watermarks are read.
    pub watermarks: Vec<Registration>,
}

/// A node that runs jobs of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LiveNode {
    /// The random id of the node. A process that restarts is another node.
    pub id: Uuid,
    /// The name of the node, for display.
    pub name: String,
    /// The hash of its jobs, their schedules and its kinds. Nodes that agree on all three have the same hash.
    pub jobs: u64,
    /// The number of further runs that it has room for.
    pub room: u32,
    /// The kinds that the node has registered, sorted. A kind contains no slash.
    pub kinds: Vec<String>,
    /// `true` if it is the leader of the nodes with the same jobs, for display.
    pub leading: bool,
}

/// The reply to a heartbeat, read at a single moment of the server's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The controls of the group, or [`FleetControls::Unchanged`] if the node already knows their revision.
    pub controls: FleetControls,
    /// The revision of the group's instances; 0 if there have never been any.
    pub instances: u64,
    /// The live nodes of the group, ordered by id.
    pub nodes: Vec<LiveNode>,
    /// For each requested job, in order, the time up to which its instants are decided; `None` for an unknown job.
    pub watermarks: Vec<Option<UtcTime>>,
}
