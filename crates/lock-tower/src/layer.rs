//! The layer: its key, its settings, and the service that it puts around another.

#[cfg(feature = "idempotency")]
use crate::config::CallsHandler;
use crate::{
    buffer::{BufferRequest, BufferRequestLayer},
    config::{Config, MaxHold, Mode, Waiters},
    detach::DetachedTasks,
    in_handler::LockSlot,
    key::{BodyKey, InvalidKey, KeyError, KeyTemplate},
    observer::LayerObserver,
    policy::{OnLost, ReleaseOn, WithoutLock},
    reject::{BoxError, Rejection, boxed},
    service::LockService,
};
use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use lock_core::{LockError, LockFactory, LockOptions, names::LockNames};
use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};
use tower_layer::Layer;

/// A layer that serves one request per key at a time, across all processes that share the store.
///
/// | option | default |
/// | --- | --- |
/// | [`key`](Self::key), [`keys`](Self::keys), [`try_key`](Self::try_key), [`try_keys`](Self::try_keys) | none: a `LockLayer` without a key does not implement `Layer` |
/// | [`body_key`](Self::body_key), [`in_handler`](Self::in_handler) | alternatives to `key`, for keys that are not in the request's head |
/// | [`wait`](Self::wait), [`fail_fast`](Self::fail_fast) | waits 1 s |
/// | [`methods`](Self::methods), [`filter`](Self::filter) | every request needs the lock |
/// | [`options`](Self::options) | the options of the factory |
/// | [`max_hold`](Self::max_hold), [`no_max_hold`](Self::no_max_hold) | 30 s |
/// | [`release_on`](Self::release_on) | the end of the body |
/// | [`detach`](Self::detach) | a client disconnect cancels the handler |
/// | [`on_lost`](Self::on_lost) | stop the handler, truncate the body |
/// | [`on_unavailable`](Self::on_unavailable) | reject (fail closed) |
/// | [`on_bad_key`](Self::on_bad_key) | reject |
/// | [`timeout_status`](Self::timeout_status) | 503 |
/// | [`on_reject`](Self::on_reject), [`grpc`](Self::grpc) | problem+json |
/// | [`key_hash_secret`](Self::key_hash_secret) | random for each process |
/// | [`max_waiters`](Self::max_waiters) | 1,000 |
/// | [`shadow`](Self::shadow) | off |
/// | [`route`](Self::route) | axum's matched path |
/// | [`observer`](Self::observer) | none |
///
/// ```
/// use http::{Method, StatusCode};
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_tower::{DetachedTasks, KeyTemplate, LockLayer};
/// use std::time::Duration;
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let tasks = DetachedTasks::new(); // wait for them when shutting down
/// let layer = LockLayer::new(locks)
///     .key(KeyTemplate::of("account").header("x-account"))
///     .methods([Method::POST, Method::PUT, Method::DELETE])
///     .wait(Duration::from_millis(500))
///     .max_hold(Duration::from_secs(10))
///     .timeout_status(StatusCode::CONFLICT)
///     .detach(&tasks);
/// ```
///
/// The parameters are needed only where a type has to be named, such as in the fields of a struct:
///
/// | `K` | key |
/// | --- | --- |
/// | `()` | none yet |
/// | [`KeyTemplate`], [`BodyKey`] | read from the request |
/// | [`LockSlot`] | from the handler, by [`in_handler`](Self::in_handler) |
///
/// | `D` | a client disconnect |
/// | --- | --- |
/// | `()` | drops the handler |
/// | [`DetachedTasks`] | does not affect the handler, which runs in its own task, by [`detach`](Self::detach) |
///
/// A layer without a key is an error of the compiler, which lists the methods that add one:
///
/// ```compile_fail,E0277
/// use tower_layer::Layer;
/// # use lock_tower::LockLayer;
/// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
/// LockLayer::new(locks).layer(tower::service_fn(async |request: http::Request<()>| Ok::<_, ()>(request)));
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put on a service"]
pub struct LockLayer<K = (), D = ()> {
    config: Arc<Config>,
    key: K,
    disconnect: PhantomData<D>,
}

impl LockLayer {
    /// Creates a layer that acquires locks from this factory. It still needs a [`key`](Self::key).
    ///
    /// ```
    /// use lock_core::{LockFactory, MemoryBackend};
    /// use lock_tower::LockLayer;
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report");
    /// ```
    pub fn new(locks: LockFactory) -> Self {
        Self { config: Arc::new(Config::new(locks)), key: (), disconnect: PhantomData }
    }
}

impl<D> LockLayer<(), D> {
    /// Sets the rule that derives the name of the lock from a request: a template or a [`KeyTemplate`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::KeyTemplate;
    ///
    /// let by_header = LockLayer::new(locks.clone()).key(KeyTemplate::of("account").header("x-account"));
    /// let constant = LockLayer::new(locks).key("report");
    /// ```
    ///
    /// # Panics
    /// Panics if the template is malformed, as axum's routes do; [`try_key`](Self::try_key) returns the error.
    #[track_caller]
    pub fn key<T>(self, key: T) -> LockLayer<KeyTemplate, D>
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
    {
        or_panic(self.try_key(key))
    }

    /// Like [`key`](Self::key), for templates that are only known at run time.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let configured = "account:{"; // read from a file
    /// assert!(LockLayer::new(locks).try_key(configured).is_err());
    /// ```
    ///
    /// # Errors
    /// An [`InvalidKey`] if the template is malformed.
    pub fn try_key<T>(self, key: T) -> Result<LockLayer<KeyTemplate, D>, InvalidKey>
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
    {
        Ok(self.with_key(key.try_into()?))
    }

    /// Sets several keys, at most 64. A request acquires all of their locks, ordered by name, so
    /// requests cannot deadlock regardless of the order of the keys. Equal names share one lock.
    /// The [`wait`](Self::wait) applies to all locks together.
    ///
    /// A handler receives its locks as a [`LockSetHandle`](crate::LockSetHandle), with a fencing
    /// token for each name. Losing any of the locks ends the request, as with a single lock.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use axum::{Router, extract::Path, routing::post};
    /// use lock_tower::{KeyTemplate, LockLayer, LockSetHandle};
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
    ///
    /// async fn transfer(Path((from, to)): Path<(u64, u64)>, locks: LockSetHandle) {}
    ///
    /// let account = |parameter| KeyTemplate::of("account").path_as::<u64>(parameter);
    /// let lock = LockLayer::new(locks).keys([account("from"), account("to")]);
    /// let app: Router = Router::new().route("/transfer/{from}/{to}", post(transfer).route_layer(lock));
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if a template is malformed, or if there are no keys or more than 64; [`try_keys`](Self::try_keys) returns
    /// the error.
    #[track_caller]
    pub fn keys<I>(self, keys: I) -> LockLayer<KeyTemplate, D>
    where
        I: IntoIterator,
        I::Item: TryInto<KeyTemplate>,
        InvalidKey: From<<I::Item as TryInto<KeyTemplate>>::Error>,
    {
        or_panic(self.try_keys(keys))
    }

    /// Like [`keys`](Self::keys), for templates that are only known at run time.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let configured = ["stock", "prices"]; // read from a file
    /// let layer = LockLayer::new(locks).try_keys(configured)?;
    /// # Ok::<(), lock_tower::InvalidKey>(())
    /// ```
    ///
    /// # Errors
    /// An [`InvalidKey`] if a template is malformed, or if there are no keys or more than 64.
    pub fn try_keys<I>(self, keys: I) -> Result<LockLayer<KeyTemplate, D>, InvalidKey>
    where
        I: IntoIterator,
        I::Item: TryInto<KeyTemplate>,
        InvalidKey: From<<I::Item as TryInto<KeyTemplate>>::Error>,
    {
        Ok(self.with_key(KeyTemplate::all(keys)?))
    }

    /// Sets a function that derives the key from the head and the body of a request, for services
    /// without axum; with axum, use [`in_handler`](Self::in_handler). The body is read into memory
    /// first, within the limit, the budget and the timeout of `buffer`, and the service receives
    /// the same bytes. If the upload fails, `buffer` responds and no lock is taken.
    ///
    /// A request with an invalid name is rejected with 400. Bodies are also read for requests that
    /// need no lock.
    ///
    /// ```
    /// use lock_core::{LockFactory, LockName, MemoryBackend};
    /// use lock_tower::{BufferRequestLayer, KeyError, LockLayer};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let buffer = BufferRequestLayer::new().limit(16 * 1024);
    /// let lock = LockLayer::new(locks).body_key(buffer, |_head, body| {
    ///     let sku: u64 = str::from_utf8(body)
    ///         .ok()
    ///         .and_then(|text| text.parse().ok())
    ///         .ok_or(KeyError::bad_request("the body is no SKU"))?;
    ///     Ok(LockName::of(("stock", sku))?)
    /// });
    /// # drop(lock);
    /// ```
    pub fn body_key<F, N>(self, buffer: BufferRequestLayer, read: F) -> LockLayer<BodyKey, D>
    where
        F: Fn(&Parts, &Bytes) -> Result<N, KeyError> + Send + Sync + 'static,
        N: Into<LockNames>,
    {
        self.with_key(BodyKey::new(buffer, read))
    }

    /// Lets the handler choose the key. The handler acquires its lock with
    /// [`Locked`](crate::Locked), whose extractor parses the key, or with a
    /// [`LockSlot`](crate::LockSlot). The layer's settings apply from then on. No lock is held
    /// before that, or if the extractor rejects the request.
    ///
    /// With an extractor that reads the body, a request starts waiting for the lock only after its body has arrived, so
    /// a slow upload does not hold the lock.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use axum::{Router, extract::Path, routing::post};
    /// use lock_core::{LockKey, LockName, NameError, names::LockNames};
    /// use lock_tower::{LockLayer, Locked};
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
    ///
    /// #[derive(Clone, Copy)]
    /// struct Sku(u64);
    ///
    /// impl LockKey for Sku { // or derived: `#[derive(LockKey)] #[lock_key("stock:{0}")]`
    ///     fn lock_names(&self) -> Result<LockNames, NameError> {
    ///         LockName::of(("stock", self.0)).map(LockNames::from)
    ///     }
    /// }
    /// # impl<'de> serde::Deserialize<'de> for Sku {
    /// #     fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
    /// #         u64::deserialize(from).map(Self)
    /// #     }
    /// # }
    ///
    /// async fn order(Locked(Path(sku), lock): Locked<Path<Sku>>) -> String {
    ///     format!("sold one {} under token {}", sku.0, lock.fencing_token())
    /// }
    ///
    /// let lock = LockLayer::new(locks);
    /// let app: Router = Router::new().route("/skus/{sku}/orders", post(order).layer(lock.in_handler()));
    /// # }
    /// ```
    ///
    /// With [`detach`](Self::detach), a handler that has its lock continues after its client
    /// disconnects. Before that, a client disconnect drops it.
    pub fn in_handler(self) -> LockLayer<LockSlot, D> {
        // Each request gets a slot of its own.
        self.with_key(LockSlot::not_needed())
    }

    pub(crate) fn with_key<K>(self, key: K) -> LockLayer<K, D> {
        let this = self.with(|config| config.log = Arc::default());
        LockLayer { config: this.config, key, disconnect: PhantomData }
    }
}

impl<K> LockLayer<K> {
    /// Runs each handler in its own task to the end of its body, even if the client disconnects.
    /// The lock is held until then. Use this for handlers that write.
    ///
    /// A handler that loses its lock is still dropped, including when [`max_hold`](Self::max_hold)
    /// expires (30 s by default). A handler that released its lock early is dropped [15
    /// minutes](DetachedTasks::max_orphan_time) after its client disconnects. If the client
    /// disconnects while the request waits for its lock, the handler is not called.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// use lock_tower::DetachedTasks;
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let tasks = DetachedTasks::new();
    /// let layer = LockLayer::new(locks).key("report").detach(&tasks);
    /// // … serve, and when the server has stopped:
    /// tasks.drain(Duration::from_secs(10)).await.expect("the handlers have ended");
    /// # }
    /// ```
    pub fn detach(self, tasks: &DetachedTasks) -> LockLayer<K, DetachedTasks> {
        let this = self.with(|config| config.tasks = Some(tasks.clone()));
        LockLayer { config: this.config, key: this.key, disconnect: PhantomData }
    }
}

impl<K, D> LockLayer<K, D> {
    /// Sets the maximum time that a request waits for its lock. Zero means a single attempt.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let layer = LockLayer::new(locks).key("report").wait(Duration::from_millis(500));
    /// ```
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
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let configured = Duration::from_millis(500); // read from a file
    /// let layer = LockLayer::new(locks).key("report").try_wait(configured)?;
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](lock_core::LockErrorKind::InvalidOptions) if `wait` exceeds the factory's
    /// [`max_wait`](lock_core::Limits::max_wait).
    pub fn try_wait(self, wait: Duration) -> Result<Self, LockError> {
        self.config.locks.check_wait(wait)?;
        Ok(self.with(|config| config.wait = wait))
    }

    /// Disables waiting: if the lock is held, the request is rejected immediately with 409.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report").fail_fast();
    /// ```
    pub fn fail_fast(self) -> Self {
        self.wait(Duration::ZERO)
    }

    /// Sets the methods that need the lock. Other requests take no lock. GET includes HEAD, which
    /// runs the same handler.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use http::Method;
    ///
    /// let layer = LockLayer::new(locks).key("report").methods([Method::POST, Method::PUT, Method::DELETE]);
    /// ```
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods: Arc<[Method]> = methods.into_iter().collect();
        self.with(|config| config.methods = Some(methods))
    }

    /// Adds a filter that returns `true` for requests that need the lock. A request takes the lock
    /// only if every filter returns `true`.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report").filter(|head| !head.headers.contains_key("x-dry-run"));
    /// ```
    pub fn filter(self, needs_lock: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(|config| config.filters.push(Arc::new(needs_lock)))
    }

    /// Sets the lock options: lease, renewals and timeouts. They replace all of the factory's
    /// options. Their `max_hold` is kept if it is shorter than the layer's default; a longer one
    /// requires [`no_max_hold`](Self::no_max_hold).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::LockOptions;
    /// use std::time::Duration;
    ///
    /// let layer = LockLayer::new(locks).key("report").options(LockOptions::new().lease(Duration::from_secs(10)));
    /// ```
    ///
    /// # Panics
    /// Panics if the options conflict or exceed the factory's limits;
    /// [`try_options`](Self::try_options) returns the error.
    #[track_caller]
    pub fn options(self, options: LockOptions) -> Self {
        or_panic(self.try_options(options))
    }

    /// Like [`options`](Self::options), for options that are only known at run time.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::LockOptions;
    /// use std::time::Duration;
    ///
    /// let configured = Duration::from_secs(10); // read from a file
    /// let layer = LockLayer::new(locks).key("report").try_options(LockOptions::new().lease(configured))?;
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](lock_core::LockErrorKind::InvalidOptions) if the options conflict or exceed
    /// the factory's limits.
    pub fn try_options(self, options: LockOptions) -> Result<Self, LockError> {
        self.with(|config| config.options = Some(options)).checked()
    }

    /// Sets the maximum duration of a hold, so that a handler that hangs, a stalled upload or a slow
    /// reader cannot keep the lock. When it is reached, the handler is dropped or the body is truncated, and the lock
    /// is released. With [`OnLost::Signal`] the handler continues without the lock. All other
    /// options are kept.
    ///
    /// The default is 30 s, or the options' `max_hold` if it is shorter. There is no default if an
    /// operation timeout of 30 s or more was set.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let layer = LockLayer::new(locks).key("report").max_hold(Duration::from_secs(10));
    /// ```
    ///
    /// # Panics
    /// Panics if `limit` is shorter than a millisecond, or conflicts with the other options.
    #[track_caller]
    pub fn max_hold(self, limit: Duration) -> Self {
        or_panic(self.with(|config| config.max_hold = MaxHold::Set(limit)).checked())
    }

    /// Leaves the maximum duration of a hold to the lock options, which have none by default. A
    /// stalled client then keeps its lock until its connection ends. Use this only with a
    /// [`BufferRequestLayer`](crate::BufferRequestLayer) and responses that do not wait for the
    /// client, or for streams that clients can keep open.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report").no_max_hold();
    /// ```
    pub fn no_max_hold(self) -> Self {
        self.with(|config| config.max_hold = MaxHold::FromOptions)
    }

    /// Sets when the lock is released.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::ReleaseOn;
    ///
    /// let layer = LockLayer::new(locks).key("report").release_on(ReleaseOn::Head);
    /// ```
    pub fn release_on(self, when: ReleaseOn) -> Self {
        self.with(|config| config.release_on = when)
    }

    /// Sets the policy for a handler whose lock is lost.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::OnLost;
    ///
    /// let layer = LockLayer::new(locks).key("report").on_lost(OnLost::Signal);
    /// ```
    pub fn on_lost(self, then: OnLost) -> Self {
        self.with(|config| config.on_lost = then)
    }

    /// Sets the policy for requests that arrive while the store is not responding. They are rejected by default.
    ///
    /// It applies only to outages. Error replies from the store, for example because of missing
    /// permissions or a key with the wrong type, never bypass the lock. Such errors persist, and
    /// requests would run without locks indefinitely.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::WithoutLock;
    ///
    /// let layer = LockLayer::new(locks).key("report").on_unavailable(WithoutLock::PassThrough);
    /// ```
    pub fn on_unavailable(self, then: WithoutLock) -> Self {
        self.with(|config| config.on_unavailable = then)
    }

    /// Sets the policy for requests that lack the client's part of the key: the header or the parameter is
    /// missing, or the key function returns [`KeyError::Missing`]. They are rejected by default.
    ///
    /// A part that is empty, repeated or too long is always rejected. Otherwise a handler could still
    /// read a value from it, and clients could choose to run without the lock. A key that is missing because the server
    /// is misconfigured is always rejected too.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::{KeyTemplate, WithoutLock};
    ///
    /// let key = KeyTemplate::of("account").header("x-account");
    /// let layer = LockLayer::new(locks).key(key).on_bad_key(WithoutLock::PassThrough);
    /// ```
    pub fn on_bad_key(self, then: WithoutLock) -> Self {
        self.with(|config| config.on_bad_key = then)
    }

    /// Sets the response status for requests whose [`wait`](Self::wait) expires, for example 409. A
    /// layer that does not wait always responds with 409; use [`on_reject`](Self::on_reject) for
    /// another status.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use http::StatusCode;
    ///
    /// let layer = LockLayer::new(locks).key("report").timeout_status(StatusCode::CONFLICT);
    /// ```
    pub fn timeout_status(self, status: StatusCode) -> Self {
        self.with(|config| config.timeout_status = status)
    }

    /// Sets the response to rejected requests. The default is [`Rejection::into_problem_response`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::{LockLayer, RejectReason};
    ///
    /// let layer = LockLayer::new(locks).key("report").on_reject(|rejection| {
    ///     let rejection = match rejection.reason() {
    ///         RejectReason::Contended | RejectReason::Timeout => rejection.with_status(http::StatusCode::LOCKED),
    ///         _ => rejection,
    ///     };
    ///     rejection.into_problem_response()
    /// });
    /// ```
    pub fn on_reject<F, B>(self, answer: F) -> Self
    where
        F: Fn(Rejection) -> Response<B> + Send + Sync + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.with(|config| config.on_reject = Arc::new(move |rejection| answer(rejection).map(boxed)))
    }

    /// Responds to rejected requests with a gRPC status, for tonic; see
    /// [`Rejection::into_grpc_response`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report").grpc();
    /// ```
    pub fn grpc(self) -> Self {
        self.on_reject(Rejection::into_grpc_response)
    }

    /// Sets the secret for the [key hashes](crate::KeyHash) in rejections and spans. Replicas that
    /// share the secret compute the same hash for a key, even if they run different versions of
    /// this crate. Anyone who has the secret can test names against a hash. By default, each
    /// process has a random secret.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let hex = "7d793037a0760186574b0282f2f435e7"; // `openssl rand -hex 16`, once for all replicas
    /// let secret = u128::from_str_radix(hex, 16)?.to_be_bytes();
    /// let layer = lock_tower::LockLayer::new(locks).key("report").key_hash_secret(secret);
    /// # Ok::<(), std::num::ParseIntError>(())
    /// ```
    pub fn key_hash_secret(self, secret: [u8; 16]) -> Self {
        self.with(|config| config.key_hash_secret = Some(secret))
    }

    /// Sets the maximum number of requests that wait for a key lookup or a lock at the same time,
    /// across all keys and clones of this layer. Further requests are rejected with 503. The
    /// default is 1,000. The factory's [`Limits`](lock_core::Limits) bound the waiters per key and
    /// per process.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report").max_waiters(100);
    /// ```
    pub fn max_waiters(self, limit: usize) -> Self {
        self.with(|config| config.waiters = Waiters::new(limit))
    }

    /// Runs the layer in shadow mode, which measures its effect without enforcing the lock. It
    /// acquires locks, but never rejects a request, and never stops or [detaches](Self::detach) a
    /// handler. A request that does not acquire its lock still waits for it, and is then passed
    /// through, so handlers should take [`LockStatus`](crate::LockStatus) or `Option<LockHandle>`.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report").shadow();
    /// ```
    pub fn shadow(self) -> Self {
        self.with(|config| config.mode = Mode::Shadow)
    }

    /// Sets the route reported in events and spans, for services without axum.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let layer = LockLayer::new(locks).key("report").route("/reports/{day}");
    /// ```
    pub fn route(self, template: impl Into<Arc<str>>) -> Self {
        self.with(|config| config.route = Some(template.into()))
    }

    /// Adds an observer, for example `OtelLayerObserver`.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::observer::{LayerEvent, LayerObserver};
    ///
    /// #[derive(Debug)]
    /// struct Print;
    ///
    /// impl LayerObserver for Print {
    ///     fn on_event(&self, event: &LayerEvent<'_>) {
    ///         println!("{event:?}");
    ///     }
    /// }
    ///
    /// let layer = LockLayer::new(locks).key("report").observer(Print);
    /// ```
    pub fn observer(self, observer: impl LayerObserver) -> Self {
        self.with(|config| {
            let others = config.observers.iter().flat_map(|all| all.iter().cloned());
            config.observers = Some(others.chain([Arc::new(observer) as _]).collect());
        })
    }

    /// Overrides the policies that an idempotency layer relies on: no handler runs without its
    /// lock, a lost lock stops the handler, and the lock is released once the response is stored.
    #[cfg(feature = "idempotency")]
    pub(crate) fn for_idempotency(self) -> Self {
        self.with(|config| {
            config.mode = Mode::Enforce;
            config.calls_handler = CallsHandler::AfterBegin;
            config.on_unavailable = WithoutLock::Reject;
            config.on_bad_key = WithoutLock::Reject;
            config.on_lost = OnLost::Stop;
            config.release_on = ReleaseOn::Head;
            config.timeout_status = StatusCode::CONFLICT;
        })
    }

    fn checked(self) -> Result<Self, LockError> {
        self.config.check()?;
        Ok(self)
    }

    /// Returns the settings.
    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        Arc::make_mut(&mut self.config).change(change);
        self
    }

    fn locked<S>(&self, inner: S) -> LockService<S, K, D>
    where
        K: Clone,
    {
        LockService::new(inner, self.config.clone(), self.key.clone())
    }
}

impl<K: fmt::Debug, D> fmt::Debug for LockLayer<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LockLayer");
        debug.field("key", &self.key).field("wait", &self.config.wait).field("detach", &self.config.tasks);
        debug.finish_non_exhaustive()
    }
}

/// Panics with the error and its cause.
#[track_caller]
pub(crate) fn or_panic<L>(layer: Result<L, impl fmt::Display>) -> L {
    match layer {
        Ok(layer) => layer,
        Err(error) => panic!("{error:#}"),
    }
}

impl<S, K: LayerKey<S, D>, D> Layer<S> for LockLayer<K, D> {
    type Service = K::Service;

    fn layer(&self, inner: S) -> K::Service {
        K::service(self, inner)
    }
}

/// The key of a complete layer.
#[diagnostic::on_unimplemented(
    message = "this layer has no key",
    label = "a layer without a key",
    note = "add one with `.key(…)`, `.keys(…)`, `.body_key(…)` or `.in_handler()`, or use `.locked(&lock, …)` on the route"
)]
pub trait LayerKey<S, D>: Sized {
    /// The service of the layer.
    type Service;

    /// Wraps a service.
    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service;
}

impl<S, D> LayerKey<S, D> for KeyTemplate {
    type Service = LockService<S, Self, D>;

    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service {
        layer.locked(inner)
    }
}

impl<S, D> LayerKey<S, D> for BodyKey {
    type Service = BufferRequest<LockService<S, Self, D>>;

    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service {
        layer.key.buffer().layer(layer.locked(inner))
    }
}

impl<S, D> LayerKey<S, D> for LockSlot {
    type Service = LockService<S, Self, D>;

    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service {
        layer.locked(inner)
    }
}
