//! Settings for a layer's releases, rejections and limits.

use super::LockLayer;
use crate::{
    config::{Mode, Waiters},
    error::BoxError,
    observer::LayerObserver,
    policy::{OnBadKey, OnLost, OnUnavailable, ReleaseOn},
    reject::{Rejection, boxed},
};
use bytes::Bytes;
use http::{Response, StatusCode};
use std::sync::Arc;

impl<K, D> LockLayer<K, D> {
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

    /// Sets the policy for requests that arrive while the store is not responding.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::OnUnavailable;
    ///
    /// let layer = LockLayer::new(locks).key("report").on_unavailable(OnUnavailable::Allow);
    /// ```
    pub fn on_unavailable(self, then: OnUnavailable) -> Self {
        self.with(|config| config.on_unavailable = then)
    }

    /// Sets the policy for requests that lack the client's part of the key. A key that is malformed, or missing
    /// because the server is misconfigured, is always rejected.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::{KeyTemplate, OnBadKey};
    ///
    /// let key = KeyTemplate::of("account").header("x-account");
    /// let layer = LockLayer::new(locks).key(key).on_bad_key(OnBadKey::Allow);
    /// ```
    pub fn on_bad_key(self, then: OnBadKey) -> Self {
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
            config.calls_handler = crate::config::CallsHandler::AfterBegin;
            config.on_unavailable = OnUnavailable::Reject;
            config.on_lost = OnLost::Stop;
            config.release_on = ReleaseOn::Head;
            config.timeout_status = StatusCode::CONFLICT;
        })
    }
}
