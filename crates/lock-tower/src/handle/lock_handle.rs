//! The lock of a request, as its handler sees it.

use super::held::Held;
use lock_core::{Hold, LockError, ReleaseOutcome};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
};

/// The lock of this request, as its handler sees it: a [`Hold`] that can be released early.
///
/// With axum it is an extractor; elsewhere it is found in the request's extensions, as
/// [`LockStatus`](crate::LockStatus): `request.extensions().get::<LockStatus>()`.
///
/// | as an extractor | held | passed through ([`Unlocked`](crate::Unlocked)) | passed the filter, or there is no layer |
/// | --- | --- | --- | --- |
/// | `LockHandle` | the handle | 503 | 500, with a sentence that says so |
/// | `Option<LockHandle>` | `Some` | `None` | `None` |
/// | [`LockStatus`](crate::LockStatus) | `Held` | `Unlocked` | 500 |
///
/// It does not keep the lock: the layer does, until the body has ended, whether or not a clone of this is
/// still around. Of [two layers](crate#two-layers-around-one-handler) around one handler this is the lock of
/// the inner one.
#[derive(Clone)]
pub struct LockHandle {
    hold: Hold,
    held: Weak<Held>,
}

impl LockHandle {
    pub(crate) fn new(held: &Arc<Held>) -> Self {
        Self { hold: held.hold().clone(), held: Arc::downgrade(held) }
    }

    /// A view of the hold, for tasks that outlive the request.
    #[must_use]
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Gives the lock back now, before the response, and says whether it was still held. Released already, it
    /// answers [`AlreadyExpired`](ReleaseOutcome::AlreadyExpired).
    ///
    /// # Errors
    /// [`LockErrorKind::Unconfirmed`](lock_core::LockErrorKind::Unconfirmed) if the store did not confirm the release
    /// in time.
    ///
    /// # Cancel safety
    /// Cancel safe: from the first poll on the lock is released, in the background if need be.
    pub async fn release(&self) -> Result<ReleaseOutcome, LockError> {
        match self.held.upgrade().and_then(|held| held.take_guard()) {
            Some(guard) => guard.release().await,
            None => Ok(ReleaseOutcome::AlreadyExpired),
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
