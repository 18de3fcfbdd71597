//! The handle and the status as axum extractors.

use super::{lock_handle::LockHandle, status::LockStatus};
use crate::reject::{Details, kind};
use axum::{
    extract::{FromRequestParts, MatchedPath, OptionalFromRequestParts},
    response::{IntoResponse, Response},
};
use http::{StatusCode, request::Parts};
use std::convert::Infallible;

/// The reason why a handler cannot extract its [`LockHandle`].
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
}

impl LockMissing {
    /// Returns the status of the answer: 500 for a route without a layer, 503 for a request without its lock.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::NoLayer => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unlocked => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for LockMissing {
    fn into_response(self) -> Response {
        // The client does not learn the configuration of the server; it is logged instead.
        let (kind, detail) = match self {
            Self::NoLayer => (kind::MISCONFIGURED, "the server is misconfigured"),
            Self::Unlocked => (kind::BACKEND_ERROR, "the lock service is not available"),
        };
        Details::new(self.status(), kind, detail).into_response().into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for LockStatus {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| no_layer(parts))
    }
}

impl<S: Sync> FromRequestParts<S> for LockHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        match parts.extensions.get::<LockStatus>() {
            Some(LockStatus::Held(handle)) => Ok(handle.clone()),
            Some(LockStatus::Unlocked(_)) => {
                tracing::warn!("{}", LockMissing::Unlocked);
                Err(LockMissing::Unlocked)
            }
            None => Err(no_layer(parts)),
        }
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for LockHandle {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<LockStatus>().and_then(LockStatus::handle).cloned())
    }
}

/// The route is logged, not the path, which contains keys.
fn no_layer(parts: &Parts) -> LockMissing {
    let route = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    tracing::error!(http.route = route, "{}", LockMissing::NoLayer);
    LockMissing::NoLayer
}
