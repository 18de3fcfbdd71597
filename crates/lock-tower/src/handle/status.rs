//! The lock of a request, or the reason why it runs without one.

use super::lock_handle::LockHandle;
use crate::reject::RejectReason;

/// The lock of a request, or the reason why the request runs without one. It is in the extensions of every
/// request that needed a lock.
#[derive(Debug, Clone)]
pub enum LockStatus {
    /// The request has its lock.
    Held(LockHandle),
    /// The layer passed the request through without its lock.
    Unlocked(Unlocked),
}

impl LockStatus {
    /// Returns the lock, if the request has it.
    #[must_use]
    pub fn handle(&self) -> Option<&LockHandle> {
        match self {
            Self::Held(handle) => Some(handle),
            Self::Unlocked(_) => None,
        }
    }

    /// Returns the reason why the request has no lock, if it has none.
    #[must_use]
    pub fn unlocked(&self) -> Option<&Unlocked> {
        match self {
            Self::Held(_) => None,
            Self::Unlocked(unlocked) => Some(unlocked),
        }
    }
}

/// The reason why a handler is called without the lock.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Unlocked {
    /// The store does not answer, and the layer has [`OnUnavailable::Allow`](crate::OnUnavailable::Allow).
    Unavailable,
    /// The client's part of the key is missing, and the layer has
    /// [`OnBadKey::Allow`](crate::OnBadKey::Allow).
    NoKey,
    /// The request would have been rejected for this reason, but the layer runs in
    /// [`shadow`](crate::LockLayer::shadow) mode.
    Shadow(RejectReason),
}
