//! The service: takes each request to its lock, and then to the service inside.

use super::future::ResponseFuture;
use crate::{
    body::LockedBody,
    config::{Config, Sorted},
    key::KeyTemplate,
    request::Call,
};
use http::{Request, Response};
use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service behind a lock; made by [`LockLayer`](crate::LockLayer).
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

    /// The service inside.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service inside.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The service inside, without the lock.
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

    /// Which lock is needed depends on the request, so nothing is acquired here.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        let (mut parts, body) = match self.config.sort(request) {
            Sorted::NeedsLock(parts, body) => (parts, body),
            Sorted::Passes(request) => return ResponseFuture::passing(self.inner.call(request)),
        };
        let call = Call::new(self.config.clone(), &parts);
        let name = self.key.read(&mut parts);
        // The one that is ready is taken along; its clone is not, and will be asked before the next call.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::begin(name, call, ready, Request::from_parts(parts, body))
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
