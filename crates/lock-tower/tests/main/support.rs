//! Test helpers: a store on tokio's clock, layers over it, and a client.

use axum::{Router, body::Body, response::Response};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use lock_core::{LockFactory, LockName, LockOptions, MemoryBackend, clock::TestClock};
use lock_testkit::{FaultyBackend, Op};
use lock_tower::{
    LockLayer,
    observer::{LayerEvent, LayerObserver},
};
use serde_json::Value;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tower::ServiceExt;

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A store and factories on tokio's paused clock. The lease is 3 s.
pub(crate) struct World {
    pub(crate) store: MemoryBackend,
    pub(crate) faulty: FaultyBackend,
    pub(crate) locks: LockFactory,
    clock: Arc<TestClock>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let store = MemoryBackend::with_clock(clock.clone());
        let faulty = FaultyBackend::new(store.clone());
        let builder = LockFactory::builder(faulty.clone()).clock(clock.clone());
        let locks = builder.options(LockOptions::new().lease(secs(3))).build().unwrap();
        Self { store, faulty, locks, clock }
    }

    pub(crate) fn layer(&self) -> LockLayer {
        LockLayer::new(self.locks.clone())
    }

    /// Creates a factory for another process on the same store, whose connection does not fail.
    pub(crate) fn another_process(&self) -> LockFactory {
        LockFactory::builder(self.store.clone()).clock(self.clock.clone()).build().unwrap()
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.store.held().is_empty()
    }

    /// Runs everything that can run now, without advancing time.
    pub(crate) async fn settle(&self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Asserts that everything was released immediately, by exactly this many releases.
    #[track_caller]
    pub(crate) fn assert_released(&self, times: usize) {
        assert_eq!(self.faulty.calls(Op::Release), times, "releases");
        assert!(!self.is_held(), "a lease remains");
    }

    /// Asserts that no leases, subscriptions or active names remain.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.store.held(), Vec::<LockName>::new(), "leases remain");
        assert_eq!(self.store.watched(), 0, "subscriptions remain");
        assert_eq!(self.locks.active_locks(), 0, "active names remain");
    }
}

pub(crate) fn post(path: &str) -> Request<Body> {
    Request::post(path).body(Body::empty()).unwrap()
}

pub(crate) fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

pub(crate) async fn ask(app: &Router, request: Request<Body>) -> Response {
    app.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn text(response: Response) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Checks the properties that all rejections share.
pub(crate) async fn problem(response: Response, status: StatusCode) -> Value {
    let (parts, body) = response.into_parts();
    let size = http_body::Body::size_hint(&body).exact();
    let body = body.collect().await.unwrap().to_bytes();
    let json: Value = serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}"));
    assert_eq!(parts.status, status, "{json}");
    assert_eq!(parts.headers["content-type"], "application/problem+json");
    assert_eq!(parts.headers["cache-control"], "no-store");
    assert_eq!(size, Some(body.len() as u64), "the length is known");
    assert_eq!(json["status"], status.as_u16());
    let reason = json["reason"].as_str().unwrap();
    assert_eq!(json["type"], format!("urn:problem-type:distlock:{reason}"));
    assert!(json["title"].is_string(), "{json}");
    assert!(json["detail"].is_string(), "{json}");
    let after = parts.headers.get("retry-after").map(|after| after.to_str().unwrap().parse::<u64>().unwrap());
    let after_ms = json.get("retry_after_ms").map(|after| after.as_u64().unwrap());
    assert_eq!(after.is_some(), after_ms.is_some(), "{json}");
    if let (Some(after), Some(ms)) = (after, after_ms) {
        assert!(after >= 1 && after == ms.div_ceil(1000), "{after} s, {ms} ms");
    }
    json
}

/// The current and the maximum number of concurrent handlers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

impl Gauge {
    pub(crate) fn enter(&self) -> Inside {
        let inside = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(inside, Ordering::SeqCst);
        Inside(self.clone())
    }

    pub(crate) fn inside(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

pub(crate) struct Inside(Gauge);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An observer that records each event as a line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl LayerObserver for Recorder {
    fn on_event(&self, event: &LayerEvent<'_>) {
        let said = match event {
            LayerEvent::Acquired { .. } => "acquired".to_owned(),
            LayerEvent::NotAcquired { reason, waited, disposition, .. } => {
                format!("{} after {} ms, {disposition:?}", reason.as_str(), waited.as_millis())
            }
            LayerEvent::Cancelled { waited, .. } => format!("cancelled after {} ms", waited.as_millis()),
            LayerEvent::Lost { reason, .. } => format!("lost: {reason:?}"),
            LayerEvent::Ended { held, .. } => format!("ended after {} ms", held.as_millis()),
            other => panic!("{other:?}"),
        };
        let route = event.route().map_or("no route", |route| route);
        self.0.lock().unwrap().push(format!("{route}: {said}"));
    }
}
