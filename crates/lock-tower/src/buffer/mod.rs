//! A layer that reads the request's body before anybody holds a lock for it.

mod body;
mod future;

pub use body::BufferedBody;
pub use future::BufferRequestFuture;

use crate::BoxError;
use http::Request;
use http_body::Body;
use std::{
    mem,
    task::{Context, Poll},
    time::Duration,
};
use tower_layer::Layer;
use tower_service::Service;

/// Reads the body of each request into memory, and then calls the service inside, so that a slow upload does not keep
/// others from the lock. Put it outside of the [`LockLayer`](crate::LockLayer).
///
/// | option | default | answer above it |
/// | --- | --- | --- |
/// | [`limit`](Self::limit) | 2 MiB | 413 |
/// | [`timeout`](Self::timeout) | 30 s | 408 |
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
#[derive(Debug, Clone, Copy)]
#[must_use = "a layer does nothing until it is put on a service"]
pub struct BufferRequestLayer {
    limit: usize,
    timeout: Duration,
}

impl BufferRequestLayer {
    /// With the defaults.
    pub const fn new() -> Self {
        Self { limit: 2 * 1024 * 1024, timeout: Duration::from_secs(30) }
    }

    /// The longest body, in bytes.
    pub const fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// How long an upload may take.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
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
        BufferRequest { inner, layer: *self }
    }
}

/// A service whose requests have been read; made by [`BufferRequestLayer`].
#[derive(Debug, Clone)]
pub struct BufferRequest<S> {
    inner: S,
    layer: BufferRequestLayer,
}

impl<S> BufferRequest<S> {
    /// The service inside.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for BufferRequest<S>
where
    S: Service<Request<BufferedBody>, Response = http::Response<R>> + Clone,
    B: Body,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<crate::LockedBody<R>>;
    type Error = S::Error;
    type Future = BufferRequestFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> BufferRequestFuture<S, B> {
        // The one that is ready is taken along; its clone is not, and will be asked before the next call.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        BufferRequestFuture::new(ready, request, self.layer.limit, self.layer.timeout)
    }
}
