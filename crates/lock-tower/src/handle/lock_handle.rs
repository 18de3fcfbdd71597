//! A handler's view of its request's lock.

use super::{guard::RequestGuard, held::Held};
#[cfg(feature = "idempotency")]
use crate::observer::Observers;
use lock_core::{Hold, LockError, ReleaseOutcome};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
};

/// A handler's view of its request's lock: a [`Hold`] that can be released early.
///
/// With axum, it is an extractor. Otherwise, it is in the request's extensions, as
/// [`LockStatus`](crate::LockStatus): `request.extensions().get::<LockStatus>()`.
///
/// | as an extractor | held | passed through ([`Unlocked`](crate::Unlocked)) | needs no lock, or there is no layer |
/// | --- | --- | --- | --- |
/// | `LockHandle` | the handle | 503 | 500, with an explanation in the log |
/// | `Option<LockHandle>` | `Some` | `None` | `None` |
/// | [`LockStatus`](crate::LockStatus) | `Held` | `Unlocked` | 500 |
///
/// Routes with several [`keys`](crate::LockLayer::keys) use a
/// [`LockSetHandle`](super::LockSetHandle) instead.
///
/// A handle does not keep the lock held: the layer holds it until the body ends, regardless of the
/// handle's clones. With [two layers](crate#two-layers-around-one-handler) around one handler, this
/// is the inner layer's lock.
#[derive(Clone)]
pub struct LockHandle {
    hold: Hold,
    held: Weak<Held>,
}

impl LockHandle {
    pub(super) fn new(hold: Hold, held: &Arc<Held>) -> Self {
        Self { hold, held: Arc::downgrade(held) }
    }

    /// Returns the observers of the request, unless the lock is released.
    #[cfg(feature = "idempotency")]
    pub(crate) fn observers(&self) -> Option<Observers> {
        self.held.upgrade().map(|held| held.observers().clone())
    }

    /// Returns `true` if the handler may be called, and `false` if the lock was lost before.
    #[cfg(feature = "idempotency")]
    pub(crate) fn begin_work(&self) -> bool {
        self.held.upgrade().is_some_and(|held| held.begin_work())
    }

    /// Returns a view of the hold, for tasks that outlive the request.
    #[must_use]
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Releases the lock immediately, before the response, and reports whether it was still held.
    /// If the lock was already released, the result is
    /// [`AlreadyExpired`](ReleaseOutcome::AlreadyExpired).
    ///
    /// # Errors
    /// [`LockErrorKind::Unconfirmed`](lock_core::LockErrorKind::Unconfirmed) if the store did not confirm the release
    /// in time.
    ///
    /// # Cancel safety
    /// Cancel safe: once the future has been polled, the lock is released, in the background if necessary.
    pub async fn release(&self) -> Result<ReleaseOutcome, LockError> {
        match self.held.upgrade().and_then(|held| held.take_guard()) {
            Some(RequestGuard::One(guard)) => guard.release().await,
            Some(RequestGuard::Set(_)) | None => Ok(ReleaseOutcome::AlreadyExpired),
        }
    }
}

impl Deref for LockHandle {
    type Target = Hold;
    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockHandle").field(&self.hold).finish()
    }
}
