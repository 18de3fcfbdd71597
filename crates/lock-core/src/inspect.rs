//! What can be seen of a lock from outside.

use crate::{backend::StoredHold, owner::Owner, token::FencingToken};
use std::time::Duration;

/// What is known of a name, in the store and in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// What the store keeps, if anybody holds the lock.
    pub stored: Option<StoredHold>,
    /// What this process knows, if it holds or waits.
    pub local: Option<LocalView>,
}

/// What this process knows of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalView {
    /// The hold of this process, if it has one.
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
    /// The time for which it is valid without renewal.
    pub remaining: Duration,
    /// A renewal failed or the clocks jumped; it is being renewed.
    pub suspect: bool,
}

/// The result of a forced release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForceReleaseOutcome {
    /// The lock is free.
    Released {
        /// The lease id of the former holder, as the store has it.
        lease: String,
    },
    /// The holder that was seen was gone already; its successor was not touched.
    HolderChanged,
    /// Nobody held it.
    NotHeld,
}
