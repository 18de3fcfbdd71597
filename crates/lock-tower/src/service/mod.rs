//! The services of the layers, and the bodies of their requests and responses, for use in signatures.
//!
//! Their futures have no names of their own: `<LockService<S> as Service<Request<B>>>::Future`.

mod future;

pub use crate::{
    body::LockedBody,
    buffer::{BufferRequest, BufferedBody},
    key::BodyKey,
};

pub(crate) use future::Running;

use crate::{
    config::Config,
    detach::{Disconnect, Keep},
    handle::LockStatus,
    in_handler::{Claim, InHandlerFuture, LockSlot},
    key::{KeyTemplate, Read},
    request::LockRequest,
};
use future::{Call, ResponseFuture};
use http::{Request, Response, request::Parts};
use http_body::Body;
use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service behind a lock, created by a [`LockLayer`](crate::LockLayer) with the same `K` and `D`.
pub struct LockService<S, K = KeyTemplate, D = ()> {
    inner: S,
    config: Arc<Config>,
    key: K,
    disconnect: PhantomData<D>,
}

impl<S, K, D> LockService<S, K, D> {
    pub(crate) fn new(inner: S, config: Arc<Config>, key: K) -> Self {
        Self { inner, config, key, disconnect: PhantomData }
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

impl<S, B, D, R> Service<Request<B>> for LockService<S, KeyTemplate, D>
where
    S: Service<Request<B>> + Clone,
    D: Disconnect<S::Future>,
    D::Future: Future<Output = Result<Response<R>, S::Error>>,
    R: Body,
{
    type Response = Response<LockedBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, D>;

    /// Polls the inner service. The lock depends on the request, so it is not acquired here.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.begin(request, |key, parts, _| key.read(parts))
    }
}

impl<S, D, R> Service<Request<BufferedBody>> for LockService<S, BodyKey, D>
where
    S: Service<Request<BufferedBody>> + Clone,
    D: Disconnect<S::Future>,
    D::Future: Future<Output = Result<Response<R>, S::Error>>,
    R: Body,
{
    type Response = Response<LockedBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, BufferedBody, D>;

    /// Polls the inner service. The lock depends on the request, so it is not acquired here.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<BufferedBody>) -> Self::Future {
        self.begin(request, |key, parts, body| Read::Now(key.read(parts, body)))
    }
}

impl<S, K, D> LockService<S, K, D> {
    fn begin<B>(
        &mut self,
        request: Request<B>,
        read: impl FnOnce(&K, &mut Parts, &B) -> Read,
    ) -> ResponseFuture<S, B, D>
    where
        S: Service<Request<B>> + Clone,
        D: Disconnect<S::Future>,
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

impl<S, B, D, R> Service<Request<B>> for LockService<S, LockSlot, D>
where
    S: Service<Request<B>>,
    D: Disconnect<S::Future>,
    D::Future: Future<Output = Result<Response<R>, S::Error>>,
    R: Body,
{
    type Response = Response<LockedBody<R>>;
    type Error = S::Error;
    type Future = InHandlerFuture<D::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if !self.config.needs_lock(&parts) {
            // An outer layer may have inserted a slot for its lock.
            parts.extensions.get_or_insert_with(LockSlot::not_needed);
            let handler = self.inner.call(Request::from_parts(parts, body));
            return InHandlerFuture::no_lock_needed(D::run(handler, Keep::Nothing));
        }
        let lock = LockRequest::unasked(self.config.clone(), &parts);
        let (claim, slot, keep) = Claim::new(&lock);
        parts.extensions.insert(slot);
        // Any existing status belongs to an outer layer.
        parts.extensions.remove::<LockStatus>();
        let handler = lock.observers.span().in_scope(|| self.inner.call(Request::from_parts(parts, body)));
        InHandlerFuture::new(D::run(handler, keep), claim, lock)
    }
}

impl<S: Clone, K: Clone, D> Clone for LockService<S, K, D> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.config.clone(), self.key.clone())
    }
}

impl<S: fmt::Debug, K: fmt::Debug, D> fmt::Debug for LockService<S, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
