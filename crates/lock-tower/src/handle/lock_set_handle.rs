//! A handler's view of the locks for several keys.

use super::{guard::RequestGuard, held::Held};
use lock_core::{LockError, LockName, ReleaseOutcome, set::SetHold};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
};

/// A handler's view of the locks for several [`keys`](crate::LockLayer::keys): a [`SetHold`], with
/// a fencing token for each name, that can be released early.
///
/// It is extracted like a [`LockHandle`](super::LockHandle), and does not keep the locks held.
/// Extracting one on a route that provides the other is a server error (500).
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::{extract::Path, http::StatusCode};
/// use lock_core::LockName;
/// use lock_tower::LockSetHandle;
///
/// async fn transfer(Path((from, to)): Path<(u64, u64)>, locks: LockSetHandle) -> StatusCode {
///     for account in [from, to] {
///         let token = LockName::of(("account", account)).ok().and_then(|name| locks.fencing_token(name));
///         // … write the account, fenced with its token …
/// #       let _ = token;
///     }
///     StatusCode::NO_CONTENT
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct LockSetHandle {
    hold: SetHold,
    held: Weak<Held>,
}

impl LockSetHandle {
    pub(super) fn new(hold: SetHold, held: &Arc<Held>) -> Self {
        Self { hold, held: Arc::downgrade(held) }
    }

    /// Returns a view of the holds, for tasks that outlive the request.
    #[must_use]
    pub fn hold(&self) -> &SetHold {
        &self.hold
    }

    /// Releases all locks immediately, before the response, and reports for each whether it was
    /// still held, in name order. The outcome for a lock that was already released is
    /// [`AlreadyExpired`](ReleaseOutcome::AlreadyExpired).
    ///
    /// # Errors
    /// For each lock, the errors of [`LockHandle::release`](super::LockHandle::release).
    ///
    /// # Cancel safety
    /// Cancel safe: once the future has been polled, the locks are released, in the background if necessary.
    pub async fn release(&self) -> Vec<(LockName, Result<ReleaseOutcome, LockError>)> {
        match self.held.upgrade().and_then(|held| held.take_guard()) {
            Some(RequestGuard::Set(guard)) => guard.release().await,
            Some(RequestGuard::One(_)) | None => {
                self.hold.names().map(|name| (name.clone(), Ok(ReleaseOutcome::AlreadyExpired))).collect()
            }
        }
    }
}

impl Deref for LockSetHandle {
    type Target = SetHold;
    fn deref(&self) -> &SetHold {
        &self.hold
    }
}

impl fmt::Debug for LockSetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockSetHandle").field(&self.hold).finish()
    }
}
