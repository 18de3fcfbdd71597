//! What a store answers. The enums are wider than any one backend needs, so that they need not break later.

use crate::{time::ServerTime, token::FencingToken};
use std::time::Duration;

/// An answer, with the server's clock at its execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reply<T> {
    /// The server's time when the operation was executed.
    pub now: ServerTime,
    /// How long this server is known to have kept its data; `None` where nobody asks (only quorums do).
    #[doc(hidden)]
    pub age: Option<Duration>,
    /// What happened.
    pub outcome: T,
}

impl<T> Reply<T> {
    /// An answer without age.
    pub const fn new(now: ServerTime, outcome: T) -> Self {
        Self { now, age: None, outcome }
    }

    /// The same answer about something else.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reply<U> {
        Reply { now: self.now, age: self.age, outcome: f(self.outcome) }
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
        /// The last token given out or reserved, where the backend tells.
        #[doc(hidden)]
        counter: Option<FencingToken>,
    },
    /// No one won (a split vote of a quorum). The backend has undone the attempt: its lease id is used up.
    #[doc(hidden)]
    Contended {
        /// When to try again.
        retry_after: Duration,
        /// How each node voted.
        votes: Vec<NodeVote>,
    },
    /// The proposed token is too old.
    #[doc(hidden)]
    Stale {
        /// The last token given out or reserved.
        counter: FencingToken,
    },
    /// A re-entry found its lease gone. Nothing was created.
    Gone,
    /// The request was executed after its `not_after`, and therefore not carried out.
    Late,
}

/// The vote of one node of a quorum.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NodeVote {
    /// Which node, by its place in the list of nodes.
    pub node: usize,
    /// What it said, in words for people.
    pub said: String,
}

impl NodeVote {
    /// What node number `node` said.
    #[must_use]
    pub fn new(node: usize, said: impl Into<String>) -> Self {
        Self { node, said: said.into() }
    }
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
