//! A node, its name, and whether it keeps its data.

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
    /// A node of that name, as errors and metrics show it. It must not fail together with another node.
    pub fn new(name: impl Into<Arc<str>>, backend: impl QuorumNode) -> Self {
        Self::shared(name, Arc::new(backend))
    }

    /// The same, of a node that is shared.
    pub fn shared(name: impl Into<Arc<str>>, backend: Arc<dyn QuorumNode>) -> Self {
        Self { name: name.into(), backend, is_durable: false }
    }

    /// Declares that this node never loses an answered write, not even in a crash, so that it votes at once after a restart.
    ///
    /// On Redis this takes `appendonly yes` with `appendfsync always`, and `noeviction`. Of a node that does lose data, the
    /// declaration lets two processes hold one lock.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// A node that has kept its data for a shorter time does not vote.
    pub(super) fn min_age(&self, max_lease: Duration) -> Duration {
        if self.is_durable { Duration::ZERO } else { max_lease }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("is_durable", &self.is_durable).finish()
    }
}
