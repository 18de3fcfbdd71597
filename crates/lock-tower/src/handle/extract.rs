//! The handle and the status as axum extractors.

use super::{lock_handle::LockHandle, lock_set_handle::LockSetHandle, status::LockStatus};
use crate::reject::{Details, kind};
use axum::{
    extract::{FromRequestParts, MatchedPath, OptionalFromRequestParts},
    response::{IntoResponse, Response},
};
use http::{StatusCode, request::Parts};

/// The reason why a handler cannot extract its [`LockHandle`] or [`LockSetHandle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockMissing {
    /// The route has no layer, or the layer's filter let the request pass.
    #[error(
        "this request has no lock: put a LockLayer on its route, or take `Option<LockHandle>` if its filter lets some \
         requests pass"
    )]
    NoLayer,
    /// The layer passed the request through without its lock; see [`Unlocked`](crate::Unlocked).
    #[error(
        "this request was passed through without its lock: take `Option<LockHandle>` or `LockStatus` to run without it"
    )]
    Unlocked,
    /// A [`LockSetHandle`] was asked for, and the layer has one key.
    #[error("this route has one lock: take `LockHandle`")]
    OneKey,
    /// A [`LockHandle`] was asked for, and the layer has several keys.
    #[error("this route has several locks: take `LockSetHandle`")]
    SeveralKeys,
}

impl LockMissing {
    /// Returns the status of the answer: 503 for a request without its lock, and otherwise 500.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::NoLayer | Self::OneKey | Self::SeveralKeys => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unlocked => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns why the status of a request has not the handle that was asked for.
    fn of(status: Option<&LockStatus>) -> Self {
        match status {
            Some(LockStatus::Held(_)) => Self::OneKey,
            Some(LockStatus::HeldSet(_)) => Self::SeveralKeys,
            Some(LockStatus::Unlocked(_)) => Self::Unlocked,
            None => Self::NoLayer,
        }
    }

    /// Logs the route, and not the path, which contains keys.
    fn log(self, parts: &Parts) -> Self {
        let route = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        match self {
            Self::Unlocked => tracing::warn!("{self}"),
            Self::NoLayer | Self::OneKey | Self::SeveralKeys => tracing::error!(http.route = route, "{self}"),
        }
        self
    }
}

impl IntoResponse for LockMissing {
    fn into_response(self) -> Response {
        // The client does not learn the configuration of the server; it is logged instead.
        let (kind, detail) = match self {
            Self::NoLayer | Self::OneKey | Self::SeveralKeys => {
                (kind::MISCONFIGURED, "the server is misconfigured")
            }
            Self::Unlocked => (kind::BACKEND_ERROR, "the lock service is not available"),
        };
        Details::new(self.status(), kind, detail).into_response().into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for LockStatus {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| LockMissing::NoLayer.log(parts))
    }
}

impl<S: Sync> FromRequestParts<S> for LockHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        required(parts, LockStatus::handle)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for LockHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, LockMissing> {
        optional(parts, LockStatus::handle)
    }
}

impl<S: Sync> FromRequestParts<S> for LockSetHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        required(parts, LockStatus::set_handle)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for LockSetHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, LockMissing> {
        optional(parts, LockStatus::set_handle)
    }
}

fn required<H: Clone>(parts: &Parts, handle: fn(&LockStatus) -> Option<&H>) -> Result<H, LockMissing> {
    let status = parts.extensions.get::<LockStatus>();
    status.and_then(handle).cloned().ok_or_else(|| LockMissing::of(status).log(parts))
}

/// `None` means that the request is not locked, and never that it is locked in another way.
fn optional<H: Clone>(
    parts: &Parts,
    handle: fn(&LockStatus) -> Option<&H>,
) -> Result<Option<H>, LockMissing> {
    let status = parts.extensions.get::<LockStatus>();
    match (status.and_then(handle), LockMissing::of(status)) {
        (Some(handle), _) => Ok(Some(handle.clone())),
        (None, LockMissing::NoLayer | LockMissing::Unlocked) => Ok(None),
        (None, wrong) => Err(wrong.log(parts)),
    }
}
