//! The service that acquires the lock of each request before it calls the inner service.

use super::future::ResponseFuture;
use crate::{
    body::LockedBody,
    config::{Config, Routing},
    key::KeyTemplate,
    request::LockRequest,
};
use http::{Request, Response};
use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service behind a lock, made by a [`LockLayer`](crate::LockLayer).
#[derive(Clone)]
pub struct LockService<S> {
    inner: S,
    config: Arc<Config>,
    key: KeyTemplate,
}

impl<S> LockService<S> {
    pub(crate) fn new(inner: S, config: Arc<Config>, key: KeyTemplate) -> Self {
        Self { inner, config, key }
    }

    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service, without the lock.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for LockService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: http_body::Body,
{
    type Response = Response<LockedBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    /// Polls the inner service. The lock depends on the request, so it is not acquired here.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        let (mut parts, body) = match self.config.classify(request) {
            Routing::NeedsLock(parts, body) => (parts, body),
            Routing::NeedsNoLock(request) => return ResponseFuture::no_lock_needed(self.inner.call(request)),
        };
        let lock = LockRequest::new(self.config.clone(), &parts);
        let name = self.key.read(&mut parts);
        // The request takes the service that is ready. Its clone is not, and is polled before the next call.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::begin(name, lock, ready, Request::from_parts(parts, body))
    }
}

impl<S: fmt::Debug> fmt::Debug for LockService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
