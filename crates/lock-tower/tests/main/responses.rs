//! The response to each event, with one test for each row of the table in the documentation.

use crate::support::{World, ask, get, millis, post, problem, secs, text};
use axum::{Router, response::Response, routing::any};
use http::StatusCode;
use lock_core::{Limits, LockFactory, LockOptions, LostReason, MemoryBackend, backend::BackendErrorKind};
use lock_testkit::{Fault, Op};
use lock_tower::{
    DetachedTasks, KeyHash, KeyTemplate, LockHandle, LockLayer, OnLost, RejectReason, Rejection, WithoutLock,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

const SECRET: &str = "account-4711";

fn app(layer: LockLayer<KeyTemplate>) -> Router {
    Router::new().route("/{id}", any(async || "served")).route_layer(layer)
}

fn layer(world: &World) -> LockLayer<KeyTemplate> {
    world.layer().key("k:{id}")
}

/// Sends a request with the secret key and asserts that the response does not contain it.
async fn assert_rejected(app: &Router, status: StatusCode, reason: &str) -> serde_json::Value {
    let json = problem(ask(app, post(&format!("/{SECRET}"))).await, status).await;
    assert_eq!(json["reason"], reason, "{json}");
    assert!(!json.to_string().contains(SECRET), "{json}");
    let name = lock_core::LockName::new(format!("k:{SECRET}")).unwrap();
    assert_eq!(json["key_hash"], KeyHash::of(&name).to_string());
    json
}

async fn held_by_another(world: &World) -> lock_core::LockGuard {
    world.another_process().named(format!("k:{SECRET}")).unwrap().acquire().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn held_lock_is_409_immediately() {
    let world = World::new();
    let _other = held_by_another(&world).await;
    let began = tokio::time::Instant::now();
    let json = assert_rejected(&app(layer(&world).fail_fast()), StatusCode::CONFLICT, "contended").await;
    assert_eq!(began.elapsed(), millis(0));
    assert!(json["retry_after_ms"].as_u64().unwrap() >= 1000);
}

#[tokio::test(start_paused = true)]
async fn timeout_is_503_after_the_wait_or_409() {
    let world = World::new();
    let _other = held_by_another(&world).await;
    let began = tokio::time::Instant::now();
    assert_rejected(&app(layer(&world)), StatusCode::SERVICE_UNAVAILABLE, "timeout").await;
    assert!(
        began.elapsed() >= secs(1) && began.elapsed() < millis(1100),
        "the default: {:?}",
        began.elapsed()
    );
    let conflict = layer(&world).wait(millis(200)).timeout_status(StatusCode::CONFLICT);
    assert_rejected(&app(conflict), StatusCode::CONFLICT, "timeout").await;
}

#[tokio::test(start_paused = true)]
async fn request_waits_for_the_release() {
    let world = World::new();
    let other = held_by_another(&world).await;
    let app = app(layer(&world));
    let answer = tokio::spawn(async move { text(ask(&app, post(&format!("/{SECRET}"))).await).await });
    tokio::time::sleep(millis(300)).await;
    other.release().await.unwrap();
    assert_eq!(answer.await.unwrap(), "served");
}

#[tokio::test(start_paused = true)]
async fn too_many_waiters_are_503_immediately() {
    let world = World::new();
    let _other = held_by_another(&world).await;
    let clock = Arc::new(lock_core::clock::TestClock::new());
    let builder = LockFactory::builder(world.store.clone()).clock(clock);
    let locks = builder.limits(Limits::new().waiters_per_name(1)).build().unwrap();
    // The factory's limit for this key, and the layer's limit.
    for app in [app(LockLayer::new(locks).key("k:{id}")), app(layer(&world).max_waiters(1))] {
        let waiting = app.clone();
        let waiting = tokio::spawn(async move { ask(&waiting, post(&format!("/{SECRET}"))).await });
        world.settle().await;
        let began = tokio::time::Instant::now();
        assert_rejected(&app, StatusCode::SERVICE_UNAVAILABLE, "overloaded").await;
        assert_eq!(began.elapsed(), millis(0));
        waiting.abort();
        let _ = waiting.await;
        world.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_detached_handlers_are_503_immediately() {
    let world = World::new();
    let tasks = DetachedTasks::with_limit(1);
    let app = Router::new()
        .route("/{id}", any(async || std::future::pending::<()>().await))
        .route_layer(layer(&world).detach(&tasks));
    let gone = tokio::time::timeout(millis(10), ask(&app, get("/another"))).await;
    assert!(gone.is_err());
    assert_eq!(tasks.running(), 1, "the handler continues");
    assert_rejected(&app, StatusCode::SERVICE_UNAVAILABLE, "overloaded").await;
}

#[tokio::test(start_paused = true)]
async fn unavailable_store_is_503_or_allowed() {
    let world = World::new();
    for fault in [Fault::FailBefore(BackendErrorKind::Unavailable), Fault::Hang] {
        world.faulty.always(Op::Acquire, fault);
        assert_rejected(&app(layer(&world)), StatusCode::SERVICE_UNAVAILABLE, "backend_error").await;
        assert_rejected(&app(layer(&world).fail_fast()), StatusCode::SERVICE_UNAVAILABLE, "backend_error")
            .await;
        let open = app(layer(&world).on_unavailable(WithoutLock::PassThrough));
        assert_eq!(text(ask(&open, get("/1")).await).await, "served");
    }
}

/// The second request waits behind the first, without a store request of its own.
#[tokio::test(start_paused = true)]
async fn unavailable_store_allows_every_waiter() {
    for fault in [Fault::FailBefore(BackendErrorKind::Unavailable), Fault::Hang] {
        let world = World::new();
        world.faulty.always(Op::Acquire, fault);
        let open = app(layer(&world).on_unavailable(WithoutLock::PassThrough));
        let (first, second) = tokio::join!(ask(&open, get("/1")), ask(&open, get("/1")));
        assert_eq!((text(first).await.as_str(), text(second).await.as_str()), ("served", "served"));
    }
}

#[tokio::test(start_paused = true)]
async fn store_error_is_503_and_never_allowed() {
    let world = World::new();
    for refused in [BackendErrorKind::Denied, BackendErrorKind::WrongType] {
        world.faulty.always(Op::Acquire, Fault::Refuse(refused));
        assert_rejected(&app(layer(&world)), StatusCode::SERVICE_UNAVAILABLE, "backend_error").await;
        let open = app(layer(&world).on_unavailable(WithoutLock::PassThrough));
        assert_rejected(&open, StatusCode::SERVICE_UNAVAILABLE, "backend_error").await;
    }
}

#[tokio::test(start_paused = true)]
async fn held_lock_is_never_allowed() {
    let world = World::new();
    let _other = held_by_another(&world).await;
    let open = app(layer(&world).on_unavailable(WithoutLock::PassThrough));
    assert_rejected(&open, StatusCode::SERVICE_UNAVAILABLE, "timeout").await;
}

#[tokio::test(start_paused = true)]
async fn loss_before_the_head_is_503_or_signalled() {
    let world = World::new();
    let ended = Arc::new(Mutex::new(None));
    let heard = ended.clone();
    let handler = async move |lock: LockHandle| {
        let how = lock.ended().await;
        *heard.lock().unwrap() = Some(how);
        "served"
    };
    let route = |layer| Router::new().route("/{id}", any(handler.clone())).route_layer(layer);
    world.faulty.always(Op::Renew, Fault::Hang);
    let began = tokio::time::Instant::now();
    assert_rejected(&route(layer(&world)), StatusCode::SERVICE_UNAVAILABLE, "lost").await;
    assert!(began.elapsed() < secs(3), "waited for the lease: {:?}", began.elapsed());
    assert_eq!(*ended.lock().unwrap(), None, "the handler was dropped");
    let signal = route(layer(&world).on_lost(OnLost::Signal));
    assert_eq!(text(ask(&signal, get("/2")).await).await, "served");
    assert_eq!(*ended.lock().unwrap(), Some(lock_core::HoldEnd::Lost(LostReason::Expired)));
}

#[tokio::test(start_paused = true)]
async fn shut_down_factory_is_503() {
    let world = World::new();
    let app = app(layer(&world));
    world.locks.shutdown().await;
    assert_rejected(&app, StatusCode::SERVICE_UNAVAILABLE, "shut_down").await;
}

#[tokio::test(start_paused = true)]
async fn invalid_key_is_400_and_misconfigured_key_is_500() {
    let world = World::new();
    let by_header = app(world.layer().key(KeyTemplate::of("k").header("x-id")));
    let json = problem(ask(&by_header, get("/1")).await, StatusCode::BAD_REQUEST).await;
    assert_eq!((json["reason"].as_str(), json.get("key_hash")), (Some("bad_key"), None), "{json}");
    assert!(json.get("retry_after_ms").is_none(), "a retry would fail again");
    let other_name = app(world.layer().key("k:{sku}"));
    let json = problem(ask(&other_name, get("/1")).await, StatusCode::INTERNAL_SERVER_ERROR).await;
    assert_eq!(json["reason"], "misconfigured");
}

#[tokio::test(start_paused = true)]
async fn invalid_options_fail_when_the_layer_is_built() {
    let layer = LockLayer::new(LockFactory::new(MemoryBackend::new()));
    let short = LockOptions::new().lease(millis(1));
    let error = layer.clone().try_options(short).unwrap_err();
    assert_eq!(error.kind(), lock_core::LockErrorKind::InvalidOptions);
    let too_long = secs(100 * 24 * 3600);
    let error = layer.clone().try_wait(too_long).unwrap_err();
    assert_eq!(error.kind(), lock_core::LockErrorKind::InvalidOptions);
    let says = |build: &dyn Fn(LockLayer) -> LockLayer| {
        let caught = catch_unwind(AssertUnwindSafe(|| drop(build(layer.clone())))).unwrap_err();
        caught.downcast_ref::<String>().unwrap().clone()
    };
    let said = says(&|layer| layer.options(short));
    assert!(said.contains("use at least 100ms"), "{said}");
    let said = says(&|layer| layer.options(LockOptions::new().operation_timeout(secs(1))).max_hold(secs(1)));
    assert!(said.contains("max_hold"), "{said}");
    let said = says(&|layer| layer.wait(too_long));
    assert!(said.contains("raise `max_wait`"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn on_reject_replaces_every_response() {
    fn teapot(seen: &Mutex<Vec<Rejection>>, rejection: Rejection) -> Response<String> {
        let answer = format!("{}: {:?}", rejection.status(), rejection.retry_after().is_some());
        seen.lock().unwrap().push(rejection);
        Response::builder().status(StatusCode::IM_A_TEAPOT).body(answer).unwrap()
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let world = World::new();
    let other = held_by_another(&world).await;
    let own = |layer: LockLayer<KeyTemplate>| {
        let seen = seen.clone();
        app(layer.on_reject(move |rejection| teapot(&seen, rejection)))
    };
    let path = format!("/{SECRET}");
    let teapot = async |layer| {
        assert_eq!(ask(&own(layer), post(&path)).await.status(), StatusCode::IM_A_TEAPOT);
    };
    teapot(layer(&world).fail_fast()).await;
    teapot(layer(&world)).await;
    teapot(layer(&world).max_waiters(0)).await;
    teapot(world.layer().key("k:{sku}")).await;
    teapot(world.layer().key(KeyTemplate::of("k").header("x-id"))).await;
    other.release().await.unwrap();
    let hangs = Router::new().route("/{id}", any(async || std::future::pending::<()>().await));
    let seen_too = seen.clone();
    let lost = layer(&world).max_hold(secs(1)).on_reject(move |rejection| {
        seen_too.lock().unwrap().push(rejection);
        Response::builder().status(StatusCode::IM_A_TEAPOT).body(String::new()).unwrap()
    });
    assert_eq!(ask(&hangs.route_layer(lost), post(&path)).await.status(), StatusCode::IM_A_TEAPOT);
    world.faulty.always(Op::Acquire, Fault::Hang);
    teapot(layer(&world)).await;
    world.faulty.heal();
    world.locks.shutdown().await;
    teapot(layer(&world)).await;

    let seen = seen.lock().unwrap();
    let words: Vec<_> = seen.iter().map(|rejection| rejection.reason().as_str()).collect();
    let expected = [
        "contended",
        "timeout",
        "overloaded",
        "misconfigured",
        "bad_key",
        "lost",
        "backend_error",
        "shut_down",
    ];
    assert_eq!(words, expected);
    assert!(seen.iter().any(|r| matches!(r.reason(), RejectReason::Lost(LostReason::MaxHold))));
}

#[tokio::test(start_paused = true)]
async fn shared_secret_produces_one_key_hash() {
    let world = World::new();
    let _other = held_by_another(&world).await;
    let hash = async |layer: LockLayer<KeyTemplate>| {
        let answer = ask(&app(layer.fail_fast()), post(&format!("/{SECRET}"))).await;
        problem(answer, StatusCode::CONFLICT).await["key_hash"].as_str().unwrap().to_owned()
    };
    let keyed = async |secret| hash(layer(&world).key_hash_secret(secret)).await;
    let first = keyed(*b"of all replicas!").await;
    // The hash is the same in every process and version.
    assert_eq!(first, "69a1409be97e0cfc");
    assert_ne!(keyed(*b"of another fleet").await, first);
    assert_ne!(hash(layer(&world)).await, first, "by default, the secret is per process");
    let name = lock_core::LockName::new(format!("k:{SECRET}")).unwrap();
    assert_eq!(KeyHash::with_secret(*b"of all replicas!", &name).to_string(), first);
}

#[tokio::test(start_paused = true)]
async fn grpc_rejections_have_a_grpc_status() {
    let world = World::new();
    let _other = held_by_another(&world).await;
    let answer = ask(&app(layer(&world).fail_fast().grpc()), post(&format!("/{SECRET}"))).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["grpc-status"], "10");
    assert_eq!(answer.headers()["grpc-message"], "another request is working on this resource");
    assert!(!format!("{:?}", answer.headers()).contains(SECRET));
    assert_eq!(text(answer).await, "");
}
