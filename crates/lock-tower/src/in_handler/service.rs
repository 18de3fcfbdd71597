//! The service for handlers that request their own locks.

use super::{claim::Claim, future::InHandlerFuture, slot::LockSlot};
use crate::{body::LockedBody, config::Config, handle::LockStatus, request::LockRequest};
use http::{Request, Response};
use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service whose handlers acquire their own locks; created by a layer with
/// [`in_handler`](crate::LockLayer::in_handler).
#[derive(Clone)]
pub struct InHandlerService<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> InHandlerService<S> {
    pub(crate) fn new(inner: S, config: Arc<Config>) -> Self {
        Self { inner, config }
    }

    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for InHandlerService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body,
{
    type Response = Response<LockedBody<R>>;
    type Error = S::Error;
    type Future = InHandlerFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if !self.config.needs_lock(&parts) {
            // An outer layer may have inserted a slot for its lock.
            parts.extensions.get_or_insert_with(LockSlot::not_needed);
            return InHandlerFuture::no_lock_needed(self.inner.call(Request::from_parts(parts, body)));
        }
        let lock = LockRequest::unasked(self.config.clone(), &parts);
        let (claim, slot) = Claim::new(&lock);
        parts.extensions.insert(slot);
        // Any existing status belongs to an outer layer.
        parts.extensions.remove::<LockStatus>();
        let handler = lock.observers.span().in_scope(|| self.inner.call(Request::from_parts(parts, body)));
        InHandlerFuture::new(handler, claim, lock)
    }
}

impl<S: fmt::Debug> fmt::Debug for InHandlerService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InHandlerService").field("inner", &self.inner).finish_non_exhaustive()
    }
}
