//! Uploads that are read before the lock is acquired, with their limit, budget and timeout.

use crate::support::{World, ask, millis, problem, secs, text};
use axum::{
    Router,
    body::Body,
    routing::{any, put},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Request, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Limited, StreamBody};
use lock_testkit::Op;
use lock_tower::BufferRequestLayer;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tower::ServiceBuilder;

fn upload(body: Body) -> Request<Body> {
    Request::put("/").body(body).unwrap()
}

/// Creates a body with this many ten-byte chunks, one per second.
fn slow_upload(chunks: usize) -> Body {
    Body::from_stream(stream::unfold(0, move |at| async move {
        tokio::time::sleep(secs(1)).await;
        (at < chunks).then(|| (Ok::<_, std::io::Error>(Bytes::from_static(b"0123456789")), at + 1))
    }))
}

fn app(world: &World, buffer: BufferRequestLayer) -> Router {
    Router::new()
        .route("/", any(async |body: String| body.len().to_string()))
        .route_layer(ServiceBuilder::new().layer(buffer).layer(world.layer().key("one")))
}

#[tokio::test(start_paused = true)]
async fn slow_upload_does_not_hold_the_lock() {
    let world = World::new();
    let app = app(&world, BufferRequestLayer::new());
    let uploading = tokio::spawn({
        let app = app.clone();
        async move { text(ask(&app, upload(slow_upload(5))).await).await }
    });
    tokio::time::sleep(millis(4_500)).await;
    assert_eq!(world.faulty.calls(Op::Acquire), 0, "the lock is not requested");
    assert_eq!(text(ask(&app, upload(Body::from("quick"))).await).await, "5", "other requests continue");
    assert_eq!(uploading.await.unwrap(), "50");
    assert_eq!(world.faulty.calls(Op::Acquire), 2);
}

#[tokio::test(start_paused = true)]
async fn large_slow_and_broken_uploads_take_no_lock() {
    let world = World::new();
    let app = app(&world, BufferRequestLayer::new().limit(25).timeout(secs(10)));
    problem(ask(&app, upload(Body::from("x".repeat(26)))).await, StatusCode::PAYLOAD_TOO_LARGE).await;
    problem(ask(&app, upload(slow_upload(3))).await, StatusCode::PAYLOAD_TOO_LARGE).await;
    problem(ask(&app, upload(slow_upload(1000))).await, StatusCode::PAYLOAD_TOO_LARGE).await;
    let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    problem(ask(&app, upload(endless)).await, StatusCode::REQUEST_TIMEOUT).await;
    let broken = Body::from_stream(stream::iter([Err::<Bytes, _>(std::io::Error::other("broken"))]));
    problem(ask(&app, upload(broken)).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    assert_eq!(text(ask(&app, upload(Body::from("x".repeat(25)))).await).await, "25", "exactly the limit");
}

/// Like `RequestBodyLimitLayer` of tower-http, whose error is wrapped by axum's body.
#[tokio::test(start_paused = true)]
async fn outer_body_limit_is_413() {
    let app = app(&World::new(), BufferRequestLayer::new());
    let limited = Body::new(Limited::new(slow_upload(3), 25));
    let json = problem(ask(&app, upload(limited)).await, StatusCode::PAYLOAD_TOO_LARGE).await;
    assert_eq!(json["reason"], "upload_too_large");
}

#[tokio::test(start_paused = true)]
async fn waiting_uploads_share_a_byte_budget() {
    let world = World::new();
    let buffer = BufferRequestLayer::new().limit(50).budget(100);
    let lock = world.layer().key("one").wait(secs(60));
    let app = Router::new().route("/", put(reads).route_layer(lock).route_layer(buffer));
    let held = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let send = |length: usize| {
        let app = app.clone();
        tokio::spawn(async move { ask(&app, upload(Body::from("x".repeat(length)))).await })
    };
    let leaves = send(50);
    let waits = send(50);
    world.settle().await;
    let json = problem(send(1).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "buffer_full");
    assert!(json["retry_after_ms"].as_u64().unwrap() >= 1000, "{json}");
    let nothing = send(0);
    leaves.abort();
    world.settle().await;
    let takes_its_place = send(49);
    world.settle().await;
    held.release().await.unwrap();
    for (answer, length) in [(waits, "50"), (nothing, "0"), (takes_its_place, "49")] {
        assert_eq!(text(answer.await.unwrap()).await, length);
    }
    assert_eq!(text(send(50).await.unwrap()).await, "50", "the entire budget is returned");
}

#[tokio::test(start_paused = true)]
async fn budget_is_64_mib_by_default() {
    let world = World::new();
    let _held = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let app = app(&world, BufferRequestLayer::new());
    let body = Bytes::from(vec![0; 2 * 1024 * 1024]);
    let mut waiting: Vec<_> =
        (0..32).map(|_| Box::pin(ask(&app, upload(Body::from(body.clone()))))).collect();
    for request in &mut waiting {
        assert!(futures_util::poll!(request).is_pending());
    }
    let began = tokio::time::Instant::now();
    problem(ask(&app, upload(Body::from(body))).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert!(began.elapsed().is_zero(), "the rejection is immediate");
}

#[tokio::test(start_paused = true)]
async fn body_counts_until_the_handler_drops_it() {
    let keeps = async |body: Bytes| {
        std::future::pending::<()>().await;
        drop(body);
    };
    let app = Router::new().route("/", put(keeps).route_layer(BufferRequestLayer::new().budget(10)));
    let mut first = Box::pin(ask(&app, upload(Body::from("0123456789"))));
    assert!(futures_util::poll!(&mut first).is_pending());
    problem(ask(&app, upload(Body::from("0"))).await, StatusCode::SERVICE_UNAVAILABLE).await;
    problem(ask(&app, upload(Body::from("0123456789_"))).await, StatusCode::PAYLOAD_TOO_LARGE).await;
    drop(first);
    let mut second = Box::pin(ask(&app, upload(Body::from("0123456789"))));
    assert!(futures_util::poll!(&mut second).is_pending(), "the budget is available again");
}

#[tokio::test(start_paused = true)]
async fn upload_trailers_reach_the_handler() {
    let handler = async |body: Body| {
        let body = body.collect().await.unwrap();
        format!("{:?}", body.trailers().map(|trailers| trailers["x-sum"].clone()))
    };
    let app = Router::new().route("/", any(handler)).route_layer(BufferRequestLayer::new());
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    let frames = [Frame::data(Bytes::from_static(b"a")), Frame::trailers(trailers)];
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, std::io::Error>)));
    assert_eq!(text(ask(&app, upload(Body::new(body))).await).await, "Some(\"7\")");
}

async fn reads(body: String) -> String {
    body.len().to_string()
}

/// Empty frames do not count against any limit.
#[tokio::test(start_paused = true)]
async fn always_ready_upload_yields_and_times_out() {
    let app = app(&World::new(), BufferRequestLayer::new().timeout(secs(10)));
    let empty = stream::repeat_with(|| Ok::<_, std::io::Error>(Frame::data(Bytes::new())));
    let mut asking = Box::pin(ask(&app, upload(Body::new(StreamBody::new(empty.take(1_000_000))))));
    assert!(futures_util::poll!(&mut asking).is_pending(), "the upload yields");
    tokio::time::advance(secs(11)).await;
    problem(asking.await, StatusCode::REQUEST_TIMEOUT).await;
}

/// A body that announces its length and must not be read, since reading would make the client send
/// it.
struct Announced(u64);

impl http_body::Body for Announced {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        panic!("the body was polled")
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn announced_large_upload_is_not_polled() {
    let app = app(&World::new(), BufferRequestLayer::new().limit(25));
    problem(ask(&app, upload(Body::new(Announced(26)))).await, StatusCode::PAYLOAD_TOO_LARGE).await;
}
