//! The nodes and settings of a quorum.

use crate::{node::Member, rules::MAX_CLOCK_DISTANCE, shared::Shared};
use lock_core::{
    __private::Random,
    LockError, OptionsError,
    clock::{BootClock, Clock},
};
use std::{sync::Arc, time::Duration};

/// Default of [`QuorumBuilder::max_lease`].
const MAX_LEASE: Duration = Duration::from_secs(30);
/// The smallest quorum that survives the loss of a node.
const MIN_NODES: usize = 3;

/// A builder for a [`QuorumBackend`](crate::QuorumBackend).
#[derive(Debug)]
pub struct QuorumBuilder {
    nodes: Vec<Member>,
    max_lease: Duration,
    clock: Option<Arc<dyn Clock>>,
    random: Random,
}

impl QuorumBuilder {
    pub(super) fn new(nodes: Vec<Member>) -> Self {
        Self { nodes, max_lease: MAX_LEASE, clock: None, random: Random::default() }
    }

    /// Sets the longest lease that the quorum accepts; 30 s by default. Requests for longer leases fail.
    ///
    /// All clients must use the same value. A node that lost its data does not vote for this long; by then, every lease
    /// that it may have forgotten has expired. A new quorum waits this long once, unless its nodes are
    /// [durable](Member::durable).
    #[must_use]
    pub fn max_lease(mut self, lease: Duration) -> Self {
        self.max_lease = lease;
        self
    }

    /// Replaces the clock. The default is the boot-time clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Replaces the source of random numbers, for simulations.
    #[cfg(feature = "__internal")]
    #[doc(hidden)]
    #[must_use]
    pub fn random(mut self, number: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        self.random = Random::Given(number);
        self
    }

    /// Validates the settings.
    pub(super) fn checked(self) -> Result<Shared, LockError> {
        let nodes = self.nodes.len();
        if nodes < MIN_NODES {
            let text = format!(
                "a quorum of {nodes} nodes cannot tolerate the loss of one: use at least {MIN_NODES}"
            );
            return Err(OptionsError::new(text).into());
        }
        let least = MAX_CLOCK_DISTANCE * 4;
        if self.max_lease <= least {
            let least = least + Duration::from_millis(1);
            return Err(OptionsError::too_short("max_lease", least).into());
        }
        if nodes.is_multiple_of(2) {
            tracing::warn!(
                nodes,
                "the quorum has an even number of nodes; it would tolerate just as many failures with one fewer node"
            );
        }
        let clock = self.clock.unwrap_or_else(|| Arc::new(BootClock::new()));
        Ok(Shared::new(self.nodes, clock, self.max_lease, self.random))
    }
}
