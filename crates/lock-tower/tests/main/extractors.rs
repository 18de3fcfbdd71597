//! The handler's view of the lock.

use crate::support::{World, ask, get, millis, problem, text};
use axum::{Router, routing::get as on_get};
use http::StatusCode;
use lock_core::{HoldEnd, LockFactory, ReleaseOutcome};
use lock_testkit::{Fault, Op, ThreadLog};
use lock_tower::{LockHandle, LockStatus, RejectReason, WithoutLock};
use tracing::level_filters::LevelFilter;

#[tokio::test(start_paused = true)]
async fn handle_exposes_name_token_deadline_and_owner() {
    async fn handler(locks: LockFactory, lock: LockHandle) -> String {
        assert!(lock.is_held() && lock.remaining() > millis(2_000));
        // Re-entry in a nested call, with an explicit owner.
        let inner = locks.named("one").unwrap().with_owner(lock.owner()).unwrap().acquire().await.unwrap();
        assert_eq!(inner.fencing_token(), lock.fencing_token());
        inner.release().await.unwrap();
        assert!(lock.is_held(), "the outer hold continues");
        format!("{} {}", lock.name(), lock.fencing_token())
    }
    let world = World::new();
    let locks = world.locks.clone();
    let app = Router::new()
        .route("/", on_get(move |lock| handler(locks.clone(), lock)))
        .route_layer(world.layer().key("one"));
    let first = text(ask(&app, get("/")).await).await;
    let second = text(ask(&app, get("/")).await).await;
    let token = |said: &str| said.strip_prefix("one ").unwrap().parse::<u64>().unwrap();
    assert!(token(&first) < token(&second), "{first}, {second}");
    world.settle().await;
    assert!(!world.is_held());
}

#[tokio::test(start_paused = true)]
async fn handle_releases_early_and_once() {
    let world = World::new();
    let store = world.store.clone();
    let handler = move |lock: LockHandle| async move {
        assert_eq!(lock.release().await.unwrap(), ReleaseOutcome::Released);
        assert!(store.held().is_empty(), "released before the response");
        assert_eq!(lock.clone().release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
        assert_eq!(lock.ended().await, HoldEnd::Released);
        tokio::time::sleep(millis(10_000)).await; // longer than the lease, but not a loss
        "done"
    };
    let app = Router::new().route("/", on_get(handler)).route_layer(world.layer().key("one"));
    assert_eq!(text(ask(&app, get("/")).await).await, "done");
    world.settle().await;
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn clone_of_the_handle_does_not_keep_the_lock() {
    let world = World::new();
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<LockHandle>(1);
    let handler = move |lock: LockHandle| async move { sender.send(lock).await.unwrap() };
    let app = Router::new().route("/", on_get(handler)).route_layer(world.layer().key("one"));
    ask(&app, get("/")).await;
    world.settle().await;
    let lock = receiver.recv().await.unwrap();
    assert!(!lock.is_held());
    world.assert_released(1);
    assert_eq!(lock.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
}

#[tokio::test(start_paused = true)]
async fn missing_layer_is_500() {
    let app = Router::new()
        .route("/handle", on_get(|_: LockHandle| async { "never" }))
        .route("/status", on_get(|_: LockStatus| async { "never" }))
        .route("/option", on_get(|lock: Option<LockHandle>| async move { lock.is_none().to_string() }));
    for path in ["/handle", "/status"] {
        let json = problem(ask(&app, get(path)).await, StatusCode::INTERNAL_SERVER_ERROR).await;
        assert_eq!(json["detail"], "the server is misconfigured");
    }
    assert_eq!(text(ask(&app, get("/option")).await).await, "true");
}

#[tokio::test(start_paused = true)]
async fn handle_rejects_an_unlocked_request() {
    let world = World::new();
    world.faulty.always(Op::Acquire, Fault::FailBefore(lock_core::backend::BackendErrorKind::Unavailable));
    let status = |status: LockStatus| async move {
        assert!(status.handle().is_none());
        format!("{}", matches!(status.unlocked(), Some(RejectReason::Unavailable(_))))
    };
    let app = Router::new()
        .route("/handle", on_get(|_: LockHandle| async { "never" }))
        .route("/status", on_get(status))
        .route("/option", on_get(|lock: Option<LockHandle>| async move { lock.is_none().to_string() }))
        .route_layer(world.layer().key("one").on_unavailable(WithoutLock::PassThrough));
    let json = problem(ask(&app, get("/handle")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["detail"], "the lock service is not available");
    assert_eq!(text(ask(&app, get("/status")).await).await, "true");
    assert_eq!(text(ask(&app, get("/option")).await).await, "true");
}

#[tokio::test(start_paused = true)]
async fn missing_layer_is_logged_with_route_and_without_key() {
    let app = Router::new()
        .route("/handle/{account}", on_get(|_: LockHandle| async { "never" }))
        .route("/status/{account}", on_get(|_: LockStatus| async { "never" }));
    let log = ThreadLog::listen(LevelFilter::INFO);
    for route in ["/handle/", "/status/"] {
        ask(&app, get(&format!("{route}4711"))).await;
        let said = log.text();
        log.clear();
        assert!(said.contains("ERROR") && said.contains(&format!("{route}{{account}}")), "{said}");
        assert!(!said.contains("4711"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_layers_with_one_key_time_out() {
    let world = World::new();
    let layer = || world.layer().key("one").wait(millis(100));
    let app = Router::new().route("/", on_get(|| async { "never" })).layer(layer()).layer(layer());
    problem(ask(&app, get("/")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    world.settle().await;
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_release_does_not_stop_the_handler() {
    let world = World::new();
    world.faulty.always(Op::Release, Fault::Hang);
    let handler = |lock: LockHandle| async move {
        let error = lock.release().await.unwrap_err();
        tokio::time::sleep(millis(10_000)).await;
        format!("{:?}", error.kind())
    };
    let app = Router::new().route("/", on_get(handler)).route_layer(world.layer().key("one"));
    assert_eq!(text(ask(&app, get("/")).await).await, "Unconfirmed");
}
