//! Requests to a store. They own their data, so that a call can outlive its caller.

use crate::{
    ids::{FencingToken, LeaseId},
    name::LockName,
    time::UtcTime,
};
use std::{sync::Arc, time::Duration};

/// A request to take a lease or to raise its depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcquireRequest {
    /// The lock.
    pub name: LockName,
    /// The lease to acquire. Repeating a request with the same id is idempotent.
    pub lease: LeaseId,
    /// The length of the lease, counted from the execution of the request, in whole milliseconds.
    pub duration: Duration,
    /// The server time after which the request must not be executed.
    pub not_after: UtcTime,
    /// The kind of acquire.
    pub mode: AcquireMode,
    /// The time for which the name's fencing counter is kept after a grant.
    pub retention: Retention,
}

/// The time for which the fencing counter of a name is kept after a grant. A store may renew the expiry only once in
/// each eighth of it, and not that of a counter that has none.
///
/// Tokens follow the server's clock and keep increasing after a counter has expired, so this only bounds the storage
/// used by idle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Retention {
    /// The backend's default: 1 h on Redis unless its builder sets another time.
    #[default]
    Backend,
    /// For this time, in whole milliseconds.
    For(Duration),
    /// Forever: for counters shared with programs that do not follow the clock, such as Redisson's fenced locks.
    Forever,
}

impl Retention {
    /// Returns the time for which a counter is kept by a backend whose own retention is `default`; `None` means
    /// forever.
    #[must_use]
    pub const fn unless(self, default: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Backend => default,
            Self::For(time) => Some(time),
            Self::Forever => None,
        }
    }
}

/// The kind of an [`AcquireRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AcquireMode {
    /// A new hold, with the next fencing tokens of the store: one, and up to `reserve` more for hand-offs.
    New {
        /// The number of further tokens that may be drawn.
        reserve: u32,
        /// A token that the new ones must exceed.
        floor: Floor,
    },
    /// A re-entry: keeps the lease and sets its depth; never creates anything.
    Reenter {
        /// The absolute depth, at least 2 in ordinary use.
        depth: u32,
    },
    /// A permit of a pool: one of several holds whose weights together do not exceed a limit. Only stores with
    /// [`Capabilities::permits`](super::Capabilities::permits) get such requests, with the names of pools.
    Permit(Arc<PermitRequest>),
}

/// A request for a permit of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermitRequest {
    /// The part of the pool.
    pub share: Share,
    /// The place in the queue of the pool; `None` for a single attempt, which does not queue.
    pub place: Option<Place>,
    /// A token that the new one must exceed.
    pub floor: Floor,
}

/// A place in the queue of a pool. A grant ends it.
///
/// It has an id of its own, which stays the same while each attempt has another lease: of two copies of a process that
/// waits, only one gets the permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its id. A release of this id gives it up.
    pub id: LeaseId,
    /// The time for which the store keeps it unless a request is repeated.
    pub patience: Duration,
}

/// A part of a pool. Each request has its own limit: a pool is nothing that has to be set up, and while two versions of
/// a program use different limits, the larger one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// The weight of the permit, from 1 to the limit.
    pub weight: u32,
    /// The limit that the weights of all permits must not exceed together, at most [`Share::MAX_LIMIT`].
    pub limit: u32,
}

impl Share {
    /// The largest limit.
    pub const MAX_LIMIT: u32 = 1 << 30;
}

/// A token that new tokens must exceed, used to continue a sequence that a store has lost.
pub type Floor = Option<FencingToken>;

/// A request to extend one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewRequest {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// The minimum length of the lease, counted from the execution of the request.
    pub duration: Duration,
    /// The server time after which the request must not be executed. Without it, a delayed renewal could extend a
    /// lease after its cleanup has ended.
    pub not_after: UtcTime,
}

/// A request to lower the depth of a lease, or to free the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// The absolute depth that remains; 0 frees the lock.
    pub depth_left: u32,
    /// Controls whether the store notifies waiters.
    pub notify: NotifyWaiters,
}

/// Controls whether a release wakes the waiters of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotifyWaiters {
    /// Notify them if the lock became free.
    Yes,
    /// Notify them if the lock became free, and possibly even if the lease was gone. This process held the lock until
    /// now, so that is rare. The time of the reply may be an estimate. Some stores need less work for this.
    EvenIfGone,
    /// Do not notify them: after a lost quorum round, two waiters would otherwise wake each other forever.
    No,
}

/// A request to free a lock that another process may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceReleaseRequest {
    /// The lock.
    pub name: LockName,
    /// The expected holder, as returned in [`StoredHold::lease`](super::StoredHold::lease). Any other holder
    /// is left untouched.
    pub seen: String,
}
