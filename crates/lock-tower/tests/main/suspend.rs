//! A suspended process, whose clock passes the lease before any timer fires.

use crate::support::{Recorder, World, ask, get, problem, secs};
use axum::{Router, body::Body, response::Response, routing::any};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use lock_core::{
    LockFactory, LostReason,
    clock::{Clock, Moment, TestClock, UtcTime},
};
use lock_tower::{KeyTemplate, LockLayer, LockLost};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A clock that jumps by an hour during a suspend, without advancing timers.
#[derive(Debug, Default)]
struct Sleeper(TestClock, AtomicBool);

impl Sleeper {
    fn sleep(&self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

impl Clock for Sleeper {
    fn now(&self) -> Moment {
        self.0.now() + secs(if self.1.load(Ordering::SeqCst) { 3600 } else { 0 })
    }

    fn wall(&self) -> UtcTime {
        self.0.wall()
    }
}

fn layer(clock: &Arc<Sleeper>) -> LockLayer<KeyTemplate> {
    let locks = LockFactory::builder(World::new().store).clock(clock.clone()).build().unwrap();
    LockLayer::new(locks).key("one")
}

fn app<H, T>(clock: &Arc<Sleeper>, handler: H) -> Router
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    Router::new().route("/", any(handler)).layer(layer(clock))
}

#[tokio::test(start_paused = true)]
async fn response_after_the_lease_is_not_sent() {
    let clock = Arc::new(Sleeper::default());
    let sleeps = clock.clone();
    let app = app(&clock, async move || {
        sleeps.sleep();
        "served"
    });
    let json = problem(ask(&app, get("/")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "lost");
}

#[tokio::test(start_paused = true)]
async fn handler_is_not_polled_after_the_lease() {
    let clock = Arc::new(Sleeper::default());
    let sleeps = clock.clone();
    let app = app(&clock, async move || {
        tokio::task::yield_now().await;
        assert!(!sleeps.1.load(Ordering::SeqCst), "the handler continued without its lock");
        std::future::pending::<()>().await;
    });
    let mut asking = Box::pin(ask(&app, get("/")));
    assert!(futures_util::poll!(&mut asking).is_pending());
    clock.sleep();
    problem(asking.await, StatusCode::SERVICE_UNAVAILABLE).await;
}

#[tokio::test(start_paused = true)]
async fn body_ends_with_an_error_after_the_lease() {
    let clock = Arc::new(Sleeper::default());
    let sleeps = clock.clone();
    let app = app(&clock, async move || -> Response {
        let chunks = stream::iter(0..2).map(move |at| {
            if at == 1 {
                sleeps.sleep();
            }
            Ok::<_, Infallible>(Bytes::from_static(b"chunk"))
        });
        Response::new(Body::from_stream(chunks))
    });
    let mut body = ask(&app, get("/")).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let error = body.frame().await.unwrap().unwrap_err();
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.downcast_ref(), Some(&LockLost(LostReason::Expired)));
}

#[tokio::test(start_paused = true)]
async fn last_frame_after_the_lease_is_not_sent() {
    for observer in [None, Some(Recorder::default())] {
        let clock = Arc::new(Sleeper::default());
        let layer = layer(&clock);
        let layer = match observer.clone() {
            Some(observer) => layer.observer(observer),
            None => layer,
        };
        let sleeps = clock.clone();
        // The body has ended with its first frame, during which the process is suspended.
        let handler = async move || {
            let frame = Full::new(Bytes::from_static(b"frame"));
            Body::new(frame.map_frame(move |frame| {
                sleeps.sleep();
                frame
            }))
        };
        let app = Router::new().route("/", any(handler)).layer(layer);
        let mut body = ask(&app, get("/")).await.into_body();
        let error = body.frame().await.unwrap().unwrap_err();
        let cause = std::error::Error::source(&error).unwrap();
        assert_eq!(cause.downcast_ref(), Some(&LockLost(LostReason::Expired)));
        assert!(body.frame().await.is_none());
        if let Some(observer) = observer {
            let events = ["acquired", "lost: Expired", "ended after 0 ms"];
            assert_eq!(observer.take(), events.map(|event| format!("/: {event}")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn body_is_not_polled_after_the_lease() {
    let clock = Arc::new(Sleeper::default());
    let sleeps = clock.clone();
    let polled = Arc::new(AtomicBool::new(false));
    let polls = polled.clone();
    // The handler and its body are never pending.
    let app = app(&clock, async move || {
        let frames = std::iter::from_fn(move || {
            polls.fetch_or(sleeps.1.load(Ordering::SeqCst), Ordering::SeqCst);
            Some(Ok::<_, Infallible>(Bytes::from_static(b"frame")))
        });
        Body::from_stream(stream::iter(frames))
    });
    let mut body = ask(&app, get("/")).await.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "frame");
    clock.sleep();
    body.frame().await.unwrap().unwrap_err();
    assert!(!polled.load(Ordering::SeqCst), "the handler continued without its lock");
}
