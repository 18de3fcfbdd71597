//! Whether a request has its lock, and why it has none.

use super::lock_handle::LockHandle;
use crate::reject::Reason;

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
