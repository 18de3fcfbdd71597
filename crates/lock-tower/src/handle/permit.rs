//! A handler's view of the permit of its request.

use super::{LockHandle, LockStatus};
use crate::reject::RejectReason;
use lock_core::{Hold, LockError, LostReason, ReleaseOutcome};
use std::{fmt, future::Future, time::Duration};

/// The permit of a request, or the reason why the request runs without one. It is in the extensions of every request
/// that needed a permit, and with axum, it is an extractor.
#[derive(Debug, Clone)]
pub enum PermitStatus {
    /// The request has its permit.
    Held(PermitHandle),
    /// The layer passed the request through without its permit, for this reason: because of its policy
    /// [`on_unavailable`](crate::PermitLayer::on_unavailable) or [`on_bad_key`](crate::PermitLayer::on_bad_key), or
    /// because it runs in [`shadow`](crate::PermitLayer::shadow) mode.
    PassedThrough(RejectReason),
}

impl PermitStatus {
    /// Converts the status of a request behind a [`PermitLayer`](crate::PermitLayer), which acquires no sets.
    pub(crate) fn of(status: LockStatus) -> Self {
        match status {
            LockStatus::Held(handle) => Self::Held(PermitHandle(handle)),
            LockStatus::HeldSet(_) => unreachable!("a permit has one name"),
            LockStatus::Unlocked(reason) => Self::PassedThrough(reason),
        }
    }

    /// Returns the permit, if the request has one.
    #[must_use]
    pub fn permit(&self) -> Option<&PermitHandle> {
        match self {
            Self::Held(permit) => Some(permit),
            Self::PassedThrough(_) => None,
        }
    }
}

/// A handler's view of the permit of its request, which can be released early.
///
/// With axum, it is an extractor. Otherwise, it is in the request's extensions, as [`PermitStatus`]:
/// `request.extensions().get::<PermitStatus>()`.
///
/// | as an extractor | held | passed through | needs no permit, or there is no layer |
/// | --- | --- | --- | --- |
/// | `PermitHandle` | the handle | 503 | 500, with an explanation in the log |
/// | `Option<PermitHandle>` | `Some` | `None` | `None` |
/// | [`PermitStatus`] | `Held` | `PassedThrough` | 500 |
///
/// It has no fencing token: the newest of several holders is not the only one. A handle does not keep the permit held.
/// With two [`PermitLayer`](crate::PermitLayer)s around one handler, this is the permit of the inner one. The lock of a
/// [`LockLayer`](crate::LockLayer) around the same handler is its [`LockHandle`].
#[derive(Clone)]
pub struct PermitHandle(LockHandle);

impl PermitHandle {
    /// Returns a view of the hold, for tasks that outlive the request.
    #[must_use]
    pub fn hold(&self) -> &Hold {
        self.0.hold()
    }

    /// Returns `true` if the permit is currently valid; see [`Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns the time for which the permit stays valid without a further renewal; zero if it has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Completes when the permit is lost; see [`Hold::lost`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        self.0.lost()
    }

    /// Releases the permit immediately, before the response; see [`LockHandle::release`].
    ///
    /// # Errors
    /// As [`LockHandle::release`].
    ///
    /// # Cancel safety
    /// Cancel safe: once the future has been polled, the permit is released, in the background if necessary.
    pub async fn release(&self) -> Result<ReleaseOutcome, LockError> {
        self.0.release().await
    }
}

impl fmt::Debug for PermitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PermitHandle").field(self.hold()).finish()
    }
}
