//! Heartbeats, which record a group's live nodes and return its state.

use crate::{control::FleetControls, ids::GroupName, request::Registration};
use lock_core::clock::UtcTime;
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
