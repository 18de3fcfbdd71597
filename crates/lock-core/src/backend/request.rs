//! Requests to a store. They are owned, so that a call outlives its caller.

use crate::{ids::LeaseId, name::LockName, time::ServerTime, token::FencingToken};
use std::time::Duration;

/// Take a lease or raise its depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcquireRequest {
    /// The lock.
    pub name: LockName,
    /// The lease that asks. Asking twice with the same id is asking once.
    pub lease: LeaseId,
    /// How long the lease lasts from the execution on; whole milliseconds.
    pub duration: Duration,
    /// The server time after which the request must no longer be executed.
    pub not_after: ServerTime,
    /// The kind of acquire.
    pub mode: AcquireMode,
    /// How long a grant lets the fencing counter of the name last.
    pub retention: Retention,
}

/// How long the fencing counter of a name is kept after its latest grant.
///
/// Tokens follow the server's clock and keep growing after a counter has ended, so this only bounds what unused names
/// occupy in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Retention {
    /// As long as the backend says: 1 h on Redis unless its builder chose another time.
    #[default]
    Backend,
    /// This long, in whole milliseconds.
    For(Duration),
    /// For ever: where the counter is shared with programs that do not follow the clock, such as Redisson's fenced locks.
    Forever,
}

impl Retention {
    /// The time that a counter is kept where the backend's own is `default`; `None` stands for ever.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireMode {
    /// The lock, with the next tokens of the store: one, and up to `reserve` more for hand-offs.
    New {
        /// How many further tokens may be drawn.
        reserve: u32,
        /// A token that the new ones must exceed.
        floor: Floor,
    },
    /// A re-entry: keep the lease and set its depth; never creates anything.
    Reenter {
        /// The absolute depth, at least 2 in ordinary use.
        depth: u32,
    },
}

/// A token that new tokens must exceed; for those who continue a sequence that a store has lost.
pub type Floor = Option<FencingToken>;

/// Extend one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewRequest {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// The time from the execution on that it shall last at least.
    pub duration: Duration,
    /// The server time after which the request must no longer be executed. Without it, a renewal that is stuck on the
    /// way would lengthen a lease after everybody stopped undoing it.
    pub not_after: ServerTime,
}

/// Lower the depth of a lease, or free the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// The absolute depth that is left; 0 frees the lock.
    pub depth_left: u32,
    /// Whether the store notifies waiters.
    pub notify: NotifyWaiters,
}

/// Whether a release wakes the waiters of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotifyWaiters {
    /// Tell them.
    Yes,
    /// Do not: the undo of a lost quorum round would make two waiters wake one another for ever.
    No,
}

/// Frees a lock, whichever lease holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceReleaseRequest {
    /// The lock.
    pub name: LockName,
    /// The holder that was seen, as [`StoredHold::lease`](super::StoredHold::lease) gives it; another one is
    /// not touched.
    pub seen: String,
}
