//! What a store answers. The enums are wider than any one backend needs, so that they need not break later.

use super::votes::Votes;
use crate::{time::ServerTime, token::FencingToken};
use std::time::Duration;

/// An answer, with the server's clock at its execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reply<T> {
    /// The server's time when the operation was executed.
    pub now: ServerTime,
    /// What happened.
    pub outcome: T,
    /// The answers of the nodes, if the store is a quorum.
    pub votes: Votes,
}

impl<T> Reply<T> {
    /// The answer of a single store.
    pub const fn new(now: ServerTime, outcome: T) -> Self {
        Self { now, outcome, votes: Votes::none() }
    }

    /// The same answer, with the votes that led to it.
    #[must_use]
    pub fn with_votes(self, votes: Votes) -> Self {
        Self { votes, ..self }
    }

    /// The same answer about something else.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reply<U> {
        Reply { now: self.now, outcome: f(self.outcome), votes: self.votes }
    }
}

/// The answer to an acquire.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Acquired {
    /// The lock is taken, with these tokens; only `first` is given out unless the lease is handed on locally.
    Granted {
        /// The token of the hold.
        first: FencingToken,
        /// The last token of the range that was drawn, at least `first`.
        last: FencingToken,
    },
    /// The re-entry is stored.
    Reentered,
    /// Another lease holds the lock.
    Busy {
        /// How long its lease lasts; `None` if unknown: ask again soon.
        remaining: Option<Duration>,
    },
    /// The votes of a quorum were split, so that nobody is known to hold the lock.
    Contended {
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
    /// A re-entry found its lease gone. Nothing was created.
    Gone,
    /// The request was executed after its `not_after`, and therefore not carried out.
    Late,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease lasts at least as long as asked.
    Renewed,
    /// The lease was not there any more.
    Gone,
    /// The request was executed after its `not_after`, and therefore not carried out.
    Late,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free.
    Released {
        /// How many subscribers heard of it, where the backend knows.
        listeners: Option<u32>,
    },
    /// The depth was lowered; the lease goes on.
    Kept,
    /// The lease was not there any more.
    Gone {
        /// Whether another lease holds the lock.
        held_by_other: bool,
    },
}

/// The answer to an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inspected {
    /// Nobody holds the lock.
    Free,
    /// Somebody does.
    Held(StoredHold),
}

/// What a store keeps of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHold {
    /// The holder as it is stored: `<uuid>:<number>`, of this library or of Redisson.
    pub lease: String,
    /// The re-entrancy count.
    pub depth: u32,
    /// How long the lease lasts; `None` if the store did not say.
    pub remaining: Option<Duration>,
}

/// The answer to a forced release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForceReleased {
    /// The holder that was seen is gone; the lock is free.
    Released,
    /// Another holder, or nobody, was there: nothing was touched.
    HolderChanged,
}
