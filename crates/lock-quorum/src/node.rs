//! A node of a quorum: the operations that its store must implement, also implemented in memory, and its name and
//! durability.

use crate::rules::{Extended, Extension, Healed, Healing, Proposal, Vote, extend, heal, propose};
use async_trait::async_trait;
use lock_core::{
    MemoryBackend,
    backend::{Backend, BackendError, BackendExt as _, ReleaseRequest, Released, Reply, Subscriptions},
    clock::UtcTime,
};
use std::{fmt, sync::Arc, time::Duration};

/// Retention of the counters of a [`MemoryBackend`], by default.
const RETENTION: Duration = Duration::from_secs(60);

/// A store that can be a node of a quorum.
///
/// The contract of [`Backend`] also applies to these operations: repeating them is harmless, none creates or extends a
/// lease after its `not_after`, and an expiry never moves earlier. `release`, `inspect` and `force_release` come from
/// `Backend`. A release with [`NotifyWaiters::No`](lock_core::backend::NotifyWaiters::No) must not notify any waiter.
#[async_trait]
pub trait QuorumNode: Backend + Subscriptions {
    /// Votes on a proposal. To grant it, the node stores the lease and raises its counter to the end of the token
    /// range.
    async fn propose(&self, proposal: Proposal) -> Result<NodeReply<Vote>, BackendError>;

    /// Extends leases that the node has, and never creates one. Returns one reply per item, in the same order. The
    /// failure of one item must not delay or fail another.
    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>>;

    /// Restores a lease that this node lost while a majority kept it, and raises the counter to the end of its token
    /// range.
    async fn heal(&self, healing: Healing) -> Result<NodeReply<Healed>, BackendError>;

    /// Releases a lease, like an [`Operation::Release`](lock_core::backend::Operation::Release) with a depth of 0.
    ///
    /// A store that batches requests must not let a later proposal overtake the release. The proposal would still find
    /// the lease.
    async fn free(&self, request: ReleaseRequest) -> Result<Freed, BackendError> {
        let Reply { now, outcome, .. } = self.release(request).await?;
        Ok(Freed { now: Some(now), outcome })
    }

    /// Checks that the store is an independent master without automatic failover.
    async fn verify(&self) -> Result<(), BackendError>;
}

/// A node's reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeReply<T> {
    /// Time at which the request was executed, by the node's clock.
    pub now: UtcTime,
    /// Time for which the node is known to have kept its data. The reply to a proposal may report less: a grant may
    /// report only the proposal's [`min_age`](Proposal::min_age), and any vote may report zero if `min_age` is zero.
    pub age: Duration,
    /// Result of the request.
    pub outcome: T,
}

/// A node's reply to [`QuorumNode::free`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// The time at which the release was executed, by the node's clock. May be `None` if the node deleted the lease.
    /// The deletion is usually proof enough that the lease is gone, so the node need not read its clock.
    pub now: Option<UtcTime>,
    /// Result of the release.
    pub outcome: Released,
}

/// A node of a quorum.
#[derive(Clone)]
pub struct Member {
    pub(crate) name: Arc<str>,
    pub(crate) backend: Arc<dyn QuorumNode>,
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
    pub(crate) fn min_age(&self, max_lease: Duration) -> Duration {
        if self.is_durable { Duration::ZERO } else { max_lease }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("is_durable", &self.is_durable).finish()
    }
}

#[async_trait]
impl QuorumNode for MemoryBackend {
    async fn propose(&self, p: Proposal) -> Result<NodeReply<Vote>, BackendError> {
        let retention = p.retention.unless(Some(RETENTION));
        Ok(self.apply(&p.name, |slot, now, age| {
            let outcome = propose(slot, now, age, &p, retention);
            NodeReply { now, age, outcome }
        }))
    }

    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>> {
        let extend = |item: &Extension| {
            self.apply(&item.name, |slot, now, age| {
                let outcome = extend(slot, now, item);
                Ok(NodeReply { now, age, outcome })
            })
        };
        items.iter().map(extend).collect()
    }

    async fn heal(&self, h: Healing) -> Result<NodeReply<Healed>, BackendError> {
        let retention = h.retention.unless(Some(RETENTION));
        Ok(self.apply(&h.name, |slot, now, age| {
            let outcome = heal(slot, now, &h, retention);
            NodeReply { now, age, outcome }
        }))
    }

    async fn verify(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
