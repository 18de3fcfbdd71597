//! A layer that reads the body of each request before its lock is acquired, and its service.

mod upload;

pub use upload::BufferedBody;

use crate::{body::LockedBody, reject::BoxError};
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;
use upload::{Budget, Failure, Upload};

/// A layer that reads the body of each request into memory before it calls the inner service, so
/// that slow uploads do not hold the lock. Put it outside the [`LockLayer`](crate::LockLayer).
///
/// | option | default | response if exceeded |
/// | --- | --- | --- |
/// | [`limit`](Self::limit): the bytes of one body | 2 MiB | 413 |
/// | [`budget`](Self::budget): the bytes of all bodies together | 64 MiB | 503, `Retry-After` |
/// | [`timeout`](Self::timeout): the time of one upload | 30 s | 408 |
///
/// Requests that wait for their lock keep their bodies in memory. Without a budget, the waiters for
/// one key could use unlimited memory. Rejections are `application/problem+json`; the `reason` of
/// an exceeded budget is `buffer_full`.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, routing::put};
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_tower::{BufferRequestLayer, LockLayer};
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let upload = put(|body: String| async move { body.len().to_string() })
///     .route_layer(LockLayer::new(locks).key("file:{name}"))
///     .route_layer(BufferRequestLayer::new()); // added later, so it comes first
/// let app: Router = Router::new().route("/files/{name}", upload);
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a layer does nothing until it is put on a service"]
pub struct BufferRequestLayer {
    limit: usize,
    budget: Budget,
    timeout: Duration,
}

impl BufferRequestLayer {
    /// Creates a layer with the defaults.
    pub fn new() -> Self {
        Self {
            limit: 2 * 1024 * 1024,
            budget: Budget::new(64 * 1024 * 1024),
            timeout: Duration::from_secs(30),
        }
    }

    /// Sets the maximum length of a body, in bytes. Longer bodies are rejected with 413.
    pub fn limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Sets the maximum number of bytes that all requests of this layer and its clones keep in
    /// memory. A body counts from its arrival until the handler drops it, including while its
    /// request waits for the lock. A request that would exceed the budget is rejected with 503 and
    /// `Retry-After`. A body longer than the entire budget is rejected with 413.
    ///
    /// Only bytes that have arrived count. The memory behind them may be up to twice as large.
    pub fn budget(self, bytes: usize) -> Self {
        Self { budget: Budget::new(bytes), ..self }
    }

    /// Sets the maximum duration of an upload. Longer uploads are rejected with 408.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

impl Default for BufferRequestLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for BufferRequestLayer {
    type Service = BufferRequest<S>;

    fn layer(&self, inner: S) -> BufferRequest<S> {
        BufferRequest { inner, layer: self.clone() }
    }
}

/// A service that reads the body of each request before it calls the inner service; created by [`BufferRequestLayer`].
#[derive(Debug, Clone)]
pub struct BufferRequest<S> {
    inner: S,
    layer: BufferRequestLayer,
}

impl<S> BufferRequest<S> {
    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for BufferRequest<S>
where
    S: Service<Request<BufferedBody>, Response = Response<R>> + Clone,
    B: Body,
    B::Error: Into<BoxError>,
{
    type Response = Response<LockedBody<R>>;
    type Error = S::Error;
    type Future = BufferRequestFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> BufferRequestFuture<S, B> {
        // Takes the ready service and leaves its clone, which is polled before the next call.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        let BufferRequestLayer { limit, budget, timeout } = &self.layer;
        let (parts, body) = request.into_parts();
        BufferRequestFuture::new(ready, parts, Upload::new(body, *limit, budget), *timeout)
    }
}

pin_project! {
    /// The future of a [`BufferRequest`](BufferRequest).
    ///
    /// # Cancel safety
    /// Dropping the future drops the upload, or the call to the inner service.
    #[must_use = "futures do nothing unless polled"]
    pub struct BufferRequestFuture<S, B>
    where
        S: Service<Request<BufferedBody>>,
    {
        #[pin]
        stage: Stage<S::Future, S, B>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F, S, B> {
        Uploading { #[pin] upload: Upload<B>, #[pin] timeout: Sleep, then: Option<(S, Request<()>)> },
        Calling { #[pin] handler: F },
    }
}

impl<S, B> BufferRequestFuture<S, B>
where
    S: Service<Request<BufferedBody>>,
{
    fn new(service: S, parts: Parts, upload: Upload<B>, timeout: Duration) -> Self {
        let then = Some((service, Request::from_parts(parts, ())));
        Self { stage: Stage::Uploading { upload, timeout: tokio::time::sleep(timeout), then } }
    }
}

impl<S, B, R> Future for BufferRequestFuture<S, B>
where
    S: Service<Request<BufferedBody>, Response = Response<R>>,
    B: Body,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<LockedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let (upload, timeout, then) = match stage.as_mut().project() {
                StageProj::Uploading { upload, timeout, then } => (upload, timeout, then),
                StageProj::Calling { handler } => {
                    return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
                }
            };
            let body = match upload.poll_upload(cx) {
                Poll::Ready(Ok(body)) => body,
                Poll::Ready(Err(failure)) => return Poll::Ready(Ok(failure.answer())),
                Poll::Pending => {
                    ready!(timeout.poll(cx));
                    return Poll::Ready(Ok(Failure::TooSlow.answer()));
                }
            };
            let Some((mut service, request)) = then.take() else {
                panic!("`BufferRequestFuture` polled after completion")
            };
            let handler = service.call(request.map(|()| body));
            stage.set(Stage::Calling { handler });
        }
    }
}
