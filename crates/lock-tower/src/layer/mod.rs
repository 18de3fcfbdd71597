//! The layer: the options of its locks, and the answers to requests that do not acquire them.

mod build;
mod key;

use crate::{
    config::{Config, MaxHold, Mode, Waiters},
    detach::DetachedTasks,
    error::BoxError,
    observer::LayerObserver,
    policy::{OnBadKey, OnLost, OnUnavailable, ReleaseOn},
    reject::{Rejection, boxed},
    typestate::{Cancel, Detach, NoKey},
};
use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use lock_core::{LockError, LockFactory, LockOptions};
use std::{error::Error, fmt, sync::Arc, time::Duration};

/// A layer that serves one request per key at a time, across all processes that share the store.
///
/// | option | default |
/// | --- | --- |
/// | [`key`](Self::key), [`keys`](Self::keys), [`try_key`](Self::try_key), [`try_keys`](Self::try_keys) | none: a `LockLayer` without a key does not implement `Layer` |
/// | [`body_key`](Self::body_key), [`in_handler`](Self::in_handler) | instead of a key from the head of the request |
/// | [`wait`](Self::wait), [`fail_fast`](Self::fail_fast) | waits 1 s |
/// | [`methods`](Self::methods), [`filter`](Self::filter) | every request needs the lock |
/// | [`options`](Self::options) | those of the factory |
/// | [`max_hold`](Self::max_hold), [`no_max_hold`](Self::no_max_hold) | 30 s |
/// | [`release_on`](Self::release_on) | the end of the body |
/// | [`detach`](Self::detach) | a client that leaves cancels the handler |
/// | [`on_lost`](Self::on_lost) | stop the handler, cut the body |
/// | [`on_unavailable`](Self::on_unavailable) | reject (fail closed) |
/// | [`on_bad_key`](Self::on_bad_key) | reject |
/// | [`timeout_status`](Self::timeout_status) | 503 |
/// | [`on_reject`](Self::on_reject), [`grpc`](Self::grpc) | problem+json |
/// | [`key_hash_secret`](Self::key_hash_secret) | random, of this process |
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
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put on a service"]
pub struct LockLayer<K = NoKey, D = Cancel> {
    config: Arc<Config>,
    key: K,
    disconnect: D,
}

impl LockLayer {
    /// Creates a layer over these locks. It still needs a [`key`](Self::key).
    pub fn new(locks: LockFactory) -> Self {
        Self { config: Arc::new(Config::new(locks)), key: NoKey(()), disconnect: Cancel(()) }
    }
}

impl<K> LockLayer<K, Cancel> {
    /// Runs each handler in a task, to the end of its body, even if its client leaves. The handler keeps the
    /// lock until then. Use it for handlers that write.
    ///
    /// A handler that loses its lock is still dropped, also at [`max_hold`](Self::max_hold), 30 s by default. A
    /// handler that released its lock early is dropped [15 minutes](DetachedTasks::max_orphan_time) after its client
    /// has left. A request that waits for its lock ends with its client, since its handler was not called
    /// yet.
    pub fn detach(self, tasks: &DetachedTasks) -> LockLayer<K, Detach> {
        let this = self.with(|config| config.tasks = Some(tasks.clone()));
        LockLayer { config: this.config, key: this.key, disconnect: Detach(()) }
    }
}

impl<K, D> LockLayer<K, D> {
    /// Sets the maximum time a request waits for its lock. With zero it tries once.
    ///
    /// # Panics
    /// Above the factory's [`max_wait`](lock_core::Limits::max_wait); [`try_wait`](Self::try_wait)
    /// returns the error.
    #[track_caller]
    pub fn wait(self, wait: Duration) -> Self {
        match self.try_wait(wait) {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
    }

    /// Like [`wait`](Self::wait), for a time that is not known before run time.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](lock_core::LockErrorKind::InvalidOptions).
    pub fn try_wait(self, wait: Duration) -> Result<Self, LockError> {
        self.config.locks.check_wait(wait)?;
        Ok(self.with(|config| config.wait = wait))
    }

    /// Does not wait: a request whose lock is held is rejected at once with 409.
    pub fn fail_fast(self) -> Self {
        self.wait(Duration::ZERO)
    }

    /// Sets the methods that need the lock. Requests of other methods need none. GET includes HEAD, which
    /// runs the same handler.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods: Arc<[Method]> = methods.into_iter().collect();
        self.with(|config| config.methods = Some(methods))
    }

    /// Adds a filter: requests for which it returns `false` need no lock. A request needs the lock if all
    /// filters agree.
    pub fn filter(self, needs_lock: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(|config| config.filters.push(Arc::new(needs_lock)))
    }

    /// Sets the options of the locks: lease, renewals, timeouts. They replace all options of the factory. A
    /// `max_hold` in them that is shorter than the layer's default is kept; a longer one needs
    /// [`no_max_hold`](Self::no_max_hold).
    ///
    /// # Panics
    /// If they contradict each other, or exceed the limits of the factory; [`try_options`](Self::try_options) returns
    /// the error.
    #[track_caller]
    pub fn options(self, options: LockOptions) -> Self {
        match self.try_options(options) {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
    }

    /// Like [`options`](Self::options), for options that are not known before run time.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](lock_core::LockErrorKind::InvalidOptions).
    pub fn try_options(self, options: LockOptions) -> Result<Self, LockError> {
        self.with(|config| config.options = Some(options)).checked()
    }

    /// Sets the maximum duration of a hold, for handlers that hang, uploads that stall and clients that read slowly.
    /// After it the handler is dropped or the body cut, and the lock is released. With [`OnLost::Signal`] the handler
    /// continues without the lock. All other options are kept.
    ///
    /// The default is 30 s, or the shorter `max_hold` of the options, or none if an operation timeout of 30 s or more
    /// was set.
    ///
    /// # Panics
    /// If it is below a millisecond, or contradicts the other options.
    #[track_caller]
    pub fn max_hold(self, limit: Duration) -> Self {
        match self.with(|config| config.max_hold = MaxHold::Set(limit)).checked() {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
    }

    /// Leaves the maximum duration of a hold to the lock options, which have none by default. A stalled client then
    /// keeps its lock until its connection ends. Use it only with a [`BufferRequestLayer`](crate::BufferRequestLayer)
    /// and responses that do not wait for the client, or for streams that clients may keep open.
    pub fn no_max_hold(self) -> Self {
        self.with(|config| config.max_hold = MaxHold::FromOptions)
    }

    fn checked(self) -> Result<Self, LockError> {
        self.config.check()?;
        Ok(self)
    }

    /// Sets the time at which the lock is released.
    pub fn release_on(self, when: ReleaseOn) -> Self {
        self.with(|config| config.release_on = when)
    }

    /// Sets the treatment of a handler whose lock is lost.
    pub fn on_lost(self, then: OnLost) -> Self {
        self.with(|config| config.on_lost = then)
    }

    /// Sets the treatment of requests while the store does not answer.
    pub fn on_unavailable(self, then: OnUnavailable) -> Self {
        self.with(|config| config.on_unavailable = then)
    }

    /// Sets the treatment of requests that lack the client's part of the key. A key that is malformed, or missing
    /// because the server is misconfigured, is always rejected.
    pub fn on_bad_key(self, then: OnBadKey) -> Self {
        self.with(|config| config.on_bad_key = then)
    }

    /// Sets the status of a request whose [`wait`](Self::wait) ended without the lock, for example 409. A
    /// layer that does not wait answers with 409 in any case; use [`on_reject`](Self::on_reject) for another
    /// status.
    pub fn timeout_status(self, status: StatusCode) -> Self {
        self.with(|config| config.timeout_status = status)
    }

    /// Sets the answer to rejected requests. The default is [`Rejection::into_response`], which can be a starting
    /// point.
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
    ///     rejection.into_response()
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

    /// Answers rejected requests with a gRPC status, for tonic; see [`Rejection::into_grpc_response`].
    pub fn grpc(self) -> Self {
        self.on_reject(Rejection::into_grpc_response)
    }

    /// Sets the secret under which keys are [hashed](crate::KeyHash) in rejections and spans. Replicas that share it
    /// compute the same hash for a key, in every version. The secret allows testing names against a hash. The default
    /// is a random secret of the process.
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

    /// Sets the maximum number of requests of this layer that wait at once, for a look-up of their key or for their
    /// lock, over all its keys and clones; the next is rejected with 503. The default is 1,000. The factory's
    /// [`Limits`](lock_core::Limits) bound the waiters of a key and of the process.
    pub fn max_waiters(self, limit: usize) -> Self {
        self.with(|config| config.waiters = Waiters::new(limit))
    }

    /// Runs the layer in shadow mode, to see its effect in advance. It acquires and measures, but never rejects,
    /// stops or [detaches](Self::detach) a handler. A request that does not acquire its lock waits for the same time
    /// and is then passed through; handlers should take [`LockStatus`](crate::LockStatus) or `Option<LockHandle>`.
    pub fn shadow(self) -> Self {
        self.with(|config| config.mode = Mode::Shadow)
    }

    /// Sets the route in events and the span, where axum does not provide it.
    pub fn route(self, template: impl Into<Arc<str>>) -> Self {
        self.with(|config| config.route = Some(template.into()))
    }

    /// Adds an observer, for example `OtelLayerObserver`.
    pub fn observer(self, observer: impl LayerObserver) -> Self {
        self.with(|config| {
            let all = config.observers.iter().cloned().chain([Arc::new(observer) as _]);
            config.observers = all.collect();
        })
    }

    /// Sets what an idempotency layer relies on, whatever was chosen: without its lock no handler runs, a lost lock stops
    /// it, and the lock is released once the answer is stored.
    #[cfg(feature = "idempotency")]
    pub(crate) fn for_idempotency(self) -> Self {
        self.with(|config| {
            config.mode = Mode::Enforce;
            config.on_unavailable = OnUnavailable::Reject;
            config.on_lost = OnLost::Stop;
            config.release_on = ReleaseOn::Head;
            config.timeout_status = StatusCode::CONFLICT;
        })
    }

    /// Returns the settings.
    #[cfg(feature = "idempotency")]
    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        Arc::make_mut(&mut self.config).change(change);
        self
    }
}

fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl<K: fmt::Debug, D: fmt::Debug> fmt::Debug for LockLayer<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LockLayer");
        debug.field("key", &self.key).field("wait", &self.config.wait).field("disconnect", &self.disconnect);
        debug.finish_non_exhaustive()
    }
}
