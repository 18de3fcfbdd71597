//! Leases lost on a real server in real time, after a deleted key or a paused server.

use crate::support::{Gauge, ask, get, millis, problem, secs};
use axum::{Router, body::Body, routing::any};
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body_util::BodyExt;
use lock_core::{HoldEnd, LockFactory, LockOptions, LostReason};
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use lock_tower::{DetachedTasks, LockHandle, LockLayer, LockLost};
use std::{
    error::Error,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// One renewal per second.
const LEASE: Duration = secs(3);
const INTERVAL: Duration = secs(1);
/// The tolerance in the long tier.
const SLACK: Duration = millis(500);

/// Asserts the bound in the long tier, which runs on an otherwise idle machine.
fn within(took: Duration, bound: Duration) {
    assert!(std::env::var_os("LOCK_LONG").is_none() || took <= bound, "{took:?} exceeds {bound:?}");
}

struct Site {
    server: RedisServer,
    app: Router,
    inside: Gauge,
    entered: mpsc::UnboundedReceiver<LockHandle>,
}

/// `/head` hangs before the head, `/body` in its body; each reports when it is entered.
async fn site(tasks: Option<&DetachedTasks>) -> Site {
    let server = RedisServer::start();
    let backend = RedisBackend::connect(&server.url()).await.unwrap();
    let locks = LockFactory::builder(backend).options(LockOptions::new().lease(LEASE)).build().unwrap();
    let inside = Gauge::default();
    let (enter, entered) = mpsc::unbounded_channel();
    let (gauge, entering) = (inside.clone(), enter.clone());
    let head = async move |lock: LockHandle| {
        let _inside = gauge.enter();
        entering.send(lock).unwrap();
        std::future::pending::<()>().await;
    };
    let gauge = inside.clone();
    let body = async move |lock: LockHandle| {
        let inside = gauge.enter();
        enter.send(lock).unwrap();
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"first"))]);
        let hangs = stream::once(async move {
            let _inside = inside;
            std::future::pending().await
        });
        Body::from_stream(futures_util::StreamExt::chain(first, hangs))
    };
    let app = Router::new().route("/head", any(head)).route("/body", any(body));
    let layer = LockLayer::new(locks).key("one");
    let app = match tasks {
        Some(tasks) => app.layer(layer.detach(tasks)),
        None => app.layer(layer),
    };
    Site { server, app, inside, entered }
}

impl Site {
    /// Returns the handle of the next handler that is entered.
    async fn entered(&mut self) -> LockHandle {
        self.entered.recv().await.unwrap()
    }

    /// Waits until no handler is left. A detached handler is dropped asynchronously.
    async fn is_empty(&self) {
        let began = Instant::now();
        while self.inside.inside() > 0 {
            assert!(began.elapsed() < secs(60), "the handler was not dropped");
            tokio::time::sleep(millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_key_drops_the_handler_within_an_interval() {
    for tasks in [None, Some(DetachedTasks::new())] {
        let mut site = site(tasks.as_ref()).await;
        let asking = tokio::spawn({
            let app = site.app.clone();
            async move { ask(&app, get("/head")).await }
        });
        let lock = site.entered().await;
        assert_eq!(site.server.command(&["DEL", "one"]).integer(), 1);
        let began = Instant::now();
        let json = problem(asking.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE).await;
        let took = began.elapsed();
        println!("deleted before the head: 503 after {took:?}, renewals every {INTERVAL:?}");
        assert_eq!(json["reason"], "lost");
        within(took, INTERVAL + SLACK);
        assert_eq!(lock.ended().await, HoldEnd::Lost(LostReason::Gone));
        site.is_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_server_drops_the_handler_at_the_deadline() {
    let mut site = site(None).await;
    let asking = tokio::spawn({
        let app = site.app.clone();
        async move { ask(&app, get("/head")).await }
    });
    let lock = site.entered().await;
    site.server.pause();
    // The deadline can no longer move, since renewals receive no reply.
    let (began, left) = (Instant::now(), lock.remaining());
    let json = problem(asking.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE).await;
    let took = began.elapsed();
    println!("paused before the head: 503 after {took:?}, the deadline was {left:?} away");
    assert_eq!(json["reason"], "lost");
    within(took, left + SLACK);
    assert_eq!(lock.ended().await, HoldEnd::Lost(LostReason::Expired));
    site.is_empty().await;
    site.server.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_key_ends_the_body_with_an_error() {
    for tasks in [None, Some(DetachedTasks::new())] {
        let mut site = site(tasks.as_ref()).await;
        let mut body = ask(&site.app, get("/body")).await.into_body();
        let lock = site.entered().await;
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
        assert_eq!(site.server.command(&["DEL", "one"]).integer(), 1);
        let began = Instant::now();
        let error = body.frame().await.unwrap().unwrap_err();
        let took = began.elapsed();
        println!("deleted after the head: the body was cut after {took:?}");
        assert_eq!(error.source().unwrap().downcast_ref(), Some(&LockLost(LostReason::Gone)));
        within(took, INTERVAL + SLACK);
        assert_eq!(lock.ended().await, HoldEnd::Lost(LostReason::Gone));
        site.is_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_server_cuts_the_body_at_the_deadline() {
    for tasks in [None, Some(DetachedTasks::new())] {
        let mut site = site(tasks.as_ref()).await;
        let mut body = ask(&site.app, get("/body")).await.into_body();
        let lock = site.entered().await;
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
        site.server.pause();
        let (began, left) = (Instant::now(), lock.remaining());
        let error = body.frame().await.unwrap().unwrap_err();
        let took = began.elapsed();
        println!("paused after the head: the body was cut after {took:?}, the deadline was {left:?} away");
        assert_eq!(error.source().unwrap().downcast_ref(), Some(&LockLost(LostReason::Expired)));
        within(took, left + SLACK);
        site.is_empty().await;
        site.server.resume();
    }
}
