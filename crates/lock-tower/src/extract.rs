//! The extractors of axum: the lock of a request, the lock of a parsed value, and the permit of a request.

use crate::{
    config::matched_route,
    handle::{LockHandle, LockMissing, LockSetHandle, LockStatus, LockView, PermitHandle, PermitStatus},
    in_handler::LockSlot,
    reject::{Details, ProblemType},
};
use axum::{
    extract::{FromRequest, FromRequestParts, MatchedPath, OptionalFromRequestParts, Request},
    response::{IntoResponse, Response},
};
use http::{Extensions, StatusCode, request::Parts};
use lock_core::LockKey;
use std::{convert::Infallible, future::Future, ops::Deref};

/// An extractor that also acquires the lock for its value:
/// `Locked(Json(order), lock): Locked<Json<NewOrder>>`.
///
/// `E` first reads, parses and validates the request. The lock for the *parsed* value is acquired
/// afterwards, so `7`, `07` and `+7` share one lock, and a slow upload does not hold it. `E` is any
/// extractor that dereferences to a [`LockKey`], such as axum's `Json`, `Path`, `Query` and `Form`.
/// If `E` rejects the request, its response is unchanged, and no lock is taken.
///
/// The route needs a layer created by [`in_handler`](crate::LockLayer::in_handler). The layer
/// responds to requests that do not acquire their lock, and otherwise holds the lock until the end
/// of the response, according to its settings.
///
/// | second argument | for |
/// | --- | --- |
/// | [`LockHandle`], the default | a key of one name |
/// | [`LockSetHandle`](crate::LockSetHandle) | a key of several names |
/// | `Option` of either | requests that may run without a lock, because of the layer's filter or as [`Unlocked`](LockStatus::Unlocked) |
/// | [`LockStatus`] | one name, several, or [`Unlocked`](LockStatus::Unlocked), but not requests that the filter lets pass |
///
/// A missing layer, a handle for the wrong number of names, a second lock in one request, and a
/// [`LockHandle`] extracted before the lock is acquired are server errors (500), with an
/// explanation in the log; see [`LockMissing`]. If the key needs several extractors, such as path
/// and body, use a [`LockSlot`].
///
/// If the compiler rejects the handler because `Handler` is not implemented, put `#[axum::debug_handler]` on it. The
/// error then lists the bounds of this extractor, such as [`LockKey`] for the value.
///
/// ```
/// use axum::{Json, Router, routing::post};
/// use lock_core::LockKey;
/// use lock_tower::{LockLayer, Locked};
/// # use lock_core::{LockFactory, MemoryBackend};
/// # let locks = LockFactory::new(MemoryBackend::new());
///
/// #[derive(serde::Deserialize, LockKey)]
/// #[lock_key("stock:{sku}")]
/// struct NewOrder {
///     sku: u64,
///     count: u32,
/// }
///
/// async fn order(Locked(Json(order), lock): Locked<Json<NewOrder>>) -> String {
///     format!("sold {} of {} under token {}", order.count, order.sku, lock.fencing_token())
/// }
///
/// let lock = LockLayer::new(locks);
/// let app: Router = Router::new().route("/orders", post(order).layer(lock.in_handler()));
/// ```
#[derive(Debug, Clone)]
pub struct Locked<E, H = LockHandle>(pub E, pub H);

/// The rejection of a [`Locked`] extractor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockedRejection<R> {
    /// The inner extractor rejected the request. Its response is unchanged.
    #[error(transparent)]
    Extractor(R),
    /// The handler needs a lock, but the request has none.
    #[error(transparent)]
    Lock(LockMissing),
}

impl<R: IntoResponse> IntoResponse for LockedRejection<R> {
    fn into_response(self) -> Response {
        match self {
            Self::Extractor(rejection) => rejection.into_response(),
            Self::Lock(missing) => missing.into_response(),
        }
    }
}

impl<S, E, H> FromRequest<S> for Locked<E, H>
where
    S: Send + Sync,
    E: FromRequest<S> + Deref + Send,
    E::Target: LockKey,
    H: LockView,
{
    type Rejection = LockedRejection<E::Rejection>;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let slot = slot(request.extensions()).map_err(LockedRejection::Lock)?;
        let route = request.extensions().get::<MatchedPath>().cloned();
        let inner = E::from_request(request, state).await.map_err(LockedRejection::Extractor)?;
        let (handle, _) = acquire(&slot, &*inner, route).await.map_err(LockedRejection::Lock)?;
        Ok(Self(inner, handle))
    }
}

impl<S, E, H> FromRequestParts<S> for Locked<E, H>
where
    S: Send + Sync,
    E: FromRequestParts<S> + Deref + Send,
    E::Target: LockKey,
    H: LockView,
{
    type Rejection = LockedRejection<E::Rejection>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let slot = slot(&parts.extensions).map_err(LockedRejection::Lock)?;
        let inner = E::from_request_parts(parts, state).await.map_err(LockedRejection::Extractor)?;
        let route = parts.extensions.get::<MatchedPath>().cloned();
        let (handle, status) = acquire(&slot, &*inner, route).await.map_err(LockedRejection::Lock)?;
        // Provides the lock to later extractors.
        if let Some(status) = status {
            parts.extensions.insert(status);
        }
        Ok(Self(inner, handle))
    }
}

/// Returns the request's slot. Called before the request is read, so a misconfigured route fails
/// early.
fn slot(extensions: &Extensions) -> Result<LockSlot, LockMissing> {
    let slot = extensions.get::<LockSlot>().cloned();
    slot.ok_or_else(|| LockMissing::NotInHandler.log(matched_route(extensions)))
}

/// Acquires the lock for a parsed value. The route is for the log.
fn acquire<H: LockView>(
    slot: &LockSlot,
    key: &(impl LockKey + ?Sized),
    route: Option<MatchedPath>,
) -> impl Future<Output = Result<(H, Option<LockStatus>), LockMissing>> + Send {
    let names = key.lock_names();
    async move {
        let log = |missing: LockMissing| missing.log(route.as_ref().map(MatchedPath::as_str));
        let status = slot.status(names).await.map_err(log)?;
        let handle = H::of(status.as_ref()).map_err(log)?;
        Ok((handle, status))
    }
}

impl<S: Sync> FromRequestParts<S> for LockSlot {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        slot(&parts.extensions)
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

impl<S: Sync> FromRequestParts<S> for PermitStatus {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockMissing> {
        let status = parts.extensions.get().cloned().ok_or(LockMissing::NoPermitLayer);
        status.map_err(|missing| missing.log(matched_route(&parts.extensions)))
    }
}

impl<S: Sync> FromRequestParts<S> for PermitHandle {
    type Rejection = LockMissing;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, LockMissing> {
        match PermitStatus::from_request_parts(parts, state).await? {
            PermitStatus::Held(permit) => Ok(permit),
            PermitStatus::PassedThrough(_) => {
                Err(LockMissing::NoPermit.log(matched_route(&parts.extensions)))
            }
        }
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for PermitHandle {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().and_then(PermitStatus::permit).cloned())
    }
}

impl IntoResponse for LockMissing {
    fn into_response(self) -> Response {
        // Errors in the server's configuration are logged, but not sent to the client.
        let (kind, detail) = match self.status() {
            StatusCode::SERVICE_UNAVAILABLE => {
                (ProblemType::BACKEND_ERROR, "the lock service is not available")
            }
            _ => (ProblemType::MISCONFIGURED, "the server is misconfigured"),
        };
        Details::new(self.status(), kind, detail).into_response().into_response()
    }
}
