//! What a store must be able to do to be a node of a quorum.

use crate::{
    backend::{Backend, BackendError, Floor, ReleaseRequest, Released, Reply, Retention, Subscriptions},
    ids::LeaseId,
    name::LockName,
    time::ServerTime,
    token::FencingToken,
};
use async_trait::async_trait;
use std::time::Duration;

/// The distance, in microseconds, that a proposed token may have from the clock of a node, or from its counter above that.
pub const MAX_CLOCK_DISTANCE: Duration = Duration::from_secs(1);

/// The least time for which a node keeps a counter, whatever retention is asked for: it grants tokens up to
/// [`MAX_CLOCK_DISTANCE`] before and behind its clock, so a counter that ends earlier would let tokens fall.
pub const MIN_COUNTER_RETENTION: Duration = Duration::from_secs(3);

/// Tokens are below this bound, so that a double can hold them.
pub(crate) const TOKEN_BOUND: u64 = 1 << 53;

/// A store that can be a node of a quorum.
///
/// The contract of [`Backend`] holds for these operations as well: repeating them is harmless, none creates or extends a lease
/// after its `not_after`, and the expiry never falls. `release`, `inspect` and `force_release` are those of `Backend`; a
/// release with [`NotifyWaiters::No`](crate::backend::NotifyWaiters::No) must notify nobody.
#[async_trait]
pub trait QuorumNode: Backend + Subscriptions {
    /// Votes on a proposal. A vote of [`Vote::Granted`] stores the lease and raises the counter to the end of the range.
    async fn propose(&self, proposal: Proposal) -> Result<NodeReply<Vote>, BackendError>;

    /// Extends leases that are there: one answer per item, in their order. It never creates a lease. The failure of one item
    /// must not delay or fail another.
    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>>;

    /// Sets a lease that this node lost while a majority kept it, and raises the counter to the end of its range.
    async fn heal(&self, healing: Healing) -> Result<NodeReply<Healed>, BackendError>;

    /// Frees a lease, as [`Backend::release`] does with a depth of 0.
    ///
    /// A store that gathers requests must not let a later proposal overtake it: the proposal would find the lease still there.
    async fn free(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.release(request).await
    }

    /// Checks that the store may be a node: a master of its own, without automatic failover.
    async fn verify(&self) -> Result<(), BackendError>;
}

/// The answer of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeReply<T> {
    /// The node's time when the request was executed.
    pub now: ServerTime,
    /// The time for which the node is known to have kept its data.
    pub age: Duration,
    /// The result.
    pub outcome: T,
}

/// Asks a node to grant a lock with exactly this token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The lock.
    pub name: LockName,
    /// The lease that asks.
    pub lease: LeaseId,
    /// The time from the execution on that the lease lasts; whole milliseconds.
    pub duration: Duration,
    /// The time of this node after which the request must no longer be executed.
    pub not_after: ServerTime,
    /// The token.
    pub token: FencingToken,
    /// The end of the range that the counter is raised to, at least `token`.
    pub last: FencingToken,
    /// The floor that the application asked for. It may be far above the clock of the node.
    pub floor: Floor,
    /// A node that has kept its data for a shorter time does not vote; zero for a durable node.
    pub min_age: Duration,
    /// How long a grant lets the counter last.
    pub retention: Retention,
}

/// A node's answer to a [`Proposal`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The lease is stored, with this token.
    Granted,
    /// Another lease holds the lock.
    Busy {
        /// The holder, as it is stored.
        holder: String,
        /// The time that its lease lasts; `None` if unknown.
        remaining: Option<Duration>,
        /// The last token given out or reserved.
        counter: u64,
    },
    /// The token is not above the counter.
    Stale {
        /// The last token given out or reserved.
        counter: u64,
    },
    /// The token is too far from the clock of the node.
    ClockOff,
    /// The node is too young to vote. Nothing was stored.
    Quarantined,
    /// The request was executed after its `not_after`, and therefore not carried out.
    Late,
}

/// Extends one lease on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// The time from the execution on that it lasts at least.
    pub duration: Duration,
    /// The time of this node after which the request must no longer be executed.
    pub not_after: ServerTime,
    /// The depth to store; `None` keeps the one that is there.
    pub depth: Option<u32>,
}

/// A node's answer to an [`Extension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extended {
    /// The lease lasts at least as long as asked.
    Extended,
    /// The lease is not there.
    Gone,
    /// The request was executed after its `not_after`, and therefore not carried out.
    Late,
}

/// Sets a lease again on a node that lost it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healing {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// The time from the execution on that it lasts.
    pub duration: Duration,
    /// The time of this node after which the request must no longer be executed.
    pub not_after: ServerTime,
    /// The depth to store if the lease is not there.
    pub depth: u32,
    /// The end of the token range of the hold: the counter is raised to it, and never lowered.
    pub last: FencingToken,
    /// How long the counter lasts.
    pub retention: Retention,
}

/// A node's answer to a [`Healing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Healed {
    /// The lease is there.
    Set,
    /// Another lease holds the lock. Nothing was stored.
    Busy,
    /// The request was executed after its `not_after`, and therefore not carried out.
    Late,
}
