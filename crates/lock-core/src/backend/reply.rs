//! Replies of a store. The enums cover more than any one backend needs, so that they need not change later.

use super::votes::Votes;
use crate::{ids::FencingToken, time::UtcTime};
use std::time::Duration;

/// A reply, with the server's time when the operation was executed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reply<T> {
    /// The server's time when the operation was executed. An estimate is enough for a release with
    /// [`NotifyWaiters::EvenIfGone`](super::NotifyWaiters::EvenIfGone).
    pub now: UtcTime,
    /// The outcome.
    pub outcome: T,
    /// The replies of the nodes, if the store is a quorum.
    pub votes: Votes,
}

impl<T> Reply<T> {
    /// Creates the reply of a single store.
    pub const fn new(now: UtcTime, outcome: T) -> Self {
        Self { now, outcome, votes: Votes::none() }
    }

    /// Adds the votes that led to this reply.
    #[must_use]
    pub fn with_votes(self, votes: Votes) -> Self {
        Self { votes, ..self }
    }

    /// Maps the outcome with `f`.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reply<U> {
        Reply { now: self.now, outcome: f(self.outcome), votes: self.votes }
    }
}

/// The reply to an acquire.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Acquired {
    /// The lock was granted, with these tokens. Only `first` is used unless the lease is handed over locally.
    Granted {
        /// The token of the hold.
        first: FencingToken,
        /// The last token of the drawn range, at least `first`.
        last: FencingToken,
    },
    /// The re-entry was recorded.
    Reentered,
    /// Another lease holds the lock.
    Busy {
        /// The remaining time of its lease; `None` if it is unknown, in which case the waiter retries soon. [`Duration::MAX`] if
        /// the store pushes its end like a release: a waiter with a subscription asks only at its `poll_interval`.
        remaining: Option<Duration>,
    },
    /// The pool has no room yet. The request has its place in the queue until the patience ends.
    Queued {
        /// The time after which a hold ends by itself, for the first in the queue; `None` for all others.
        remaining: Option<Duration>,
    },
    /// The votes of a quorum were split, so no holder is known.
    Contended {
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
    /// The lease to re-enter no longer exists. Nothing was created.
    Gone,
    /// The request was executed after its `not_after` and had no effect.
    Late,
}

/// The reply to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease lasts at least as long as requested.
    Renewed,
    /// The lease no longer exists.
    Gone,
    /// The request was executed after its `not_after` and had no effect.
    Late,
}

/// The reply to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free.
    Released {
        /// The number of notified subscribers, if the backend counts those of all processes. `Some(0)` states that no
        /// other process waits, so a backend that does not count returns `None`. Ignored if the store cannot push.
        listeners: Option<u32>,
    },
    /// The depth was lowered; the lease continues.
    Kept,
    /// The lease no longer exists.
    Gone {
        /// `true` if another lease holds the lock.
        held_by_other: bool,
    },
}

/// The reply to an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inspected {
    /// The lock is free.
    Free,
    /// The lock is held.
    Held(StoredHold),
    /// The pool has holders or waiters.
    Pool(StoredPool),
}

/// The stored record of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPool {
    /// The permits that are held, in no order.
    pub holders: Vec<StoredPermit>,
    /// The places of those that wait, first come first.
    pub waiters: Vec<StoredPermit>,
}

/// A permit in the record of a pool, held or waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPermit {
    /// The id of the lease, or of the place, as stored: `<uuid>:<number>`.
    pub lease: String,
    /// Its weight.
    pub weight: u32,
    /// The remaining time of the lease, or of the waiter's patience.
    pub remaining: Duration,
}

/// The stored record of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHold {
    /// The holder as stored: `<uuid>:<number>`, written by this library or by Redisson.
    pub lease: String,
    /// The re-entrancy count.
    pub depth: u32,
    /// The remaining time of the lease; `None` if the store did not report it.
    pub remaining: Option<Duration>,
}

/// The reply to a forced release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForceReleased {
    /// The holder that the caller saw was removed; the lock is free.
    Released,
    /// The lock is free or has another holder; nothing was changed.
    HolderChanged,
}
