//! What a store must be able to do so that a lock can be built on it.
//!
//! Adding a backend means: implement [`Backend`], write a small harness, run the conformance suite of
//! `lock-testkit`.

mod error;
mod forward;
pub mod ledger;
mod reply;
mod request;
mod signals;
mod watchers;

pub use error::{Applied, BackendError, BackendErrorKind};
pub use reply::{Acquired, Forced, Inspected, NodeVote, Released, Renewed, Reply, StoredHold};
pub use request::{AcquireRequest, Floor, ForceRelease, Publish, ReleaseRequest, RenewItem, Wish};
pub use signals::{Signals, SubscriberId, WakeReason};
pub use watchers::Watchers;

use crate::{name::LockName, time::ServerTime};
use async_trait::async_trait;
use std::{
    fmt::Debug,
    sync::{Arc, Weak},
    time::Duration,
};

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

    /// The server's clock as this backend estimates it now, or `None` while it has never heard from the
    /// server; the wall clock of this machine is taken then.
    ///
    /// An acquire is stamped with this clock ([`AcquireRequest::not_after`]); a wrong estimate costs a retry,
    /// since every answer brings the true one.
    fn server_now(&self) -> Option<ServerTime>;

    /// Tells where wake-ups go: once per factory, which is dropped from the list when `signals` is gone.
    fn attach(&self, signals: Weak<dyn Signals>) -> SubscriberId;

    /// Asks for [`Signals::freed`] of this name. Returns when the subscription is *acknowledged*: a release
    /// after that is heard. Watching twice is watching once.
    async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;

    /// Ends [`watch`](Backend::watch).
    async fn unwatch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;

    /// Takes a lease, raises its depth, or says why not.
    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError>;

    /// Extends leases that are still there: one answer per item, in their order. The failure of one item
    /// must not delay or fail another.
    async fn renew(&self, items: Vec<RenewItem>) -> Vec<Result<Reply<Renewed>, BackendError>>;

    /// Lowers the depth of a lease, or frees the lock.
    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError>;

    /// What is stored under a name.
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError>;

    /// Frees a lock whoever holds it, if the holder is still the one that was seen.
    async fn force_release(&self, request: ForceRelease) -> Result<Reply<Forced>, BackendError>;

    /// The run ledger of this store, if it has one: what a scheduler builds on. A store that cannot decide alone, such as a
    /// quorum, has none.
    fn ledger(&self) -> Option<&dyn ledger::RunLedger>;
}

/// What a backend is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Its short name in metrics and log lines, for example `memory` or `redis`.
    pub name: &'static str,
    /// Whether releases are pushed to watchers, or have to be polled for.
    pub wake_ups: WakeUps,
    /// The longest lease it accepts, where it has such a limit of its own.
    pub max_lease: Option<Duration>,
}

impl Capabilities {
    /// Of a backend with that name and way of waking, without further limits.
    #[must_use]
    pub const fn new(name: &'static str, wake_ups: WakeUps) -> Self {
        Self { name, wake_ups, max_lease: None }
    }

    /// Limits the lease.
    #[must_use]
    pub const fn with_max_lease(mut self, lease: Duration) -> Self {
        self.max_lease = Some(lease);
        self
    }
}

/// How waiters hear of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WakeUps {
    /// The store pushes: [`Backend::watch`] works.
    Push,
    /// It cannot: waiters ask again, with jitter.
    Poll,
}

/// A backend that any number of factories share.
pub type SharedBackend = Arc<dyn Backend>;
