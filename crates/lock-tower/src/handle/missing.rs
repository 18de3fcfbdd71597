//! The forms in which a handler can receive its lock, and the reasons why it cannot.

use super::{LockHandle, LockSetHandle, LockStatus};
use crate::log::LoggedMistakes;
use http::StatusCode;

/// The reason why a handler cannot get its [`LockHandle`] or
/// [`LockSetHandle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockMissing {
    /// The route has no layer, or the layer's filter let the request pass.
    #[error(
        "this request has no lock: put a LockLayer on its route, or extract `Option<LockHandle>` if its filter lets some \
         requests pass"
    )]
    NoLayer,
    /// The layer passed the request through without its lock; see [`Unlocked`](LockStatus::Unlocked).
    #[error(
        "this request was passed through without its lock: extract `Option<LockHandle>` or `LockStatus` to handle that case"
    )]
    Unlocked,
    /// A [`LockSetHandle`] was requested, but the key has only one name.
    #[error("this route has only one lock: extract `LockHandle` instead")]
    OneKey,
    /// A [`LockHandle`] was requested, but the key has several names.
    #[error("this route has several locks: extract `LockSetHandle` instead")]
    SeveralKeys,
    /// A `Locked` or a [`LockSlot`](crate::LockSlot) was requested on a route whose lock is not acquired in the
    /// handler.
    #[error(
        "this route has no layer for locks acquired in the handler: put one on its method, as in \
         `post(handler).layer(lock.in_handler())`"
    )]
    NotInHandler,
    /// A handle was extracted before the lock was acquired.
    #[error(
        "this route acquires its lock in the handler: get the handle from `Locked` or `LockSlot`, or extract it after \
         `Locked`"
    )]
    BeforeLock,
    /// A lock was already requested for this request.
    #[error(
        "this request has already acquired or requested a lock: acquire all of its locks at once, with a key that has \
         several names"
    )]
    SecondLock,
    /// A [`PermitHandle`](crate::PermitHandle) was requested, but the route has no
    /// [`PermitLayer`](crate::PermitLayer), or its filter let the request pass.
    #[error(
        "this request has no permit: put a PermitLayer on its route, or extract `Option<PermitHandle>` if its filter lets \
         some requests pass"
    )]
    NoPermitLayer,
    /// The layer passed the request through without its permit; see
    /// [`PassedThrough`](crate::PermitStatus::PassedThrough).
    #[error(
        "this request was passed through without its permit: extract `Option<PermitHandle>` or `PermitStatus` to handle \
         that case"
    )]
    NoPermit,
    /// The request has ended, so its lock can no longer be acquired.
    #[error("this request has ended: a task that outlives it needs its own lock")]
    RequestEnded,
}

impl LockMissing {
    /// Returns the response status: 503 for a request that was passed through or has ended, otherwise 500.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Unlocked | Self::NoPermit | Self::RequestEnded => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the reason why a request's status does not contain the requested handle.
    fn of(status: Option<&LockStatus>) -> Self {
        match status {
            Some(LockStatus::Held(_)) => Self::OneKey,
            Some(LockStatus::HeldSet(_)) => Self::SeveralKeys,
            Some(LockStatus::Unlocked(_)) => Self::Unlocked,
            None => Self::NoLayer,
        }
    }

    /// Logs the error once for its route. The path is not logged because it contains keys.
    pub(crate) fn log(self, route: Option<&str>) -> Self {
        // A route without a layer has no other place to keep this.
        static LOGGED: LoggedMistakes = LoggedMistakes::new();
        match (LOGGED.is_new(&self.to_string(), route), self.status()) {
            (false, _) => tracing::debug!(http.route = route, "{self}"),
            (true, StatusCode::SERVICE_UNAVAILABLE) => tracing::warn!(http.route = route, "{self}"),
            (true, _) => tracing::error!(http.route = route, "{self}"),
        }
        self
    }
}

/// A form in which a handler can receive its lock: [`LockHandle`], [`LockSetHandle`], an `Option` of one of them, or
/// [`LockStatus`].
#[cfg_attr(not(feature = "axum"), expect(unreachable_pub, reason = "a bound of `Locked`"))]
pub trait LockView: Send + Sized {
    /// Returns the lock, or the reason why there is none.
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing>;
}

impl LockView for LockHandle {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        status.and_then(LockStatus::handle).cloned().ok_or_else(|| LockMissing::of(status))
    }
}

impl LockView for LockSetHandle {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        status.and_then(LockStatus::set_handle).cloned().ok_or_else(|| LockMissing::of(status))
    }
}

impl LockView for LockStatus {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        status.cloned().ok_or(LockMissing::NoLayer)
    }
}

impl LockView for Option<LockHandle> {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        optional(status)
    }
}

impl LockView for Option<LockSetHandle> {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        optional(status)
    }
}

/// Returns `None` if the request has no lock. A lock in another form is an error.
fn optional<H: LockView>(status: Option<&LockStatus>) -> Result<Option<H>, LockMissing> {
    match H::of(status) {
        Ok(handle) => Ok(Some(handle)),
        Err(LockMissing::NoLayer | LockMissing::Unlocked) => Ok(None),
        Err(wrong) => Err(wrong),
    }
}
