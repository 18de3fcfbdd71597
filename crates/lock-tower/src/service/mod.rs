//! The services, futures and bodies of the layers, for use in signatures.

mod future;

pub use crate::{
    body::LockedBody,
    buffer::{BufferRequest, BufferRequestFuture, BufferedBody},
    detach::{DetachFuture, DetachService, DetachedBody},
    in_handler::{InHandlerFuture, InHandlerService},
    key::BodyKey,
};
pub use future::ResponseFuture;

pub(crate) use future::Running;

use crate::{
    config::Config,
    key::{KeyTemplate, Read},
    request::LockRequest,
};
use future::Call;
use http::{Request, Response, request::Parts};
use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service behind a lock, created by a [`LockLayer`](crate::LockLayer).
#[derive(Clone)]
pub struct LockService<S, K = KeyTemplate> {
    inner: S,
    config: Arc<Config>,
    key: K,
}

impl<S, K> LockService<S, K> {
    pub(crate) fn new(inner: S, config: Arc<Config>, key: K) -> Self {
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
        self.begin(request, |key, parts, _| key.read(parts))
    }
}

impl<S, R> Service<Request<BufferedBody>> for LockService<S, BodyKey>
where
    S: Service<Request<BufferedBody>, Response = Response<R>> + Clone,
    R: http_body::Body,
{
    type Response = Response<LockedBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, BufferedBody>;

    /// Polls the inner service. The lock depends on the request, so it is not acquired here.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<BufferedBody>) -> Self::Future {
        self.begin(request, |key, parts, body| Read::Now(key.read(parts, body)))
    }
}

impl<S, K> LockService<S, K> {
    fn begin<B>(
        &mut self,
        request: Request<B>,
        read: impl FnOnce(&K, &mut Parts, &B) -> Read,
    ) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        let (mut parts, body) = request.into_parts();
        if !self.config.needs_lock(&parts) {
            return ResponseFuture::no_lock_needed(self.inner.call(Request::from_parts(parts, body)));
        }
        let lock = LockRequest::new(self.config.clone(), &parts);
        let names = read(&self.key, &mut parts, &body);
        // Takes the ready service and leaves its clone, which is polled before the next call.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::new(names, lock, Call { service: ready, parts, body })
    }
}

impl<S: fmt::Debug, K: fmt::Debug> fmt::Debug for LockService<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
