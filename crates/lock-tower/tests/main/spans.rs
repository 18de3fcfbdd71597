//! A request's span, with its fields and the logs inside it.

use crate::support::{World, ask, get, millis, text};
use axum::{Router, body::Body, routing::any};
use bytes::Bytes;
use futures_util::stream;
use lock_core::LockName;
use lock_testkit::{Fault, Op, ThreadLog};
use lock_tower::{DetachedTasks, KeyHash, KeyTemplate, LockLayer};
use std::convert::Infallible;
use tracing::{Instrument, level_filters::LevelFilter};

const KEY: &str = "account-4711";

/// Logs once in the handler and once in its body.
async fn handler() -> Body {
    tracing::info!("in the handler");
    Body::from_stream(stream::once(async {
        tracing::info!("in the body");
        Ok::<_, Infallible>(Bytes::from_static(b"served"))
    }))
}

fn layer(world: &World) -> LockLayer<KeyTemplate> {
    world.layer().key("k:{id}")
}

/// Returns the lines that the layer and the handler log for a request under an outer span. None contains the key.
async fn logged(app: Router) -> Vec<String> {
    let log = ThreadLog::listen(LevelFilter::DEBUG);
    let asking = async { text(ask(&app, get(&format!("/{KEY}"))).await).await };
    asking.instrument(tracing::info_span!("http-request")).await;
    tokio::time::sleep(millis(1)).await;
    let log = log.text();
    let lines: Vec<_> = log.lines().filter(|line| !line.contains("lock_core::")).map(str::to_owned).collect();
    assert!(!lines.concat().contains(KEY), "{lines:?}");
    lines
}

#[track_caller]
fn assert_line(lines: &[String], said: &str, fields: &[&str]) {
    let line = lines.iter().find(|line| line.ends_with(said)).unwrap_or_else(|| panic!("{said}: {lines:?}"));
    assert!(line.contains("http-request:lock.request{"), "a child of the caller's span: {line}");
    assert!(fields.iter().all(|field| line.contains(field)), "{fields:?}: {line}");
}

#[tokio::test(start_paused = true)]
async fn handler_and_body_run_in_the_span() {
    let world = World::new();
    let hash = KeyHash::of(&LockName::new(format!("k:{KEY}")).unwrap());
    let hash = format!("lock.key_hash={hash}");
    let fields =
        ["http.route=\"/{id}\"", &hash, "lock.outcome=\"acquired\"", "lock.waited=0.0", "lock.token="];
    let route = || Router::new().route("/{id}", any(handler));
    let tasks = DetachedTasks::new();
    for app in [route().route_layer(layer(&world)), route().route_layer(layer(&world).detach(&tasks))] {
        let lines = logged(app).await;
        assert_line(&lines, "in the handler", &fields);
        assert_line(&lines, "in the body", &fields);
    }
}

#[tokio::test(start_paused = true)]
async fn rejection_is_recorded() {
    let world = World::new();
    let _other = world.another_process().named(format!("k:{KEY}")).unwrap().acquire().await.unwrap();
    let layer = layer(&world).wait(millis(500)).on_reject(|rejection| {
        tracing::info!("rejecting");
        rejection.into_problem_response()
    });
    let lines = logged(Router::new().route("/{id}", any(handler)).route_layer(layer)).await;
    assert_line(&lines, "rejecting", &["lock.key_hash=", "lock.outcome=\"timeout\"", "lock.waited=0.5"]);
    assert!(!lines.iter().any(|line| line.contains("lock.token")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_lock_is_logged_in_the_span() {
    let world = World::new();
    world.faulty.always(Op::Renew, Fault::Hang);
    let hangs = async || std::future::pending::<()>().await;
    let lines = logged(Router::new().route("/{id}", any(hangs)).route_layer(layer(&world))).await;
    assert_line(
        &lines,
        "lock lost while its request was being handled lock.reason=Expired",
        &["lock.token="],
    );
}

#[tokio::test(start_paused = true)]
async fn request_without_a_lock_has_no_span() {
    let world = World::new();
    let layer = layer(&world).filter(|_| false);
    let lines = logged(Router::new().route("/{id}", any(handler)).route_layer(layer)).await;
    assert!(lines.iter().any(|line| line.ends_with("in the handler")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("lock.request")), "{lines:?}");
}
