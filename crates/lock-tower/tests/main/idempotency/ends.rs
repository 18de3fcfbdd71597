//! The end of an attempt: stored and discarded responses, panics, disconnects, lost locks and store
//! failures.

use super::{Site, answer, pay, respond};
use crate::support::{ask, millis, problem, secs, text};
use async_trait::async_trait;
use axum::{
    body::{Body, Bytes},
    extract::Extension,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::StatusCode;
use lock_core::FencingToken;
use lock_tower::{
    RejectReason, Rejection,
    idempotency::{
        Attempt, BeginRequest, Begun, Execution, IdempotencyLayer, IdempotencyStore, MemoryIdempotencyStore,
        StoreError,
    },
};
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// Every final response is replayed. This includes failures, since the work may have been done
/// before.
#[tokio::test(start_paused = true)]
async fn only_responses_of_executed_requests_are_stored() {
    for (status, stored) in [
        (200, true),
        (204, true),
        (303, true),
        (402, true),
        (408, true),
        (500, true),
        (503, true),
        (400, false),
        (401, false),
        (404, false),
        (409, false),
        (422, false),
        (429, false),
    ] {
        let site = Site::new();
        let app = site.app(site.layer(), move |_| async move { respond(status, "") });
        assert_eq!(answer(&app, pay("k", "")).await.0, status);
        let other_payload = answer(&app, pay("k", "corrected")).await.0;
        assert_eq!(other_payload, if stored { 422 } else { status }, "the key is free again: {}", !stored);
        assert_eq!(site.runs(), if stored { 1 } else { 2 }, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn handler_can_declare_its_execution() {
    let site = Site::new();
    let refused = site
        .app(site.layer(), async |_| (Extension(Execution::NotStarted), respond(503, "")).into_response());
    let gone =
        site.app(site.layer(), async |_| (Extension(Execution::Done), respond(404, "gone")).into_response());
    // An inner layer rejected the request before any work was done.
    let busy = site.app(site.layer(), async |_| {
        IntoResponse::into_response(Rejection::from(RejectReason::TooManyWaiters))
    });
    for _ in 0..2 {
        assert_eq!(answer(&refused, pay("refused", "")).await, (503, false, String::new()));
        problem(ask(&busy, pay("busy", "")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    }
    assert_eq!(site.runs(), 4);
    answer(&gone, pay("gone", "")).await;
    assert_eq!(answer(&gone, pay("gone", "")).await, (404, true, "gone".into()));
    assert_eq!(
        site.outcomes.take(),
        ["not_started", "not_started", "not_started", "not_started", "executed", "replayed"]
    );
}

#[tokio::test(start_paused = true)]
async fn panic_leaves_the_key_for_a_second_attempt() {
    let site = Site::new();
    let app = site.app(site.layer(), async |attempt| {
        assert!(attempt > 1, "the first attempt panics");
        respond(201, attempt.to_string())
    });
    assert!(AssertUnwindSafe(ask(&app, pay("k", ""))).catch_unwind().await.is_err());
    site.world.settle().await;
    assert!(!site.world.is_held());
    assert_eq!(answer(&app, pay("k", "")).await, (201, false, "2".into()));
    assert_eq!(answer(&app, pay("k", "")).await, (201, true, "2".into()));
    assert_eq!(site.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_does_not_stop_the_handler() {
    let site = Site::new();
    let app = site.app(site.layer(), async |attempt| {
        tokio::time::sleep(secs(1)).await;
        respond(201, attempt.to_string())
    });
    assert!(tokio::time::timeout(millis(100), ask(&app, pay("k", ""))).await.is_err());
    assert_eq!(site.tasks.running(), 1);
    site.tasks.drain(secs(5)).await.unwrap();
    assert_eq!(answer(&app, pay("k", "")).await, (201, true, "1".into()));
    assert_eq!(site.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_lock_stops_the_attempt_and_stores_nothing() {
    let site = Site::new();
    let lock = site.lock_of(site.world.locks.clone()).max_hold(secs(2));
    let app = site.app(IdempotencyLayer::unscoped(lock, site.store.clone()), async |attempt| {
        if attempt == 1 {
            std::future::pending::<()>().await;
        }
        respond(201, attempt.to_string())
    });
    let json = problem(ask(&app, pay("k", "")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "lost");
    assert!(json.get("retry_after_ms").is_none(), "work may be partially done: {json}");
    site.world.settle().await;
    assert_eq!(answer(&app, pay("k", "")).await, (201, false, "2".into()));
    assert_eq!(site.outcomes.take(), ["executed"]);
}

/// A server that was paused past its lease responds after another server's attempt has begun.
#[tokio::test(start_paused = true)]
async fn stale_response_is_neither_stored_nor_sent() {
    let site = Site::new();
    let taken_over = TakenOver { inner: site.store.clone(), newer: Arc::default() };
    let app = site
        .app(site.layer_over(taken_over.clone()), async |attempt| respond(201, format!("stale {attempt}")));
    let json = problem(ask(&app, pay("k", "")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "lost");
    let newer = taken_over.newer.lock().unwrap().clone().unwrap();
    site.store.complete(&newer, &http::Response::new(Bytes::from("fresh"))).await.unwrap();
    assert_eq!(answer(&app, pay("k", "")).await, (200, true, "fresh".into()));
    assert_eq!(site.outcomes.take(), ["superseded", "replayed"]);
}

/// A store in which a newer attempt begins just before the response of an older one.
#[derive(Debug, Clone)]
struct TakenOver {
    inner: MemoryIdempotencyStore,
    newer: Arc<Mutex<Option<Attempt>>>,
}

#[async_trait]
impl IdempotencyStore for TakenOver {
    async fn begin(&self, request: &BeginRequest) -> Result<Begun, StoreError> {
        let begun = self.inner.begin(request).await?;
        if let Begun::Started { .. } = begun {
            let token = FencingToken::new(request.token.get() + 1);
            *self.newer.lock().unwrap() = Some(Attempt::new(request.name.clone(), token, 2));
            self.inner.begin(&BeginRequest { token, ..request.clone() }).await?;
        }
        Ok(begun)
    }

    async fn complete(&self, attempt: &Attempt, answer: &http::Response<Bytes>) -> Result<(), StoreError> {
        self.inner.complete(attempt, answer).await
    }

    async fn abandon(&self, attempt: &Attempt) -> Result<(), StoreError> {
        self.inner.abandon(attempt).await
    }
}

/// A store that fails on demand.
#[derive(Debug, Clone, Default)]
struct Failing {
    inner: MemoryIdempotencyStore,
    begin: Arc<AtomicBool>,
    complete: Arc<AtomicBool>,
}

impl Failing {
    fn check(fails: &AtomicBool) -> Result<(), StoreError> {
        match fails.load(Ordering::SeqCst) {
            true => Err(StoreError::failed("connection refused")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl IdempotencyStore for Failing {
    async fn begin(&self, request: &BeginRequest) -> Result<Begun, StoreError> {
        Self::check(&self.begin)?;
        self.inner.begin(request).await
    }

    async fn complete(&self, attempt: &Attempt, answer: &http::Response<Bytes>) -> Result<(), StoreError> {
        Self::check(&self.complete)?;
        self.inner.complete(attempt, answer).await
    }

    async fn abandon(&self, attempt: &Attempt) -> Result<(), StoreError> {
        Self::check(&self.complete)?;
        self.inner.abandon(attempt).await
    }
}

#[tokio::test(start_paused = true)]
async fn failing_store_rejects_before_the_handler() {
    let (site, store) = (Site::new(), Failing::default());
    let app = site.app(site.layer_over(store.clone()), async |_| respond(201, "paid"));
    store.begin.store(true, Ordering::SeqCst);
    let json = problem(ask(&app, pay("k", "")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "records_unavailable");
    assert!(json["retry_after_ms"].is_u64() && !json.to_string().contains("connection refused"), "{json}");
    assert_eq!(site.runs(), 0);
    store.begin.store(false, Ordering::SeqCst);
    assert_eq!(answer(&app, pay("k", "")).await, (201, false, "paid".into()));
    assert_eq!(site.outcomes.take(), ["unavailable", "executed"]);
}

#[tokio::test(start_paused = true)]
async fn unstored_response_is_still_sent() {
    let (site, store) = (Site::new(), Failing::default());
    let app = site.app(site.layer_over(store.clone()), async |attempt| match attempt {
        1 => respond(201, "paid"),
        _ => respond(409, "a payment already exists"),
    });
    store.complete.store(true, Ordering::SeqCst);
    assert_eq!(answer(&app, pay("k", "")).await, (201, false, "paid".into()));
    assert_eq!(answer(&app, pay("k", "")).await.0, 409, "the handler runs again");
    assert_eq!(site.outcomes.take(), ["not_stored", "not_started"]);
}

#[tokio::test(start_paused = true)]
async fn responses_stored_by_the_handler_are_replayed() {
    let site = Site::new();
    let store = site.store.clone();
    let handler = async move |Extension(attempt): Extension<Attempt>| {
        let receipt = http::Response::builder().status(201).body(Bytes::from("paid")).unwrap();
        if attempt.number() == 2 {
            store.complete(&attempt, &receipt).await.unwrap();
        }
        receipt.map(Body::from)
    };
    let layer = site.layer().recorded_by_handler();
    let app = axum::Router::new().route("/pay", axum::routing::post(handler).route_layer(layer));
    for replayed in [false, false, true] {
        assert_eq!(answer(&app, pay("k", "")).await, (201, replayed, "paid".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn failed_body_is_not_stored() {
    let site = Site::new();
    let app = site.app(site.layer(), async |attempt| match attempt {
        1 => {
            let frames = [Ok(Bytes::from("half")), Err(std::io::Error::other("broken"))];
            respond(200, Body::from_stream(futures_util::stream::iter(frames)))
        }
        _ => respond(200, "whole"),
    });
    let cut: Response = ask(&app, pay("k", "")).await;
    let mut frames = http_body_util::BodyStream::new(cut.into_body());
    let first = futures_util::StreamExt::next(&mut frames).await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "half");
    assert!(futures_util::StreamExt::next(&mut frames).await.unwrap().is_err());
    assert_eq!(text(ask(&app, pay("k", "")).await).await, "whole");
    assert_eq!(site.outcomes.take(), ["not_stored", "executed"]);
}
