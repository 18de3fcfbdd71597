//! The layer of permits: up to a number of requests per key at a time, around handlers and around clients.
//!
//! It is a [`LockLayer`] whose requests acquire a permit in place of a lock, so every policy and rejection exists once.

use crate::{
    buffer::BufferRequestLayer,
    detach::DetachedTasks,
    key::{BodyKey, InvalidKey, KeyError, KeyTemplate},
    layer::{LayerKey, LockLayer, or_panic},
    observer::LayerObserver,
    policy::{OnLost, ReleaseOn, WithoutLock},
    reject::{BoxError, Rejection},
};
use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use lock_core::{LockError, LockFactory, LockName, LockOptions};
use std::{fmt, sync::Arc, time::Duration};
use tower_layer::Layer;

/// A layer that serves up to `limit` requests per key at a time, across all processes that share the store.
///
/// The key is the name of a [`Semaphore`](lock_core::permit::Semaphore), which other code can use too. Semaphores and
/// locks have names of their own.
///
/// The options and their defaults are those of a [`LockLayer`], and so are the responses, events and log lines, with a
/// permit in place of the lock. A request waits for 1 s by default, and holds its permit until the response body ends,
/// for at most 30 s. A handler that loses its permit is dropped. Handlers receive a [`PermitHandle`](crate::PermitHandle).
///
/// # Around handlers
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, extract::Path, routing::post};
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_tower::{KeyTemplate, PermitLayer};
/// use std::time::Duration;
///
/// async fn export(Path(tenant): Path<u64>) -> String {
///     format!("the data of tenant {tenant}")
/// }
///
/// let locks = LockFactory::new(MemoryBackend::new()); // in production: Redis, PostgreSQL or SQLite
/// let tenant = KeyTemplate::of("exports").path_as::<u64>("tenant"); // `07` is the tenant 7
/// let two = PermitLayer::new(locks, 2).key(tenant).wait(Duration::from_secs(5));
/// let app: Router = Router::new().route("/tenants/{tenant}/exports", post(export).route_layer(two));
/// # }
/// ```
///
/// # Around clients
/// The layer goes around any client that is a `Service<http::Request<B>>`, such as hyper-util's. The client of reqwest
/// has requests of its own, and needs an adapter, such as the crate `tower-reqwest`. For other calls, acquire a permit
/// of the [semaphore](lock_core::LockFactory::semaphore).
///
/// A call that does not get its permit is not made, and the layer responds in place of the server. Such a response has
/// the [`Rejection`] in its extensions. A call whose permit is lost is dropped, and the response has a `Rejection` too.
///
/// Read each response body to its end, or drop it: its call counts until then.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::{BodyExt, Full};
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_tower::{BoxError, PermitLayer, Rejection};
/// use tower::{Layer, ServiceExt};
///
/// // A client, for example of hyper-util.
/// let client = tower::service_fn(async |_: Request<()>| Ok::<_, BoxError>(Response::new(Full::new(Bytes::from("hi")))));
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let partner = PermitLayer::new(locks, 5).key("partner-api").layer(client); // cheap to clone
///
/// let response = partner.clone().oneshot(Request::get("https://partner.example/stock").body(())?).await?;
/// match response.extensions().get::<Rejection>() {
///     Some(rejection) => println!("not called: {:?}", rejection.reason()),
///     None => println!("{:?}", response.into_body().collect().await?.to_bytes()),
/// }
/// # Ok(()) }
/// ```
///
/// Several clients have one limit each with a key from the request, for example its host:
///
/// ```
/// use lock_tower::{KeyError, KeyTemplate, PermitLayer};
/// # use lock_core::{LockFactory, MemoryBackend};
/// # let locks = LockFactory::new(MemoryBackend::new());
///
/// let by_host = KeyTemplate::from_fn(|call| {
///     let host = call.uri.host().ok_or(KeyError::misconfigured("the URI has no host"))?;
///     Ok(format!("partner:{}", KeyTemplate::escape(host)))
/// });
/// let layer = PermitLayer::new(locks, 10).key(by_host);
/// ```
///
/// # Stores
/// Memory, Redis, PostgreSQL and SQLite have permits. For other stores, [`try_new`](Self::try_new) returns an error.
///
/// # Limits
/// The limit is not stored: processes with different limits share a key under the larger one; see
/// [permits](lock_core::permit).
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put on a service"]
pub struct PermitLayer<K = (), D = ()>(LockLayer<K, D>);

impl PermitLayer {
    /// Creates a layer that acquires permits from this factory, `limit` of each key. It still needs a
    /// [`key`](Self::key).
    ///
    /// # Panics
    /// Panics if the limit is 0 or above 2³⁰, or if the store has no permits; [`try_new`](Self::try_new) returns the
    /// error.
    #[track_caller]
    pub fn new(locks: LockFactory, limit: u32) -> Self {
        or_panic(Self::try_new(locks, limit))
    }

    /// Like [`new`](Self::new), for limits and stores that are only known at run time.
    ///
    /// ```
    /// use lock_core::{LockErrorKind, LockFactory, MemoryBackend};
    /// use lock_tower::PermitLayer;
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let error = PermitLayer::try_new(locks, 0).unwrap_err();
    /// assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](lock_core::LockErrorKind::InvalidOptions) if the limit is 0 or above 2³⁰;
    /// [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if the store has no permits.
    pub fn try_new(locks: LockFactory, limit: u32) -> Result<Self, LockError> {
        locks.check_limit(limit)?;
        Ok(Self(LockLayer::new(locks).with(|config| config.limit = Some(limit))))
    }
}

impl<D> PermitLayer<(), D> {
    /// Sets the rule that derives the name of the semaphore from a request; see [`LockLayer::key`].
    ///
    /// # Panics
    /// Panics if the template is malformed or has several names; [`try_key`](Self::try_key) returns the error.
    #[track_caller]
    pub fn key<T>(self, key: T) -> PermitLayer<KeyTemplate, D>
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
    {
        or_panic(self.try_key(key))
    }

    /// Like [`key`](Self::key), for templates that are only known at run time.
    ///
    /// # Errors
    /// An [`InvalidKey`] if the template is malformed, or has several names.
    pub fn try_key<T>(self, key: T) -> Result<PermitLayer<KeyTemplate, D>, InvalidKey>
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
    {
        Ok(PermitLayer(self.0.with_key(key.try_into()?.single()?)))
    }

    /// Sets a function that derives the key from the head and the body of a request; see [`LockLayer::body_key`].
    pub fn body_key<F>(self, buffer: BufferRequestLayer, read: F) -> PermitLayer<BodyKey, D>
    where
        F: Fn(&Parts, &Bytes) -> Result<LockName, KeyError> + Send + Sync + 'static,
    {
        PermitLayer(self.0.body_key(buffer, read))
    }
}

impl<K> PermitLayer<K> {
    /// Runs each handler in its own task to the end of its body, even if the client disconnects; see
    /// [`LockLayer::detach`].
    pub fn detach(self, tasks: &DetachedTasks) -> PermitLayer<K, DetachedTasks> {
        PermitLayer(self.0.detach(tasks))
    }
}

impl<K, D> PermitLayer<K, D> {
    /// Sets the maximum time that a request waits for its permit. Zero means a single attempt.
    ///
    /// # Panics
    /// Panics if `wait` exceeds the factory's [`max_wait`](lock_core::Limits::max_wait); [`try_wait`](Self::try_wait)
    /// returns the error.
    #[track_caller]
    pub fn wait(self, wait: Duration) -> Self {
        or_panic(self.try_wait(wait))
    }

    /// Like [`wait`](Self::wait), for a time that is only known at run time.
    ///
    /// # Errors
    /// As [`LockLayer::try_wait`].
    pub fn try_wait(self, wait: Duration) -> Result<Self, LockError> {
        self.0.try_wait(wait).map(Self)
    }

    /// Disables waiting: if no permit is free, or others wait for one, the request is rejected immediately with 409.
    pub fn fail_fast(self) -> Self {
        Self(self.0.fail_fast())
    }

    /// Sets the methods that need a permit; see [`LockLayer::methods`].
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        Self(self.0.methods(methods))
    }

    /// Adds a filter that returns `true` for requests that need a permit; see [`LockLayer::filter`].
    pub fn filter(self, needs_permit: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self(self.0.filter(needs_permit))
    }

    /// Sets the options of the permits, such as their lease. They replace all options of the factory.
    ///
    /// # Panics
    /// Panics if the options conflict or exceed the factory's limits; [`try_options`](Self::try_options) returns the
    /// error.
    #[track_caller]
    pub fn options(self, options: LockOptions) -> Self {
        or_panic(self.try_options(options))
    }

    /// Like [`options`](Self::options), for options that are only known at run time.
    ///
    /// # Errors
    /// As [`LockLayer::try_options`].
    pub fn try_options(self, options: LockOptions) -> Result<Self, LockError> {
        self.0.try_options(options).map(Self)
    }

    /// Sets the maximum duration of a hold, 30 s by default; see [`LockLayer::max_hold`].
    ///
    /// # Panics
    /// Panics if `limit` is shorter than a millisecond, or conflicts with the other options.
    #[track_caller]
    pub fn max_hold(self, limit: Duration) -> Self {
        Self(self.0.max_hold(limit))
    }

    /// Leaves the maximum duration of a hold to the options; see [`LockLayer::no_max_hold`].
    pub fn no_max_hold(self) -> Self {
        Self(self.0.no_max_hold())
    }

    /// Sets when the permit is released. By default, it is released when the body ends.
    pub fn release_on(self, when: ReleaseOn) -> Self {
        Self(self.0.release_on(when))
    }

    /// Sets the policy for a handler whose permit is lost. By default, it is dropped.
    pub fn on_lost(self, then: OnLost) -> Self {
        Self(self.0.on_lost(then))
    }

    /// Sets the policy for requests that arrive while the store is not responding. They are rejected by default; see
    /// [`LockLayer::on_unavailable`].
    pub fn on_unavailable(self, then: WithoutLock) -> Self {
        Self(self.0.on_unavailable(then))
    }

    /// Sets the policy for requests that lack the client's part of the key. They are rejected by default; see
    /// [`LockLayer::on_bad_key`].
    pub fn on_bad_key(self, then: WithoutLock) -> Self {
        Self(self.0.on_bad_key(then))
    }

    /// Sets the response status for requests whose [`wait`](Self::wait) expires, 503 by default.
    pub fn timeout_status(self, status: StatusCode) -> Self {
        Self(self.0.timeout_status(status))
    }

    /// Sets the response to rejected requests; see [`LockLayer::on_reject`].
    pub fn on_reject<F, B>(self, answer: F) -> Self
    where
        F: Fn(Rejection) -> Response<B> + Send + Sync + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(self.0.on_reject(answer))
    }

    /// Responds to rejected requests with a gRPC status, for tonic.
    pub fn grpc(self) -> Self {
        Self(self.0.grpc())
    }

    /// Sets the secret for the key hashes in rejections and spans; see [`LockLayer::key_hash_secret`].
    pub fn key_hash_secret(self, secret: [u8; 16]) -> Self {
        Self(self.0.key_hash_secret(secret))
    }

    /// Sets the maximum number of requests that wait at the same time in this process, across all keys and clones of
    /// this layer. The default is 1,000; see [`LockLayer::max_waiters`].
    pub fn max_waiters(self, limit: usize) -> Self {
        Self(self.0.max_waiters(limit))
    }

    /// Runs the layer in shadow mode: it acquires permits, but never rejects a request; see [`LockLayer::shadow`].
    pub fn shadow(self) -> Self {
        Self(self.0.shadow())
    }

    /// Sets the route reported in events and spans, for services without axum and for clients.
    pub fn route(self, template: impl Into<Arc<str>>) -> Self {
        Self(self.0.route(template))
    }

    /// Adds an observer, for example `OtelLayerObserver`.
    pub fn observer(self, observer: impl LayerObserver) -> Self {
        Self(self.0.observer(observer))
    }
}

impl<K: fmt::Debug, D> fmt::Debug for PermitLayer<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.0.config().limit.unwrap_or_default();
        f.debug_struct("PermitLayer").field("limit", &limit).field("layer", &self.0).finish()
    }
}

impl<S, K: LayerKey<S, D>, D> Layer<S> for PermitLayer<K, D> {
    type Service = K::Service;

    fn layer(&self, inner: S) -> K::Service {
        self.0.layer(inner)
    }
}
