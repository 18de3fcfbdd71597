//! The layer: its lock, its store, and the terms of its records.

use super::{
    key, record,
    service::{IdempotencyService, Terms},
    store::IdempotencyStore,
};
use crate::{
    buffer::{BufferRequest, BufferRequestLayer},
    detach::DetachService,
    key::{KeyError, KeyParts, KeyTemplate},
    layer::LockLayer,
    policy::OnBadKey,
    service::LockService,
    typestate::{Detach, NoKey},
};
use http::{HeaderName, request::Parts};
use std::{fmt, sync::Arc, time::Duration};
use tower_layer::Layer;

const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_MAX_ANSWER: usize = 1024 * 1024;

/// A layer that executes a request once per idempotency key, and replays the response to each retry; see the
/// [module](super).
///
/// | option | default |
/// | --- | --- |
/// | [`optional`](Self::optional) | a request without a key is rejected with 400 |
/// | [`retention`](Self::retention) | 24 hours |
/// | [`headers`](Self::headers) | `Content-*`, `Location`, `Link`, `ETag`, `Last-Modified`, `Vary` |
/// | [`max_answer`](Self::max_answer) | 1 MiB |
/// | [`buffer`](Self::buffer) | request bodies of up to 2 MiB, received within 30 s |
/// | [`recorded_by_handler`](Self::recorded_by_handler) | the layer stores the responses |
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put on a service"]
pub struct IdempotencyLayer {
    lock: LockLayer<KeyTemplate, Detach>,
    buffer: BufferRequestLayer,
    terms: Terms,
}

impl IdempotencyLayer {
    /// Creates a layer whose keys belong to the client that `scope` names, such as a user or a tenant. Without that, a
    /// client that guesses a key and a payload could read another client's response.
    ///
    /// `lock` describes the lock that is held while a request is executed: its wait, options, observers and rejections.
    /// Its [`methods`](LockLayer::methods) and [`filter`](LockLayer::filter)s select the requests; the others are
    /// passed through. The layer sets the other policies: a lost lock stops the handler, the lock is released when the
    /// head of the response is returned, and it is never bypassed. It is [detached](LockLayer::detach), so that a
    /// client that leaves does not stop a handler halfway.
    ///
    /// An error from `scope` is rejected with 400, 500 or 503; see [`KeyError`].
    pub fn scoped<F>(lock: LockLayer<NoKey, Detach>, store: impl IdempotencyStore, scope: F) -> Self
    where
        F: Fn(&Parts) -> Result<String, KeyError> + Send + Sync + 'static,
    {
        // After the key: an optional key that is missing needs no scope, but a key without its scope is never passed
        // through.
        Self::new(lock, store, key_parts().part(move |head| scope(head).map_err(key::required)))
    }

    /// Creates a layer whose keys are shared by all clients, for services with a single client.
    pub fn unscoped(lock: LockLayer<NoKey, Detach>, store: impl IdempotencyStore) -> Self {
        Self::new(lock, store, key_parts())
    }

    fn new(lock: LockLayer<NoKey, Detach>, store: impl IdempotencyStore, key: KeyParts) -> Self {
        let terms = Terms {
            store: Arc::new(store),
            retention: DEFAULT_RETENTION,
            max_answer: DEFAULT_MAX_ANSWER,
            headers: record::DEFAULT_HEADERS.into(),
            recorded_by_handler: false,
        };
        let lock = lock.for_idempotency().on_bad_key(OnBadKey::Reject).key(key);
        Self { lock, buffer: BufferRequestLayer::new(), terms }
    }

    /// Passes requests without a key through, without a lock or a record. A malformed key is still rejected with 400.
    pub fn optional(self) -> Self {
        Self { lock: self.lock.on_bad_key(OnBadKey::Allow), ..self }
    }

    /// Sets the time after which a key may be used for another request, at most 100 years, counted from the start of
    /// the last attempt. Choose a time longer than any client keeps retrying.
    pub fn retention(self, retention: Duration) -> Self {
        Self { terms: Terms { retention, ..self.terms }, ..self }
    }

    /// Adds headers that are stored and replayed. Other headers appear only in the first response.
    pub fn headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.terms.headers = self.terms.headers.iter().cloned().chain(names).collect();
        self
    }

    /// Sets the maximum length of a stored body, in bytes. The client receives a longer body unchanged. Retries do not
    /// run the handler again: they are rejected with a 410 that names the status of the first response.
    pub fn max_answer(self, bytes: usize) -> Self {
        Self { terms: Terms { max_answer: bytes, ..self.terms }, ..self }
    }

    /// Sets the limits of request bodies, which are read before the lock is acquired. They also apply to requests that
    /// are passed through.
    pub fn buffer(self, buffer: BufferRequestLayer) -> Self {
        Self { buffer, ..self }
    }

    /// Leaves it to the handler to store its responses, in the transaction of its own work: with `complete_in` of the
    /// store, or [`IdempotencyStore::complete`]. A response that it does not store is not replayed: a retry runs the
    /// handler again.
    pub fn recorded_by_handler(self) -> Self {
        Self { terms: Terms { recorded_by_handler: true, ..self.terms }, ..self }
    }
}

/// The name of a lock and a record: the key of the client, and then its scope.
fn key_parts() -> KeyParts {
    KeyTemplate::of("idempotency").part(key::read)
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = BufferRequest<LockService<DetachService<IdempotencyService<S>>>>;

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
            .finish_non_exhaustive()
    }
}
