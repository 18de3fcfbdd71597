//! The traits that a store implements to provide locks.
//!
//! To add a backend, implement [`Backend`], [`Subscriptions`] if the store can push wake-ups, and [`Directory`] if it
//! can report which process holds a lock. Then write a small harness and run the conformance suite of `lock-testkit`. A
//! [`Store`](crate::Store) passes them to a factory.

mod directory;
mod error;
mod listener;
mod pipeline;
mod prefixed;
mod registry;
mod reply;
pub(crate) mod request;
pub(crate) mod store;
mod subscriptions;
mod votes;

pub use crate::{
    connect::Connector,
    ids::{LeaseId, LeaseNumber, ProcessId},
};
pub use directory::Directory;
pub use error::{Applied, BackendError, BackendErrorKind};
pub use listener::{MissedWakes, SubscriberId, WakeListener};
pub(crate) use pipeline::Complete;
pub use pipeline::{Answer, Completion, Operation, Pipeline};
pub(crate) use prefixed::with_prefix;
pub use registry::SubscriptionRegistry;
pub use reply::{Acquired, ForceReleased, Inspected, Released, Renewed, Reply, StoredHold};
pub(crate) use request::Retention;
pub use request::{
    AcquireMode, AcquireRequest, Floor, ForceReleaseRequest, NotifyWaiters, ReleaseRequest, RenewRequest,
};
pub(crate) use store::Store;
pub use subscriptions::Subscriptions;
pub use votes::{NodeVote, VoteKind, Votes};

use crate::{name::LockName, time::UtcTime};
use async_trait::async_trait;
use std::{fmt::Debug, time::Duration};

/// A store of leases.
///
/// Implementations enforce the *store rules*, which this crate defines as pure functions. The in-memory
/// backend runs these functions behind a mutex, and the conformance suite compares every other backend with
/// them.
///
/// # Contract
/// - **Repeating an operation is harmless**: depths are absolute, never increments.
/// - **A late operation is harmless**: renew, release and re-entry never create anything; acquire, re-entry and renew
///   do nothing after their `not_after` and answer [`Acquired::Late`] or [`Renewed::Late`].
/// - **The expiry never decreases**, and a key without an expiry is never left behind.
/// - **A future of this trait may be dropped at any await.** The operation may or may not have happened, and the
///   caller repeats or undoes it. Dropping must not disturb other operations.
/// - **No silent resends.** An implementation that resends an operation by itself after it may have been applied
///   answers with an unknown outcome, unless it knows the first reply: a release whose second delivery finds nothing
///   would look like a lost hold. An acquire that may still be applied after its reply has an unknown outcome even if
///   the reply is known: if it is applied after the release, it leaves an orphaned lease.
/// - **Errors say whether the operation [may have been applied](BackendError::applied).** When in doubt, report
///   [`Applied::Unknown`].
///
/// The trait has no default methods, so that a wrapper cannot forget one.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// Describes this backend. The description never changes.
    fn capabilities(&self) -> Capabilities;

    /// Estimates the current time of the server that stores this name. Returns `None` before the first reply from that
    /// server; until then, this machine's wall clock is used. In a cluster each node has its own clock.
    ///
    /// It is called while the factory holds a mutex, so it must return immediately and must not call into the
    /// factory.
    ///
    /// An acquire is stamped with this clock ([`AcquireRequest::not_after`]). An estimate that is behind costs one
    /// retry, since every reply carries the true time. An estimate that is ahead lets an unanswered acquire be
    /// applied that much later; a lease taken this way may remain until it expires. So learn the server's time while
    /// connecting.
    fn server_now(&self, name: &LockName) -> Option<UtcTime>;

    /// Takes a lease or raises its depth, or reports why it did not.
    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError>;

    /// Extends existing leases. Returns one reply per item, in the order of the items. The failure of one item must
    /// not delay or fail another.
    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>>;

    /// Lowers the depth of a lease, or frees the lock.
    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError>;

    /// Reads the record stored under a name.
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError>;

    /// Frees the lock if `seen` still holds it, even if that holder belongs to another program.
    async fn force_release(&self, request: ForceReleaseRequest)
    -> Result<Reply<ForceReleased>, BackendError>;
}

/// The properties of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The short name in metrics and log lines, for example `memory` or `redis`.
    pub name: &'static str,
    /// The longest lease that the backend accepts, if it has its own limit.
    pub max_lease: Option<Duration>,
    /// `true` if every attempt needs its own lease id. A quorum undoes an attempt that it does not grant, and the undo
    /// of one attempt must not affect the grant of the next.
    pub lease_per_attempt: bool,
}

impl Capabilities {
    /// Describes a backend with this name and no limits.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, max_lease: None, lease_per_attempt: false }
    }

    /// Sets the longest lease that the backend accepts.
    #[must_use]
    pub const fn with_max_lease(mut self, lease: Duration) -> Self {
        self.max_lease = Some(lease);
        self
    }

    /// Requires a new lease id for each attempt.
    #[must_use]
    pub const fn with_lease_per_attempt(mut self) -> Self {
        self.lease_per_attempt = true;
        self
    }
}
