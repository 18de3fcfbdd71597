//! The layer, with its lock, its store and its settings.

use super::{
    request::{read_key, required},
    response,
    service::{IdempotencyService, Terms},
    store::IdempotencyStore,
};
use crate::{
    buffer::{BufferRequest, BufferRequestLayer},
    detach::DetachedTasks,
    key::{KeyError, KeyParts, KeyTemplate},
    layer::LockLayer,
    policy::WithoutLock,
    service::LockService,
};
use http::{HeaderName, request::Parts};
use std::{fmt, sync::Arc, time::Duration};
use tower_layer::Layer;

const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_MAX_ANSWER: usize = 1024 * 1024;
/// Much shorter than the `max_hold` of a layer, so that an outage of the store is reported as one.
const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// A layer that executes a request once per idempotency key, and replays the response for each
/// retry; see the [module](super).
///
/// | option | default |
/// | --- | --- |
/// | [`optional`](Self::optional) | a request without a key is rejected with 400 |
/// | [`retention`](Self::retention) | 24 hours |
/// | [`headers`](Self::headers) | `Content-*`, `Location`, `Link`, `ETag`, `Last-Modified`, `Vary` |
/// | [`max_answer`](Self::max_answer) | 1 MiB |
/// | [`buffer`](Self::buffer) | request bodies of up to 2 MiB, received within 30 s |
/// | [`store_timeout`](Self::store_timeout) | 5 s |
/// | [`recorded_by_handler`](Self::recorded_by_handler) | the layer stores the responses |
///
/// The inner service takes a `Request` with a [`BufferedBody`](crate::service::BufferedBody) and is `Clone`. It, its
/// futures, errors and bodies are `Send`, since its handlers are detached.
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put on a service"]
pub struct IdempotencyLayer {
    lock: LockLayer<KeyTemplate, DetachedTasks>,
    buffer: BufferRequestLayer,
    terms: Terms,
}

impl IdempotencyLayer {
    /// Creates a layer that scopes keys to the client returned by `scope`, such as a user or a
    /// tenant. Without a scope, a client that guesses a key and a payload could read another
    /// client's response.
    ///
    /// `lock` configures the lock that is held while a request is executed: its wait, options,
    /// observers and rejections. Its [`methods`](LockLayer::methods) and
    /// [`filter`](LockLayer::filter)s select the requests; the others are passed through. The other
    /// policies are fixed: a lost lock stops the handler, unless a layer inside of this one has
    /// detached it, the lock is released when the head of the response is returned, and it is never
    /// bypassed. Handlers are [detached](LockLayer::detach), so a client disconnect does not stop them
    /// halfway.
    ///
    /// If `scope` returns an error, the request is rejected with 400, 500 or 503; see [`KeyError`].
    pub fn scoped<F>(lock: LockLayer<(), DetachedTasks>, store: impl IdempotencyStore, scope: F) -> Self
    where
        F: Fn(&Parts) -> Result<String, KeyError> + Send + Sync + 'static,
    {
        // The scope follows the key, since a missing optional key needs no scope. A key without a
        // scope is never passed through.
        Self::new(lock, store, key_parts().part(move |head| scope(head).map_err(required)))
    }

    /// Creates a layer whose keys are shared by all clients, for services with a single client.
    pub fn unscoped(lock: LockLayer<(), DetachedTasks>, store: impl IdempotencyStore) -> Self {
        Self::new(lock, store, key_parts())
    }

    fn new(lock: LockLayer<(), DetachedTasks>, store: impl IdempotencyStore, key: KeyParts) -> Self {
        let terms = Terms {
            store: Arc::new(store),
            retention: DEFAULT_RETENTION,
            max_answer: DEFAULT_MAX_ANSWER,
            headers: response::DEFAULT_HEADERS.into(),
            recorded_by_handler: false,
            store_timeout: DEFAULT_STORE_TIMEOUT,
            log: Arc::default(),
        };
        let lock = lock.for_idempotency().key(key);
        Self { lock, buffer: BufferRequestLayer::new(), terms }
    }

    /// Passes requests without a key through, without a lock or a record. A malformed key is still rejected with 400.
    pub fn optional(self) -> Self {
        Self { lock: self.lock.on_bad_key(WithoutLock::PassThrough), ..self }
    }

    /// Sets the time after which a key can be used for another request, counted from the start of
    /// its latest attempt. The retention should exceed the time for which clients retry. The
    /// maximum is 100 years.
    pub fn retention(self, retention: Duration) -> Self {
        Self { terms: Terms { retention, ..self.terms }, ..self }
    }

    /// Adds headers that are stored and replayed. Other headers appear only in the first response.
    pub fn headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.terms.headers = self.terms.headers.iter().cloned().chain(names).collect();
        self
    }

    /// Sets the maximum length of a stored body, in bytes. The client receives a longer body
    /// unchanged. Retries do not run the handler again; they are rejected with a 410 that contains
    /// the status of the first response.
    pub fn max_answer(self, bytes: usize) -> Self {
        Self { terms: Terms { max_answer: bytes, ..self.terms }, ..self }
    }

    /// Sets the limits of request bodies, which are read before the lock is acquired. They also apply to requests that
    /// are passed through.
    pub fn buffer(self, buffer: BufferRequestLayer) -> Self {
        Self { buffer, ..self }
    }

    /// Sets the time limit for each request to the store. If the store does not reply in time, a request whose handler
    /// was not called is rejected with 503 and `Retry-After`, and a response that cannot be stored is sent anyway.
    ///
    /// The limit should be shorter than the [`max_hold`](LockLayer::max_hold) of the lock. A pool of connections needs
    /// a limit of its own, such as sqlx's `acquire_timeout`: its default of 30 s also applies to your handlers.
    pub fn store_timeout(self, limit: Duration) -> Self {
        Self { terms: Terms { store_timeout: limit, ..self.terms }, ..self }
    }

    /// Makes the handler responsible for storing its response, in the same transaction as its other
    /// writes, with the store's `complete_in` or [`IdempotencyStore::complete`]. If the handler
    /// does not store a response, a retry runs it again.
    pub fn recorded_by_handler(self) -> Self {
        Self { terms: Terms { recorded_by_handler: true, ..self.terms }, ..self }
    }
}

/// Returns the name of the lock and its record: the client's key, followed by its scope.
fn key_parts() -> KeyParts {
    KeyTemplate::of("idempotency").part(read_key)
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = BufferRequest<LockService<IdempotencyService<S>, KeyTemplate, DetachedTasks>>;

    fn layer(&self, inner: S) -> Self::Service {
        let service = IdempotencyService::new(inner, self.terms.clone(), self.lock.config().clone());
        self.buffer.layer(self.lock.layer(service))
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("lock", &self.lock)
            .field("store", &self.terms.store)
            .field("retention", &self.terms.retention)
            .field("max_answer", &self.terms.max_answer)
            .field("store_timeout", &self.terms.store_timeout)
            .finish_non_exhaustive()
    }
}
