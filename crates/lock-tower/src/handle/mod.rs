//! A handler's view of the locks of its request.

mod held;
mod missing;
mod permit;

pub use missing::LockMissing;
pub use permit::{PermitHandle, PermitStatus};

pub(crate) use held::{Acquire, Held, RequestGuard, Watch};
pub(crate) use missing::LockView;

#[cfg(feature = "idempotency")]
use crate::observer::Observers;
use crate::reject::RejectReason;
use held::RequestHold;
use lock_core::{Hold, LockError, LockName, ReleaseOutcome, set::SetHold};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
};

/// The lock of a request, or the reason why the request runs without one. It is in the extensions of every
/// request that needed a lock.
#[derive(Debug, Clone)]
pub enum LockStatus {
    /// The request has its lock.
    Held(LockHandle),
    /// The request has all of its locks, from a layer with several
    /// [`keys`](crate::LockLayer::keys).
    HeldSet(LockSetHandle),
    /// The layer passed the request through without its lock, for this reason: because of its policy
    /// [`on_unavailable`](crate::LockLayer::on_unavailable) or [`on_bad_key`](crate::LockLayer::on_bad_key), or because
    /// it runs in [`shadow`](crate::LockLayer::shadow) mode.
    Unlocked(RejectReason),
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
    pub fn unlocked(&self) -> Option<&RejectReason> {
        match self {
            Self::Held(_) | Self::HeldSet(_) => None,
            Self::Unlocked(reason) => Some(reason),
        }
    }
}

/// A handler's view of its request's lock: a [`Hold`] that can be released early.
///
/// With axum, it is an extractor. Otherwise, it is in the request's extensions, as
/// [`LockStatus`]: `request.extensions().get::<LockStatus>()`.
///
/// | as an extractor | held | passed through ([`Unlocked`](LockStatus::Unlocked)) | needs no lock, or there is no layer |
/// | --- | --- | --- | --- |
/// | `LockHandle` | the handle | 503 | 500, with an explanation in the log |
/// | `Option<LockHandle>` | `Some` | `None` | `None` |
/// | [`LockStatus`] | `Held` | `Unlocked` | 500 |
///
/// Routes with several [`keys`](crate::LockLayer::keys) use a
/// [`LockSetHandle`] instead.
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
    fn new(hold: Hold, held: &Arc<Held>) -> Self {
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
            Some(RequestGuard::Permit(permit)) => permit.release().await,
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

/// A handler's view of the locks for several [`keys`](crate::LockLayer::keys): a [`SetHold`], with
/// a fencing token for each name, that can be released early.
///
/// It is extracted like a [`LockHandle`], and does not keep the locks held.
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
    fn new(hold: SetHold, held: &Arc<Held>) -> Self {
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
    /// For each lock, the errors of [`LockHandle::release`](LockHandle::release).
    ///
    /// # Cancel safety
    /// Cancel safe: once the future has been polled, the locks are released, in the background if necessary.
    pub async fn release(&self) -> Vec<(LockName, Result<ReleaseOutcome, LockError>)> {
        match self.held.upgrade().and_then(|held| held.take_guard()) {
            Some(RequestGuard::Set(guard)) => guard.release().await,
            Some(RequestGuard::One(_) | RequestGuard::Permit(_)) | None => {
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
