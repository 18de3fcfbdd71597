//! The maximum duration of a hold, with slow clients and handlers that hang.

use crate::support::{World, ask, get, millis, problem, secs, text};
use axum::{
    Router,
    body::Body,
    routing::{any, put},
};
use bytes::Bytes;
use futures_util::stream;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use lock_core::{LockFactory, LockOptions, MemoryBackend};
use lock_tower::{LockLayer, LockLost};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn upload(body: Body) -> Request<Body> {
    Request::put("/").body(body).unwrap()
}

async fn reads(body: String) -> String {
    body.len().to_string()
}

/// Creates an endless body that sends one byte per minute.
fn dripping_upload() -> Body {
    Body::from_stream(stream::unfold((), async |()| {
        tokio::time::sleep(secs(60)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
    }))
}

#[tokio::test(start_paused = true)]
async fn dripping_upload_keeps_its_lock_for_30_seconds() {
    let world = World::new();
    let app = Router::new().route("/", put(reads).route_layer(world.layer().key("one")));
    let dripping = tokio::spawn({
        let app = app.clone();
        async move { ask(&app, upload(dripping_upload())).await }
    });
    tokio::time::sleep(secs(28)).await;
    problem(ask(&app, upload(Body::empty())).await, StatusCode::SERVICE_UNAVAILABLE).await;
    tokio::time::sleep(secs(2)).await;
    assert_eq!(text(ask(&app, upload(Body::from("quick"))).await).await, "5", "other requests continue");
    let json = problem(dripping.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "lost");
}

#[tokio::test(start_paused = true)]
async fn slow_reader_loses_its_lock_at_the_limit() {
    let world = World::new();
    let handler = async || {
        let chunks = stream::iter((0..5).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"chunk"))));
        Body::from_stream(chunks)
    };
    let app = Router::new().route("/", any(handler)).route_layer(world.layer().key("one").max_hold(secs(7)));
    let mut body = ask(&app, get("/")).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    tokio::time::sleep(millis(6_990)).await;
    assert!(world.is_held(), "renewed until the limit");
    tokio::time::sleep(millis(20)).await;
    world.settle().await;
    assert!(!world.is_held(), "released although the body is not read");
    let error = body.frame().await.unwrap().unwrap_err();
    let error = std::error::Error::source(&error).unwrap();
    assert_eq!(error.downcast_ref(), Some(&LockLost(lock_core::LostReason::MaxHold)));
    assert!(body.frame().await.is_none(), "the body has ended");
}

#[tokio::test(start_paused = true)]
async fn shorter_max_hold_in_the_options_is_kept() {
    let world = World::new();
    let terms = lock_core::LockOptions::new().lease(secs(3)).max_hold(secs(5));
    let app = Router::new().route("/", any(async || std::future::pending::<()>().await));
    let app = app.layer(world.layer().key("one").options(terms));
    let began = tokio::time::Instant::now();
    problem(ask(&app, get("/")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn no_max_hold_uses_the_options() {
    let world = World::new();
    let terms = lock_core::LockOptions::new().lease(secs(3));
    let held_after_a_minute = async |layer: LockLayer| {
        let app = Router::new().route("/", put(reads).route_layer(layer.key("one")));
        let waiting = tokio::time::timeout(secs(60), ask(&app, upload(dripping_upload())));
        waiting.await.is_err()
    };
    assert!(held_after_a_minute(world.layer().no_max_hold()).await);
    assert!(!held_after_a_minute(world.layer().no_max_hold().options(terms.max_hold(secs(5)))).await);
    assert!(!held_after_a_minute(world.layer().options(terms)).await, "these options keep the default");
    assert!(!held_after_a_minute(world.layer().no_max_hold().max_hold(secs(5))).await);
}

#[tokio::test(start_paused = true)]
async fn builder_order_does_not_matter() {
    let world = World::new();
    let terms = lock_core::LockOptions::new().lease(secs(3));
    let layers = [
        world.layer().key("one").max_hold(secs(5)).options(terms),
        world.layer().key("one").options(terms).max_hold(secs(5)),
    ];
    for layer in layers {
        let app = Router::new().route("/", any(async || std::future::pending::<()>().await)).layer(layer);
        let began = tokio::time::Instant::now();
        problem(ask(&app, get("/")).await, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(began.elapsed().as_secs(), 5);
    }
}

/// The default `max_hold` of 30 s conflicts with these options, and an explicit one of that length
/// is rejected.
#[tokio::test(start_paused = true)]
async fn default_max_hold_yields_to_slow_operations() {
    let slow = LockOptions::new().lease(secs(300)).operation_timeout(secs(30));
    let locks = LockFactory::builder(MemoryBackend::new()).options(slow).build().unwrap();
    let by_factory = LockLayer::new(locks);
    let by_layer = LockLayer::new(LockFactory::new(MemoryBackend::new())).try_options(slow).unwrap();
    let app = |layer: LockLayer| Router::new().route("/", any(async || "served")).layer(layer.key("one"));
    for layer in [by_factory, by_layer] {
        assert_eq!(text(ask(&app(layer.clone()), get("/")).await).await, "served");
        assert!(layer.clone().max_hold(secs(60)).try_options(slow).is_ok());
        assert!(catch_unwind(AssertUnwindSafe(|| layer.options(slow).max_hold(secs(30)))).is_err());
    }
}
