//! The idempotency layer, over a memory store in virtual time and over a database.

use crate::support::{World, ask};
use axum::{Router, body::Body, extract::Extension, http::HeaderMap, response::Response, routing::post};
use http::Request;
use lock_core::LockFactory;
use lock_tower::{
    DetachedTasks, LockLayer,
    idempotency::{Attempt, IdempotencyLayer, IdempotencyStore, MemoryIdempotencyStore},
    observer::{IdempotencyOutcome, LayerEvent, LayerObserver},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

#[macro_use]
mod conformance;
mod ends;
mod limits;
mod outages;
#[cfg(all(feature = "postgres", feature = "sqlx-any"))]
mod postgres;
mod requests;
mod safety;
mod stores;
#[cfg(feature = "sqlite")]
mod transaction;

/// A service with one route that counts its handler calls.
struct Site {
    world: World,
    store: MemoryIdempotencyStore,
    runs: Arc<AtomicUsize>,
    outcomes: Outcomes,
    tasks: DetachedTasks,
}

impl Site {
    fn new() -> Self {
        Self {
            world: World::new(),
            store: MemoryIdempotencyStore::new(),
            runs: Arc::default(),
            outcomes: Outcomes::default(),
            tasks: DetachedTasks::new(),
        }
    }

    fn lock_of(&self, locks: LockFactory) -> LockLayer<(), DetachedTasks> {
        LockLayer::new(locks).observer(self.outcomes.clone()).detach(&self.tasks)
    }

    fn layer(&self) -> IdempotencyLayer {
        self.layer_over(self.store.clone())
    }

    fn layer_over(&self, store: impl IdempotencyStore) -> IdempotencyLayer {
        IdempotencyLayer::unscoped(self.lock_of(self.world.locks.clone()), store)
    }

    /// Routes `/pay` to this handler and counts its calls.
    fn app<F, W>(&self, layer: IdempotencyLayer, handler: F) -> Router
    where
        F: Fn(usize) -> W + Clone + Send + Sync + 'static,
        W: Future<Output = Response> + Send + 'static,
    {
        let runs = self.runs.clone();
        let counted = move |attempt: Option<Extension<Attempt>>| {
            runs.fetch_add(1, Ordering::SeqCst);
            handler(attempt.map_or(0, |Extension(attempt)| attempt.number() as usize))
        };
        Router::new().route("/pay", post(counted).route_layer(layer))
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// Returns a request with this key and payload.
fn pay(key: &str, payload: &'static str) -> Request<Body> {
    Request::post("/pay").header("idempotency-key", key).body(Body::from(payload)).unwrap()
}

/// Returns the status, whether it is a replay, and the body.
async fn answer(app: &Router, request: Request<Body>) -> (u16, bool, String) {
    let response = ask(app, request).await;
    let (status, replayed) = (response.status().as_u16(), is_replay(response.headers()));
    (status, replayed, crate::support::text(response).await)
}

fn is_replay(headers: &HeaderMap) -> bool {
    headers.get("idempotent-replayed").is_some_and(|value| value == "true")
}

fn respond(status: u16, body: impl Into<Body>) -> Response {
    Response::builder().status(status).body(body.into()).unwrap()
}

/// The layer's outcomes, in order.
#[derive(Debug, Clone, Default)]
struct Outcomes(Arc<Mutex<Vec<&'static str>>>);

impl Outcomes {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl LayerObserver for Outcomes {
    fn on_event(&self, event: &LayerEvent<'_>) {
        if let LayerEvent::Idempotency { outcome, .. } = event {
            self.0.lock().unwrap().push(IdempotencyOutcome::as_str(*outcome));
        }
    }
}
