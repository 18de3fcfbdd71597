//! The guard of a set.

use super::hold::SetHold;
use crate::{error::LockError, guard::LockGuard, machine::ReleaseOutcome, name::LockName};
use futures_util::future::join_all;
use std::{fmt, ops::Deref};

/// A held set of locks. The locks are released by [`release`](Self::release), or when the guard is dropped.
///
/// It dereferences to a [`SetHold`], which provides the tokens by name, and [`lost`](SetHold::lost), which completes at
/// the first loss. As with a [`LockGuard`], a guard does not prove that the locks are still held.
///
/// # Dropping
/// Drop never blocks, as with a [`LockGuard`]; the factory's worker sends the releases.
#[must_use = "the locks are released immediately if the guard is not kept"]
#[clippy::has_significant_drop]
pub struct LockSetGuard {
    guards: Vec<LockGuard>,
    hold: SetHold,
}

impl LockSetGuard {
    /// Creates the guard of a set from the guards of its locks, sorted by name.
    pub(super) fn new(guards: Vec<LockGuard>) -> Self {
        let hold = SetHold::new(guards.iter().map(LockGuard::hold).collect());
        Self { guards, hold }
    }

    /// Returns a shared view of the holds. It can be cloned and sent to other tasks, and cannot release the locks.
    #[must_use]
    pub fn hold(&self) -> SetHold {
        self.hold.clone()
    }

    /// Releases all locks concurrently and returns whether each was still held, sorted by name.
    ///
    /// It waits for the store for at most two operation timeouts.
    ///
    /// # Errors
    /// The same errors as [`LockGuard::release`], separately for each lock.
    ///
    /// # Cancel safety
    /// Cancel safe: whenever the future is dropped, even before its first poll, all locks are released in the
    /// background.
    pub async fn release(self) -> Vec<(LockName, Result<ReleaseOutcome, LockError>)> {
        give_back(self.guards).await
    }

    /// Starts a [`release`](Self::release), which continues in the background.
    #[doc(hidden)]
    pub fn start_release(self) {
        self.guards.into_iter().for_each(LockGuard::start_release);
    }
}

/// Releases all guards together.
pub(super) async fn give_back(guards: Vec<LockGuard>) -> Vec<(LockName, Result<ReleaseOutcome, LockError>)> {
    let release = |guard: LockGuard| async move { (guard.name().clone(), guard.release().await) };
    join_all(guards.into_iter().map(release)).await
}

impl Deref for LockSetGuard {
    type Target = SetHold;
    fn deref(&self) -> &SetHold {
        &self.hold
    }
}

impl fmt::Debug for LockSetGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockSetGuard").field(&self.hold.holds()).finish()
    }
}
