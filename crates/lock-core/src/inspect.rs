//! The state of a lock, as seen from outside.

pub use crate::{
    card::ProcessCard,
    health::Health,
    listing::{ListLimits, Listing},
};

use crate::{
    backend::{LeaseId, StoredHold, Votes},
    name::LockName,
    owner::Owner,
    token::FencingToken,
};
use std::time::Duration;

/// The state of a name in the store and in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The stored hold, if the lock is held.
    pub stored: Option<StoredHold>,
    /// The process of the stored hold, if it has a card in the store. Redisson writes none, and a process writes its
    /// card half a second after its first acquire.
    pub process: Option<ProcessCard>,
    /// The state in this process, if it holds or waits for the lock.
    pub local: Option<LocalView>,
    /// The reply of each quorum node; empty if the store is not a quorum.
    pub votes: Votes,
}

impl Inspection {
    /// Returns the holder's note on its hold; see [`LockGuard::note`](crate::LockGuard::note).
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        let lease: LeaseId = self.stored.as_ref()?.lease.parse().ok()?;
        self.process.as_ref()?.notes.get(&lease.number()).map(String::as_str)
    }
}

/// The state of a name in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalView {
    /// This process's hold, if it has one.
    pub hold: Option<LocalHold>,
    /// The number of acquires that wait in this process.
    pub waiters: usize,
}

/// A hold of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalHold {
    /// The owner.
    pub owner: Owner,
    /// Its fencing token.
    pub token: FencingToken,
    /// The number of its guards.
    pub depth: u32,
    /// The time since it was acquired.
    pub held_for: Duration,
    /// The time for which the hold stays valid without renewal.
    pub remaining: Duration,
    /// `true` after a failed renewal or a clock jump, until the hold is renewed.
    pub suspect: bool,
}

/// A lock that this process holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLock {
    /// The name of the lock.
    pub name: LockName,
    /// The hold.
    pub hold: LocalHold,
}

/// The result of a forced release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForceReleaseOutcome {
    /// The lock was freed.
    Released {
        /// The lease id of the former holder, as stored.
        lease: String,
    },
    /// The holder that was found is already gone; its successor was not affected.
    HolderChanged,
    /// The lock was not held.
    NotHeld,
}
