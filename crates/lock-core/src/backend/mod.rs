//! What a store must be able to do so that a lock can be built on it.
//!
//! To add a backend, implement [`Backend`], and [`Subscriptions`] if the store can push wake-ups; then write a small
//! harness and run the conformance suite of `lock-testkit`. A [`Store`] carries the two to a factory.

mod error;
mod listener;
mod pipeline;
mod registry;
mod reply;
mod request;
mod store;
mod subscriptions;
mod votes;

pub use crate::{
    connect::Connector,
    ids::{LeaseId, LeaseNumber, ParseLeaseIdError, ProcessId},
};
pub use error::{Applied, BackendError, BackendErrorKind};
pub use listener::{MissedWakes, SubscriberId, WakeListener};
pub(crate) use pipeline::Complete;
pub use pipeline::{Answer, Completion, Operation, Pipeline};
pub use registry::SubscriptionRegistry;
pub use reply::{Acquired, ForceReleased, Inspected, Released, Renewed, Reply, StoredHold};
pub use request::{
    AcquireMode, AcquireRequest, Floor, ForceReleaseRequest, NotifyWaiters, ReleaseRequest, RenewRequest,
    Retention,
};
pub use store::Store;
pub use subscriptions::Subscriptions;
pub use votes::{NodeVote, VoteKind, Votes};

use crate::{name::LockName, time::ServerTime};
use async_trait::async_trait;
use std::{fmt::Debug, time::Duration};

/// A store of leases.
///
/// Implementations hold the lock's *store rules*: they are pure functions of this crate (the in-memory backend
/// is those functions behind a mutex), and every other backend is compared with them by the conformance suite.
///
/// # Contract
/// - **Repeating an operation is harmless**: depths are absolute, never increments.
/// - **A late operation is harmless**: renew, release and re-entry never create anything; acquire, re-entry and renew
///   do nothing after their `not_after`, and answer [`Acquired::Late`] or [`Renewed::Late`].
/// - **The expiry never falls**, and a key without expiry is never left behind.
/// - A future of this trait may be dropped at any await: the operation then may or may not have happened, and
///   the caller repeats or undoes it. Dropping must not disturb other operations.
/// - **No silent resends.** An implementation that sends an operation again by itself, after it may have been
///   carried out, answers with an unknown outcome unless it knows the first answer: a release whose second
///   delivery finds nothing would look like a lost hold. An acquire that may still be carried out after its answer is
///   an unknown outcome even if the answer is known: carried out behind its release, it leaves a lease that nobody
///   knows of.
/// - Errors say whether the operation [may have been applied](BackendError::applied); when in doubt,
///   [`Applied::Unknown`].
///
/// The trait has no default methods, so that a wrapper cannot forget one.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// What this backend is and can do; constant over its life.
    fn capabilities(&self) -> Capabilities;

    /// Estimates the present time of the server that stores this name, or returns `None` before the first answer of
    /// that server; the wall clock of this machine is used then. In a cluster each node has a clock of its own.
    ///
    /// It is called while a lock name is locked inside the factory, so it returns at once and uses no lock of the factory.
    ///
    /// An acquire is stamped with this clock ([`AcquireRequest::not_after`]). An estimate that is behind costs one retry,
    /// since every answer carries the true time. One that is ahead allows an acquire without an answer to be carried out
    /// later, by as much; what it took may then stay for up to a lease. So learn the server's time while connecting.
    fn server_now(&self, name: &LockName) -> Option<ServerTime>;

    /// Takes a lease, raises its depth, or says why not.
    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError>;

    /// Extends leases that are still there: one answer per item, in their order. The failure of one item
    /// must not delay or fail another.
    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>>;

    /// Lowers the depth of a lease, or frees the lock.
    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError>;

    /// What is stored under a name.
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError>;

    /// Frees a lock of any holder, if the holder is still the one that was seen.
    async fn force_release(&self, request: ForceReleaseRequest)
    -> Result<Reply<ForceReleased>, BackendError>;
}

/// What a backend is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Its short name in metrics and log lines, for example `memory` or `redis`.
    pub name: &'static str,
    /// The longest lease it accepts, where it has such a limit of its own.
    pub max_lease: Option<Duration>,
    /// Whether a lease id serves one attempt alone. A quorum undoes an attempt that it answers without a grant, and the undo of
    /// one attempt must not meet the grant of the next.
    pub lease_per_attempt: bool,
}

impl Capabilities {
    /// Describes a backend of that name without limits of its own.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, max_lease: None, lease_per_attempt: false }
    }

    /// Limits the lease.
    #[must_use]
    pub const fn with_max_lease(mut self, lease: Duration) -> Self {
        self.max_lease = Some(lease);
        self
    }

    /// Requires a fresh lease id for each attempt.
    #[must_use]
    pub const fn with_lease_per_attempt(mut self) -> Self {
        self.lease_per_attempt = true;
        self
    }
}
