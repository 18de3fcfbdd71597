//! The traits that a store implements to provide locks.
//!
//! To add a backend, implement [`AsyncBackend`] or [`Backend`], [`Subscriptions`] if the store can push wake-ups, and
//! [`Directory`] if it can report which process holds a lock. Then write a small harness and run the conformance suite
//! of `lock-testkit`. A [`Store`] passes them to a factory.

pub(crate) mod async_backend;
mod error;
pub(crate) mod on_worker;
pub(crate) mod operation;
mod reply;
pub(crate) mod request;
pub(crate) mod store;
mod subscriptions;
mod votes;

pub use crate::{
    connect::Connector,
    ids::{LeaseId, LeaseNumber, ProcessId},
};
pub use async_backend::{AsyncBackend, BackendExt};
pub(crate) use async_backend::{leave_to, poll_in_place};
pub use error::{Applied, BackendError, BackendErrorKind};
pub(crate) use operation::{Answer, OperationReply, Receiver, acquired, released, renewed};
pub use operation::{Operation, Outcome, Submission};
pub use reply::{
    Acquired, ForceReleased, Inspected, Released, Renewed, Reply, StoredHold, StoredPermit, StoredPool,
};
pub(crate) use request::Retention;
pub use request::{
    AcquireMode, AcquireRequest, Floor, ForceReleaseRequest, NotifyWaiters, PermitRequest, Place,
    ReleaseRequest, RenewRequest, Share,
};
pub use store::Directory;
pub(crate) use store::Store;
pub use subscriptions::{MissedWakes, SubscriberId, SubscriptionRegistry, Subscriptions, WakeListener};
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
/// - **An operation may be given up at any time.** It may or may not have happened, and the caller repeats or undoes
///   it. A future of this trait, or of [`AsyncBackend`], may be dropped at any await, which must not disturb others.
/// - **No silent resends.** An implementation that resends an operation by itself after it may have been applied
///   answers with an unknown outcome, unless it knows the first reply: a release whose second delivery finds nothing
///   would look like a lost hold. An acquire that may still be applied after its reply has an unknown outcome even if
///   the reply is known: if it is applied after the release, it leaves an orphaned lease.
/// - **Errors say whether the operation [may have been applied](BackendError::applied).** When in doubt, report
///   [`Applied::Unknown`].
///
/// A store whose operations are plain futures implements [`AsyncBackend`] instead. The trait has no default methods, so
/// that a wrapper cannot forget one; a new capability of stores will be a trait of its own.
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

    /// Accepts an operation. It returns without blocking, and may be called from any thread, inside or outside a
    /// runtime.
    ///
    /// The operation is completed now or later, from any thread. A completion that comes after this call has returned
    /// runs the lock's state machine, wakes tasks and may submit further operations: the store must hold no mutex then.
    fn submit(&self, submission: Submission);

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
    /// `true` if wake-ups come from a task of the store in which requests may be submitted. Otherwise, a task of the
    /// factory handles them.
    pub wakes_in_task: bool,
    /// `true` if the store also keeps pools: it accepts [`AcquireMode::Permit`] for their names, and its other
    /// operations apply to them as to locks. The depth that a release leaves is the weight of a permit.
    pub permits: bool,
}

impl Capabilities {
    /// Describes a backend with this name and no limits.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, max_lease: None, lease_per_attempt: false, wakes_in_task: false, permits: false }
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

    /// Declares that the store keeps pools.
    #[must_use]
    pub const fn with_permits(mut self) -> Self {
        self.permits = true;
        self
    }

    /// Lets the factory handle each wake-up, and submit what follows, in the task that reports it.
    #[must_use]
    pub const fn with_wakes_in_task(mut self) -> Self {
        self.wakes_in_task = true;
        self
    }
}
