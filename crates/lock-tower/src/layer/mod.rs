//! The layer, and the options of its locks.

mod build;
mod key;
mod terms;

#[cfg(doc)]
use crate::policy::OnLost;
use crate::{
    config::{Config, MaxHold},
    detach::DetachedTasks,
    typestate::{Cancel, Detach, NoKey},
};
use http::{Method, request::Parts};
use lock_core::{LockError, LockFactory, LockOptions};
use std::{error::Error, fmt, sync::Arc, time::Duration};

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
pub struct LockLayer<K = NoKey, D = Cancel> {
    config: Arc<Config>,
    key: K,
    disconnect: D,
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
        Self { config: Arc::new(Config::new(locks)), key: NoKey(()), disconnect: Cancel(()) }
    }
}

impl<K> LockLayer<K, Cancel> {
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
    pub fn detach(self, tasks: &DetachedTasks) -> LockLayer<K, Detach> {
        let this = self.with(|config| config.tasks = Some(tasks.clone()));
        LockLayer { config: this.config, key: this.key, disconnect: Detach(()) }
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
        match self.try_wait(wait) {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
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
        match self.try_options(options) {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
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
        match self.with(|config| config.max_hold = MaxHold::Set(limit)).checked() {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
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

    fn checked(self) -> Result<Self, LockError> {
        self.config.check()?;
        Ok(self)
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
