//! The live nodes of a group.

use super::state::{GroupLedger, KnownNode};
use crate::heartbeat::{HeartbeatReply, HeartbeatRequest};
use lock_core::{__private::expiry, clock::UtcTime};

impl GroupLedger {
    /// Records that a node is alive, removes nodes whose lease has ended, and reads the group's
    /// state.
    pub fn heartbeat(&mut self, now: UtcTime, r: &HeartbeatRequest) -> HeartbeatReply {
        if r.lease.is_zero() {
            self.nodes.remove(&r.node.id);
        } else {
            let known = KnownNode { node: r.node.clone(), expires_ms: expiry(now, r.lease) };
            self.nodes.insert(r.node.id, known);
        }
        self.nodes.retain(|_, known| now.as_millis() <= known.expires_ms);
        HeartbeatReply {
            controls: self.controls(r.known),
            instances: self.instances_revision,
            nodes: self.nodes.values().map(|known| known.node.clone()).collect(),
            watermarks: self.watermarks(&r.watermarks),
        }
    }
}
