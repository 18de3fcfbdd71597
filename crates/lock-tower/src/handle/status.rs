//! The lock of a request, or the reason why it runs without one.

use super::{guard::RequestHold, held::Held, lock_handle::LockHandle, lock_set_handle::LockSetHandle};
use crate::reject::RejectReason;
use std::sync::Arc;

/// The lock of a request, or the reason why the request runs without one. It is in the extensions of every
/// request that needed a lock.
#[derive(Debug, Clone)]
pub enum LockStatus {
    /// The request has its lock.
    Held(LockHandle),
    /// The request has all of its locks, from a layer with several
    /// [`keys`](crate::LockLayer::keys).
    HeldSet(LockSetHandle),
    /// The layer passed the request through without its lock.
    Unlocked(Unlocked),
}

impl LockStatus {
    pub(crate) fn held(held: &Arc<Held>) -> Self {
        match held.hold() {
            RequestHold::One(hold) => Self::Held(LockHandle::new(hold.clone(), held)),
            RequestHold::Set(hold) => Self::HeldSet(LockSetHandle::new(hold.clone(), held)),
        }
    }

    /// Returns the lock, if the request has one.
    #[must_use]
    pub fn handle(&self) -> Option<&LockHandle> {
        match self {
            Self::Held(handle) => Some(handle),
            Self::HeldSet(_) | Self::Unlocked(_) => None,
        }
    }

    /// Returns the locks, if the request has locks for several keys.
    #[must_use]
    pub fn set_handle(&self) -> Option<&LockSetHandle> {
        match self {
            Self::HeldSet(handle) => Some(handle),
            Self::Held(_) | Self::Unlocked(_) => None,
        }
    }

    /// Returns the reason why the request has no lock, if it has none.
    #[must_use]
    pub fn unlocked(&self) -> Option<&Unlocked> {
        match self {
            Self::Held(_) | Self::HeldSet(_) => None,
            Self::Unlocked(unlocked) => Some(unlocked),
        }
    }
}

/// The reason why a handler is called without the lock.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Unlocked {
    /// The store is not responding, and the layer's policy is
    /// [`OnUnavailable::Allow`](crate::OnUnavailable::Allow).
    Unavailable,
    /// The client's part of the key is missing, and the layer's policy is
    /// [`OnBadKey::Allow`](crate::OnBadKey::Allow).
    NoKey,
    /// The request would have been rejected for this reason, but the layer runs in
    /// [`shadow`](crate::LockLayer::shadow) mode.
    Shadow(RejectReason),
}
