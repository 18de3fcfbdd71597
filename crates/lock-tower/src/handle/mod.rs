//! What the handler knows of the lock of its request.

#[cfg(feature = "axum")]
mod extract;
mod held;
mod watch;

#[cfg(feature = "axum")]
pub use extract::LockMissing;

pub(crate) use held::Held;
pub(crate) use watch::Watch;

use crate::reject::Reason;
use lock_core::{Hold, LockError, ReleaseOutcome};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
};

/// The lock of this request, as its handler sees it: a [`Hold`] that can be released early.
///
/// With axum it is an extractor; elsewhere it is found in the request's extensions, as
/// [`LockStatus`]: `request.extensions().get::<LockStatus>()`.
///
/// | as an extractor | held | goes without ([`Degraded`]) | passed the filter, or there is no layer |
/// | --- | --- | --- | --- |
/// | `LockHandle` | the handle | 503 | 500, with a sentence that says so |
/// | `Option<LockHandle>` | `Some` | `None` | `None` |
/// | [`LockStatus`] | `Held` | `Degraded` | 500 |
///
/// It does not keep the lock: the layer does, until the body has ended, whether or not a clone of this is still
/// around. Of [two layers](crate#two-layers-around-one-handler) around one handler this is the lock of the inner one.
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

    /// Gives the lock back now, before the response, and says whether it was still held. Released already, it answers
    /// [`AlreadyExpired`](ReleaseOutcome::AlreadyExpired).
    ///
    /// # Errors
    /// [`ErrorKind::Unconfirmed`](lock_core::ErrorKind::Unconfirmed) if the store did not confirm the release in time.
    ///
    /// # Cancel safety
    /// Cancel safe: from the first poll on the lock is released, in the background if need be.
    pub async fn release(&self) -> Result<ReleaseOutcome, LockError> {
        match self.held.upgrade().and_then(|held| held.let_go()) {
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

/// Whether a request has its lock; in the extensions of every request that needed one.
#[derive(Debug, Clone)]
pub enum LockStatus {
    /// It has.
    Held(LockHandle),
    /// It goes without, because the layer was told to let it.
    Degraded(Degraded),
}

impl LockStatus {
    /// The lock, if it is held.
    #[must_use]
    pub fn handle(&self) -> Option<&LockHandle> {
        match self {
            Self::Held(handle) => Some(handle),
            Self::Degraded(_) => None,
        }
    }

    /// Why there is no lock, if there is none.
    #[must_use]
    pub fn degraded(&self) -> Option<&Degraded> {
        match self {
            Self::Held(_) => None,
            Self::Degraded(degraded) => Some(degraded),
        }
    }
}

/// Why a handler is called without the lock.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Degraded {
    /// The store does not answer, and the layer is told to go on
    /// ([`OnUnavailable::Allow`](crate::OnUnavailable::Allow)).
    Unavailable,
    /// The client's part of the key is missing, and the layer is told to go on
    /// ([`OnBadKey::Allow`](crate::OnBadKey::Allow)).
    NoKey,
    /// It would have been refused, but for [`shadow`](crate::LockLayer::shadow).
    Shadow(Reason),
}
