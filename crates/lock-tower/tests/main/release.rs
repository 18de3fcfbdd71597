//! Locks are released exactly once, and never by lease expiry.

use crate::support::{World, ask, get, millis};
use axum::{Router, body::Body, response::Response, routing::any};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use lock_tower::{
    DetachedTasks, LockHandle, ReleaseOn,
    observer::{LayerEvent, LayerObserver},
};
use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

/// Returns the same handler twice: one is cancelled with its client, and one is detached.
fn both<H, T>(world: &World, handler: H) -> [Router; 2]
where
    H: axum::handler::Handler<T, ()> + Clone,
    T: 'static,
{
    let route = || Router::new().route("/", any(handler.clone()));
    let layer = || world.layer().key("one");
    [route().route_layer(layer()), route().route_layer(layer().detach(&DetachedTasks::new()))]
}

fn chunks(number: usize) -> Body {
    let chunk = |at| async move { Ok::<_, Infallible>(Bytes::from(format!("{at} "))) };
    Body::from_stream(stream::iter(0..number).then(chunk))
}

/// Runs `client` on each, and asserts that each is released once, before its lease expires.
async fn released_once<H, T, C>(handler: H, client: C)
where
    H: axum::handler::Handler<T, ()> + Clone,
    T: 'static,
    C: AsyncFn(&World, Router),
{
    let world = World::new();
    for (at, app) in both(&world, handler).into_iter().enumerate() {
        let began = tokio::time::Instant::now();
        client(&world, app).await;
        world.settle().await;
        assert!(began.elapsed() < millis(100), "the release waited for the lease");
        world.assert_released(at + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn complete_body_releases_at_its_end() {
    released_once(
        async || chunks(3),
        async |world, app| {
            let mut body = ask(&app, get("/")).await.into_body();
            for _ in 0..3 {
                world.settle().await;
                assert!(world.is_held(), "the body has not ended");
                assert!(body.frame().await.unwrap().is_ok());
            }
            assert!(body.frame().await.is_none());
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn last_frame_releases_without_another_poll() {
    // The length is known, so hyper does not poll again.
    released_once(
        async || "hello",
        async |world, app| {
            let mut body = ask(&app, get("/")).await.into_body();
            world.settle().await;
            assert!(world.is_held());
            assert_eq!(body.size_hint_exact(), Some(5));
            assert!(body.frame().await.unwrap().is_ok());
            world.settle().await;
            assert!(!world.is_held(), "released before the body is dropped");
            drop(body);
        },
    )
    .await;
}

trait Exact {
    fn size_hint_exact(&self) -> Option<u64>;
}

impl Exact for Body {
    fn size_hint_exact(&self) -> Option<u64> {
        http_body::Body::size_hint(self).exact()
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_bodies_release_with_the_head() {
    let empty = async || StatusCode::OK;
    let no_content = async || StatusCode::NO_CONTENT;
    let not_modified = async || Response::builder().status(304).body(chunks(3)).unwrap();
    let at_once = async |world: &World, app: Router| {
        let answer = ask(&app, get("/")).await;
        world.settle().await;
        assert!(!world.is_held(), "released before the response is dropped");
        drop(answer);
    };
    released_once(empty, at_once).await;
    released_once(no_content, at_once).await;
    released_once(not_modified, at_once).await;
}

#[tokio::test(start_paused = true)]
async fn head_request_releases_with_the_head() {
    released_once(
        async || chunks(3),
        async |_, app| {
            let request = Request::builder().method(Method::HEAD).uri("/").body(Body::empty()).unwrap();
            let answer = ask(&app, request).await;
            assert_eq!(answer.status(), StatusCode::OK);
            drop(answer);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn dropped_body_releases() {
    released_once(
        async || chunks(3),
        async |_, app| {
            let mut body = ask(&app, get("/")).await.into_body();
            assert!(body.frame().await.unwrap().is_ok());
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn failing_body_releases_with_its_error() {
    let failing = async || {
        let frames = [Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("broken"))];
        Body::from_stream(stream::iter(frames))
    };
    released_once(failing, async |world, app| {
        let mut body = ask(&app, get("/")).await.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "broken");
        world.settle().await;
        assert!(!world.is_held(), "released before the body is dropped");
        drop(body);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn panic_releases_and_propagates() {
    let panics = async |_: LockHandle| -> &'static str { panic!("the handler panics") };
    released_once(panics, async |_, app| {
        let caught = AssertUnwindSafe(ask(&app, get("/")));
        let panic = futures_util::FutureExt::catch_unwind(caught).await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the handler panics"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn body_panic_releases_and_propagates() {
    let panics = async || {
        let stream = stream::iter(0..3).map(|at| match at {
            0 => Ok::<_, Infallible>(Bytes::from_static(b"a")),
            _ => panic!("the body panics"),
        });
        Body::from_stream(stream)
    };
    released_once(panics, async |_, app| {
        let reading = async { ask(&app, get("/")).await.into_body().collect().await };
        let panic = futures_util::FutureExt::catch_unwind(AssertUnwindSafe(reading)).await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the body panics"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn early_release_is_not_repeated() {
    let early = async |lock: LockHandle| {
        assert!(lock.release().await.unwrap().was_held());
        chunks(3)
    };
    released_once(early, async |world, app| {
        let body = ask(&app, get("/")).await.into_body();
        assert!(!world.is_held(), "released while the body continues");
        assert_eq!(body.collect().await.unwrap().to_bytes(), "0 1 2 ");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn release_on_head_leaves_the_body_unprotected() {
    let world = World::new();
    let tasks = DetachedTasks::new();
    let layer = || world.layer().key("one").release_on(ReleaseOn::Head);
    let route = || Router::new().route("/", any(async || chunks(3)));
    for (at, app) in [route().layer(layer()), route().layer(layer().detach(&tasks))].into_iter().enumerate() {
        let body = ask(&app, get("/")).await.into_body();
        world.settle().await;
        world.assert_released(at + 1);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "0 1 2 ");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_leaves_nothing_behind() {
    let world = World::new();
    let other = world.another_process().named("one").unwrap().acquire().await.unwrap();
    for app in both(&world, async || "never") {
        let waiting = tokio::spawn(async move { ask(&app, get("/")).await });
        world.settle().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
    }
    other.release().await.unwrap();
    tokio::time::sleep(millis(10_000)).await;
    world.assert_nothing_left();
}

/// A body with one frame, known to be the last, that records whether the lock was held when it was
/// dropped.
struct Transaction {
    frame: Option<Bytes>,
    lock: LockHandle,
    dropped: Arc<Mutex<Option<bool>>>,
}

impl http_body::Body for Transaction {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frame.take().map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.frame.is_none()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        *self.dropped.lock().unwrap() = Some(self.lock.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn body_is_dropped_before_its_lock() {
    let dropped = Arc::new(Mutex::new(None));
    let writes = dropped.clone();
    let handler = async move |lock: LockHandle| {
        Body::new(Transaction { frame: Some(Bytes::from_static(b"last")), lock, dropped: writes })
    };
    released_once(handler, async |world, app| {
        let mut body = ask(&app, get("/")).await.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        world.settle().await;
        assert_eq!(dropped.lock().unwrap().take(), Some(true), "the lock was still held");
        assert!(!world.is_held(), "released before the body is dropped");
        assert!(body.frame().await.is_none());
    })
    .await;
}

/// Records the order in which the work and the lock end.
#[derive(Debug, Clone, Default)]
struct Order(Arc<Mutex<Vec<&'static str>>>);

impl LayerObserver for Order {
    fn on_event(&self, event: &LayerEvent<'_>) {
        if let LayerEvent::Ended { .. } = event {
            self.0.lock().unwrap().push("the lock");
        }
    }
}

struct Work(Order);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push("the work");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_handler_and_body_end_before_their_lock() {
    let (world, order) = (World::new(), Order::default());
    let works = order.clone();
    let handler = async move || {
        let _work = Work(works);
        std::future::pending::<()>().await;
    };
    let works = order.clone();
    let body = async move || {
        let work = Work(works);
        Body::from_stream(stream::once(async move {
            let _work = work;
            std::future::pending::<Result<Bytes, Infallible>>().await
        }))
    };
    let layer = world.layer().key("one").observer(order.clone());
    let app = Router::new().route("/handler", any(handler)).route("/body", any(body)).layer(layer);
    assert!(tokio::time::timeout(millis(10), ask(&app, get("/handler"))).await.is_err());
    assert_eq!(std::mem::take(&mut *order.0.lock().unwrap()), ["the work", "the lock"]);
    drop(ask(&app, get("/body")).await);
    assert_eq!(*order.0.lock().unwrap(), ["the work", "the lock"]);
}
