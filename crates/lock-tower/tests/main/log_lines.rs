//! The number of log lines at WARN and above does not depend on the number of requests.

use crate::support::{World, ask, get, post};
use axum::{
    Router,
    routing::{any, get as on_get},
};
use http::StatusCode;
use lock_core::backend::BackendErrorKind;
use lock_testkit::{Fault, Op, ThreadLog};
use lock_tower::{KeyError, KeyTemplate, LockHandle, LockSlot, WithoutLock};
use tracing::level_filters::LevelFilter;

/// Sends many requests, and returns the lines of this crate.
async fn lines_of(app: Router, path: &str, status: StatusCode) -> Vec<String> {
    let requests = if std::env::var_os("LOCK_LONG").is_some() { 1_000 } else { 50 };
    let log = ThreadLog::listen(LevelFilter::WARN);
    for _ in 0..requests {
        assert_eq!(ask(&app, get(path)).await.status(), status, "{path}");
    }
    log.text().lines().filter(|line| line.contains("lock_tower")).map(str::to_owned).collect()
}

#[track_caller]
fn assert_one(lines: &[String], level: &str, words: &str) {
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(level) && lines[0].contains(words), "{lines:?}");
}

async fn handler(_: LockHandle) {}

#[tokio::test(start_paused = true)]
async fn misconfigured_route_is_logged_once() {
    let world = World::new();
    let asked = KeyTemplate::from_fn(|_| Err(KeyError::misconfigured("no user: is there a login?")));
    let app = Router::new()
        .route("/template", on_get(handler).route_layer(world.layer().key("stock:{sku}")))
        .route("/function", on_get(handler).route_layer(world.layer().key(asked)))
        .route("/lines/no-layer", any(handler))
        .route("/lines/no-slot", any(async |_: LockSlot| {}));
    for (path, words) in [
        ("/template", "the route has no path parameter `sku`"),
        ("/function", "no user: is there a login?"),
        ("/lines/no-layer", "put a LockLayer on its route"),
        ("/lines/no-slot", "put one on its method"),
    ] {
        let lines = lines_of(app.clone(), path, StatusCode::INTERNAL_SERVER_ERROR).await;
        assert_one(&lines, "ERROR", words);
    }
}

#[tokio::test(start_paused = true)]
async fn outage_is_logged_once_in_ten_seconds() {
    let world = World::new();
    world.faulty.always(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    let layer = || world.layer().key("one");
    let app = Router::new()
        .route("/closed", on_get(handler).route_layer(layer()))
        .route("/open", on_get(async || {}).route_layer(layer().on_unavailable(WithoutLock::PassThrough)))
        .route("/lines/open", on_get(handler).route_layer(layer().on_unavailable(WithoutLock::PassThrough)));
    // The acquires wait for the store, so that some lines are due.
    let began = tokio::time::Instant::now();
    let lines = lines_of(app.clone(), "/closed", StatusCode::SERVICE_UNAVAILABLE).await;
    let due = 1 + began.elapsed().as_secs() / 10;
    assert!(
        !lines.is_empty() && lines.len() as u64 <= due,
        "{} in {:?}: {lines:?}",
        lines.len(),
        began.elapsed()
    );
    assert!(lines[0].contains("WARN") && lines[0].contains("left_out=0"), "{lines:?}");
    let began = tokio::time::Instant::now();
    let lines = lines_of(app.clone(), "/open", StatusCode::OK).await;
    let due = 1 + began.elapsed().as_secs() / 10;
    assert!(
        !lines.is_empty() && lines.len() as u64 <= due,
        "{} in {:?}: {lines:?}",
        lines.len(),
        began.elapsed()
    );
    let lines = lines_of(app, "/lines/open", StatusCode::SERVICE_UNAVAILABLE).await;
    let advice = lines.iter().filter(|line| line.contains("extract `Option<LockHandle>`")).count();
    assert_eq!(advice, 1, "{lines:?}");
}

/// A scanner asks for paths that do not exist. The router's fallback must not run without its lock.
#[tokio::test(start_paused = true)]
async fn unknown_paths_are_404_and_logged_once() {
    let world = World::new();
    let key = || KeyTemplate::of("machine").header("x-tenant").path("id");
    let routes = || Router::new().route("/r/{id}", any(handler));
    let inner = Router::new().route("/unlocked", any(async || {}));
    let apps = [
        routes().layer(world.layer().key("machine:{id}")),
        routes().layer(world.layer().key(key())),
        Router::new().nest("/nested", routes().layer(world.layer().key("machine:{id}"))),
        routes().fallback(async || {}).layer(world.layer().key("machine:{id}")),
        routes().fallback_service(inner).layer(world.layer().key("machine:{id}")),
    ];
    for app in apps {
        let lines = lines_of(app, "/unlocked", StatusCode::NOT_FOUND).await;
        assert!(lines.is_empty() || lines.len() == 1 && lines[0].contains("WARN"), "{lines:?}");
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    let app = routes().layer(world.layer().key("machine:{id}")).fallback(on_get(async || {}));
    assert!(
        lines_of(app.clone(), "/none", StatusCode::OK).await.is_empty(),
        "the fallback is outside of the layer"
    );
    assert_eq!(ask(&app, post("/r/7")).await.status(), StatusCode::OK);
    assert_eq!(world.faulty.calls(Op::Acquire), 1);
}
