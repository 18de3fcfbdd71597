//! A store that does not respond, in virtual time. The test with a real database is in `postgres`.

use super::{Site, answer, pay, respond};
use crate::support::{ask, millis, problem, secs};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Response, StatusCode};
use lock_testkit::ThreadLog;
use lock_tower::idempotency::{
    Attempt, BeginRequest, Begun, IdempotencyLayer, IdempotencyStore, MemoryIdempotencyStore, StoreError,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;

/// Longer than each limit in these tests.
const FOR_EVER: Duration = secs(3600);

/// A store that responds after a delay, and only then does its work.
#[derive(Debug, Clone, Default)]
struct Slow {
    inner: MemoryIdempotencyStore,
    begin: Delay,
    end: Delay,
}

#[derive(Debug, Clone, Default)]
struct Delay(Arc<AtomicU64>);

impl Delay {
    fn set(&self, delay: Duration) {
        self.0.store(delay.as_secs(), Ordering::SeqCst);
    }

    async fn pass(&self) {
        tokio::time::sleep(secs(self.0.load(Ordering::SeqCst))).await;
    }
}

#[async_trait]
impl IdempotencyStore for Slow {
    async fn begin(&self, request: &BeginRequest) -> Result<Begun, StoreError> {
        self.begin.pass().await;
        self.inner.begin(request).await
    }

    async fn complete(&self, attempt: &Attempt, answer: &Response<Bytes>) -> Result<(), StoreError> {
        self.end.pass().await;
        self.inner.complete(attempt, answer).await
    }

    async fn abandon(&self, attempt: &Attempt) -> Result<(), StoreError> {
        self.end.pass().await;
        self.inner.abandon(attempt).await
    }
}

#[tokio::test(start_paused = true)]
async fn silent_store_rejects_before_the_handler() {
    for (limit, expected) in [(None, secs(5)), (Some(millis(200)), millis(200))] {
        let (site, store) = (Site::new(), Slow::default());
        let layer = site.layer_over(store.clone());
        let layer = match limit {
            Some(limit) => layer.store_timeout(limit),
            None => layer,
        };
        let app = site.app(layer, async |_| respond(201, "paid"));
        store.begin.set(FOR_EVER);
        let began = Instant::now();
        let json = problem(ask(&app, pay("k", "")).await, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(began.elapsed(), expected);
        assert_eq!(json["reason"], "records_unavailable");
        assert!(json["retry_after_ms"].is_u64(), "{json}");
        site.world.settle().await;
        assert!(!site.world.is_held());
        assert_eq!((site.runs(), site.tasks.running()), (0, 0));
        store.begin.set(secs(0));
        assert_eq!(answer(&app, pay("k", "")).await, (201, false, "paid".into()));
        assert_eq!(site.outcomes.take(), ["unavailable", "executed"]);
    }
}

/// The store responds at last, but the handler must not run without its lock.
#[tokio::test(start_paused = true)]
async fn loss_before_the_handler_says_that_nothing_was_done() {
    for begin in [secs(3), FOR_EVER] {
        let (site, store) = (Site::new(), Slow::default());
        let lock = site.lock_of(site.world.locks.clone()).max_hold(secs(2));
        let app = site.app(IdempotencyLayer::unscoped(lock, store.clone()), async |_| respond(201, "paid"));
        store.begin.set(begin);
        let began = Instant::now();
        let json = problem(ask(&app, pay("k", "")).await, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(began.elapsed(), secs(2));
        assert_eq!(json["reason"], "lost_before_work");
        assert!(json["detail"].as_str().unwrap().contains("did nothing"), "{json}");
        assert!(json["retry_after_ms"].is_u64(), "{json}");
        tokio::time::sleep(secs(10)).await;
        assert_eq!((site.runs(), site.tasks.running()), (0, 0));
        store.begin.set(secs(0));
        assert_eq!(answer(&app, pay("k", "")).await, (201, false, "paid".into()));
        assert_eq!(site.outcomes.take(), ["unavailable", "executed"]);
    }
}

/// The work is done, so the client receives its response.
#[tokio::test(start_paused = true)]
async fn silent_store_does_not_withhold_the_response() {
    let (site, store) = (Site::new(), Slow::default());
    let app = site.app(site.layer_over(store.clone()), async |attempt| match attempt {
        1 => respond(201, "paid"),
        _ => respond(409, "a payment already exists"),
    });
    store.end.set(FOR_EVER);
    let began = Instant::now();
    assert_eq!(answer(&app, pay("k", "")).await, (201, false, "paid".into()));
    assert_eq!(answer(&app, pay("k", "")).await.0, 409, "the handler runs again");
    assert_eq!(began.elapsed(), secs(5), "attempt 2 frees nothing");
    assert_eq!(answer(&app, pay("other", "")).await, (201, false, "paid".into()));
    assert_eq!(site.outcomes.take(), ["not_stored", "not_started", "not_stored"]);
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_store_are_logged_once_in_ten_seconds() {
    let (site, store) = (Site::new(), Slow::default());
    let app =
        site.app(site.layer_over(store.clone()).store_timeout(millis(1)), async |_| respond(201, "paid"));
    let log = ThreadLog::listen(LevelFilter::WARN);
    for (begin, end, line) in [(FOR_EVER, secs(0), "WARN"), (secs(0), FOR_EVER, "ERROR")] {
        store.begin.set(begin);
        store.end.set(end);
        for request in 0..50 {
            answer(&app, pay(&format!("{line}-{request}"), "")).await;
        }
        let said = log.text();
        log.clear();
        assert_eq!(said.lines().filter(|said| said.contains(line)).count(), 1, "{said}");
    }
}
