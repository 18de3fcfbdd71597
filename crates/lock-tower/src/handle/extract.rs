//! The handles and the status as axum extractors.

use super::{
    lock_handle::LockHandle, lock_set_handle::LockSetHandle, missing::LockMissing, status::LockStatus,
    view::LockView,
};
use crate::{
    config::matched_route,
    in_handler::LockSlot,
    reject::{Details, kind},
};
use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    response::{IntoResponse, Response},
};
use http::{StatusCode, request::Parts};

impl IntoResponse for LockMissing {
    fn into_response(self) -> Response {
        // Errors in the server's configuration are logged, but not sent to the client.
        let (kind, detail) = match self.status() {
            StatusCode::SERVICE_UNAVAILABLE => (kind::BACKEND_ERROR, "the lock service is not available"),
            _ => (kind::MISCONFIGURED, "the server is misconfigured"),
        };
        Details::new(self.status(), kind, detail).into_response().into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for LockStatus {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        view(parts)
    }
}

impl<S: Sync> FromRequestParts<S> for LockHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        view(parts)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for LockHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, LockMissing> {
        view(parts)
    }
}

impl<S: Sync> FromRequestParts<S> for LockSetHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        view(parts)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for LockSetHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, LockMissing> {
        view(parts)
    }
}

fn view<H: LockView>(parts: &Parts) -> Result<H, LockMissing> {
    let status = parts.extensions.get::<LockStatus>();
    let comes_later = status.is_none() && parts.extensions.get().is_some_and(LockSlot::is_needed);
    let handle = if comes_later { Err(LockMissing::BeforeLock) } else { H::of(status) };
    handle.map_err(|missing| missing.log(matched_route(&parts.extensions)))
}
