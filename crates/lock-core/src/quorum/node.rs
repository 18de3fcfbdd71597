//! The operations that a store must implement to be a node of a quorum.

use crate::{
    backend::{
        Backend, BackendError, BackendExt as _, Floor, ReleaseRequest, Released, Reply, Retention,
        Subscriptions,
    },
    ids::{FencingToken, LeaseId},
    name::LockName,
    time::UtcTime,
};
use async_trait::async_trait;
use std::time::Duration;

/// Maximum distance between a proposed token and a node's clock, or the node's counter if it is ahead of the clock.
/// Tokens are times in microseconds.
pub const MAX_CLOCK_DISTANCE: Duration = Duration::from_secs(1);

/// Minimum time for which a node keeps a counter, regardless of the requested retention. A node grants tokens up to
/// [`MAX_CLOCK_DISTANCE`] ahead of and behind its clock, so tokens could decrease if a counter expired earlier.
pub const MIN_COUNTER_RETENTION: Duration = Duration::from_secs(3);

/// Exclusive upper bound of tokens, so that a double represents them exactly.
pub(crate) const TOKEN_BOUND: u64 = 1 << 53;

/// A store that can be a node of a quorum.
///
/// The contract of [`Backend`] also applies to these operations: repeating them is harmless, none creates or extends a
/// lease after its `not_after`, and an expiry never moves earlier. `release`, `inspect` and `force_release` come from
/// `Backend`. A release with [`NotifyWaiters::No`](crate::backend::NotifyWaiters::No) must not notify any waiter.
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

    /// Releases a lease, like an [`Operation::Release`](crate::backend::Operation::Release) with a depth of 0.
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

/// A request to grant a lock with exactly this token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The lock.
    pub name: LockName,
    /// The lease that a grant stores.
    pub lease: LeaseId,
    /// Duration of the lease, counted from the execution of the request, in whole milliseconds.
    pub duration: Duration,
    /// Latest time, by this node's clock, at which the request may be executed.
    pub not_after: UtcTime,
    /// The proposed token.
    pub token: FencingToken,
    /// End of the token range, to which a grant raises the counter; at least `token`.
    pub last: FencingToken,
    /// Floor that the application requested. It may be far above the node's clock.
    pub floor: Floor,
    /// Minimum time for which the node must have kept its data to vote; zero for a durable node.
    pub min_age: Duration,
    /// Time for which a grant keeps the counter.
    pub retention: Retention,
}

/// A node's reply to a [`Proposal`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The lease is stored with the proposed token.
    Granted,
    /// Another lease holds the lock.
    Busy {
        /// Lease id of the holder, as stored.
        holder: String,
        /// Remaining time of its lease; `None` if unknown.
        remaining: Option<Duration>,
        /// Last token that was granted or reserved.
        counter: u64,
    },
    /// The token is not above the counter.
    Stale {
        /// Last token that was granted or reserved.
        counter: u64,
    },
    /// The token is too far from the node's clock.
    ClockOff,
    /// The node has not kept its data for long enough to vote. Nothing was stored.
    Quarantined,
    /// The request arrived after its `not_after` and had no effect.
    Late,
}

/// A request to extend one lease on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// Minimum duration of the lease, counted from the execution of the request.
    pub duration: Duration,
    /// Latest time, by this node's clock, at which the request may be executed.
    pub not_after: UtcTime,
    /// Depth to store; `None` keeps the stored depth.
    pub depth: Option<u32>,
}

/// A node's reply to an [`Extension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extended {
    /// The lease lasts at least as long as requested.
    Extended,
    /// The node does not have the lease.
    Gone,
    /// The request arrived after its `not_after` and had no effect.
    Late,
}

/// A request to restore a lease on a node that lost it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healing {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// Minimum duration of the lease, counted from the execution of the request.
    pub duration: Duration,
    /// Latest time, by this node's clock, at which the request may be executed.
    pub not_after: UtcTime,
    /// Depth to store if the node does not have the lease.
    pub depth: u32,
    /// End of the hold's token range. The counter is raised to it and never lowered.
    pub last: FencingToken,
    /// Time for which the counter is kept.
    pub retention: Retention,
}

/// A node's reply to a [`Healing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Healed {
    /// The node has the lease.
    Set,
    /// Another lease holds the lock. Nothing was stored.
    Busy,
    /// The request arrived after its `not_after` and had no effect.
    Late,
}
