//! A node of a quorum, with its name and its durability.

use super::node::QuorumNode;
use std::{fmt, sync::Arc, time::Duration};

/// A node of a quorum.
#[derive(Clone)]
pub struct Member {
    pub(super) name: Arc<str>,
    pub(super) backend: Arc<dyn QuorumNode>,
    is_durable: bool,
}

impl Member {
    /// Creates a member with this name, which errors and metrics show. Nodes must fail independently of each other.
    pub fn new(name: impl Into<Arc<str>>, backend: impl QuorumNode) -> Self {
        Self::shared(name, Arc::new(backend))
    }

    /// Creates a member from a node that other code also uses.
    pub fn shared(name: impl Into<Arc<str>>, backend: Arc<dyn QuorumNode>) -> Self {
        Self { name: name.into(), backend, is_durable: false }
    }

    /// Declares that this node never loses an acknowledged write, even in a crash. It then votes immediately after a
    /// restart.
    ///
    /// On Redis this requires `appendonly yes`, `appendfsync always` and `noeviction`. If the declaration is false, two
    /// processes can hold one lock.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Returns the minimum time for which the node must have kept its data to vote.
    pub(super) fn min_age(&self, max_lease: Duration) -> Duration {
        if self.is_durable { Duration::ZERO } else { max_lease }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("is_durable", &self.is_durable).finish()
    }
}
