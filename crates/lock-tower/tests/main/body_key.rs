//! Keys derived from the head and the body by a function, without axum.

use crate::support::{Recorder, World, millis, problem, secs};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode, request::Parts};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use lock_core::{LockKey, LockName};
use lock_testkit::Op;
use lock_tower::{
    BufferRequestLayer, DetachedTasks, KeyError, LockLayer, LockStatus,
    service::{BodyKey, BufferedBody},
};
use std::convert::Infallible;
use tower::{Layer, ServiceExt, service_fn};

const LIMIT: usize = 64;

#[derive(serde::Deserialize, LockKey)]
#[lock_key("stock:{sku}")]
struct Order {
    sku: u64,
}

fn by_sku(head: &Parts, body: &Bytes) -> Result<lock_core::names::LockNames, KeyError> {
    if head.headers.get("content-type").is_none_or(|kind| kind != "application/json") {
        return Err(KeyError::bad_request("the body is not JSON"));
    }
    let order: Order =
        serde_json::from_slice(body).map_err(|_| KeyError::missing("the body has no `sku`"))?;
    Ok(order.lock_names()?)
}

fn layer(world: &World, buffer: BufferRequestLayer) -> LockLayer<BodyKey> {
    world.layer().body_key(buffer, by_sku)
}

/// Responds with the lock, the trailers and the bytes.
async fn echo(request: Request<BufferedBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let lock = request.extensions().get::<LockStatus>().and_then(LockStatus::handle).unwrap().clone();
    assert!(lock.is_held());
    let body = request.into_body().collect().await?;
    let trailers = body.trailers().map_or(0, HeaderMap::len);
    let said = format!("{} {trailers} ", lock.name());
    Ok(Response::new(Full::from([said.as_bytes(), &body.to_bytes()].concat())))
}

fn order(body: impl Into<Body>) -> Request<Body> {
    Request::post("/").header("content-type", "application/json").body(body.into()).unwrap()
}

/// Sends a request to a service behind the layer.
async fn ask(lock: LockLayer<BodyKey>, request: Request<Body>) -> axum::response::Response {
    lock.layer(service_fn(echo)).oneshot(request).await.unwrap().map(Body::new)
}

async fn bytes(response: axum::response::Response) -> Bytes {
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test(start_paused = true)]
async fn handler_receives_the_bytes_of_the_key() {
    let world = World::new();
    let lock = || layer(&world, BufferRequestLayer::new().limit(LIMIT));
    for length in [9, LIMIT - 1, LIMIT] {
        let body = format!("{:length$}", "{\"sku\":7}");
        let expected = format!("stock:7 0 {body}");
        assert_eq!(bytes(ask(lock(), order(body.clone())).await).await, expected);
        // One-byte frames without a length, with trailers.
        let data = body.clone().into_bytes().into_iter().map(|byte| Frame::data(Bytes::from(vec![byte])));
        let end = Frame::trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]));
        let frames: Vec<_> = data.chain([end]).map(Ok::<_, std::io::Error>).collect();
        let framed = order(Body::new(StreamBody::new(stream::iter(frames))));
        assert_eq!(bytes(ask(lock(), framed).await).await, format!("stock:7 1 {body}"));
    }
    world.settle().await;
    world.assert_released(6);
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_key_are_rejected() {
    let (world, recorder) = (World::new(), Recorder::default());
    let lock = || layer(&world, BufferRequestLayer::new().limit(LIMIT).timeout(secs(10)));
    let observed = lock().observer(recorder.clone());
    let json = problem(ask(observed, order("{}")).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(
        (json["reason"].as_str(), json["detail"].as_str()),
        (Some("bad_key"), Some("the body has no `sku`"))
    );
    assert_eq!(recorder.take(), ["no route: bad_key after 0 ms, Reject"]);
    let text =
        Request::post("/").header("content-type", "text/plain").body(Body::from("{\"sku\":7}")).unwrap();
    assert_eq!(
        problem(ask(lock(), text).await, StatusCode::BAD_REQUEST).await["detail"],
        "the body is not JSON"
    );

    problem(ask(lock(), order("x".repeat(LIMIT + 1))).await, StatusCode::PAYLOAD_TOO_LARGE).await;
    let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    problem(ask(lock(), order(endless)).await, StatusCode::REQUEST_TIMEOUT).await;
    let broken = Body::from_stream(stream::iter([Err::<Bytes, _>(std::io::Error::other("broken"))]));
    problem(ask(lock(), order(broken)).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(world.faulty.calls(Op::Acquire), 0);

    let reserved = world
        .layer()
        .body_key(BufferRequestLayer::new(), |_, body| Ok(LockName::of((String::from_utf8_lossy(body), 7))?));
    for (body, detail) in
        [("", "part of the key is empty"), ("distlock", "the key begins with a reserved prefix")]
    {
        let json = problem(ask(reserved.clone(), order(body)).await, StatusCode::BAD_REQUEST).await;
        assert_eq!(json["detail"], detail);
    }
}

#[tokio::test(start_paused = true)]
async fn lock_is_acquired_after_the_upload() {
    let world = World::new();
    let lock = layer(&world, BufferRequestLayer::new());
    let drips = stream::unfold("{\"sku\":7}".chars(), |mut rest| async {
        tokio::time::sleep(secs(1)).await;
        rest.next().map(|byte| (Ok::<_, Infallible>(Bytes::from(byte.to_string())), rest))
    });
    let uploading = tokio::spawn(ask(lock.clone(), order(Body::from_stream(drips))));
    tokio::time::sleep(millis(9_500)).await;
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    assert_eq!(bytes(ask(lock.clone(), order("{\"sku\":7}")).await).await, "stock:7 0 {\"sku\":7}");
    assert_eq!(bytes(uploading.await.unwrap()).await, "stock:7 0 {\"sku\":7}");
    assert_eq!(world.faulty.calls(Op::Acquire), 2);

    let leaves = tokio::time::timeout(
        secs(1),
        ask(lock, order(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()))),
    );
    assert!(leaves.await.is_err());
    world.settle().await;
    assert_eq!(world.faulty.calls(Op::Acquire), 2);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn layer_settings_apply_to_body_keys() {
    let world = World::new();
    let lock = || layer(&world, BufferRequestLayer::new());
    let held = world.another_process().named("stock:7").unwrap().acquire().await.unwrap();
    problem(ask(lock().fail_fast(), order("{\"sku\":7}")).await, StatusCode::CONFLICT).await;
    held.release().await.unwrap();

    let tasks = DetachedTasks::new();
    let slow = service_fn(async |request: Request<BufferedBody>| {
        tokio::time::sleep(secs(1)).await;
        echo(request).await
    });
    let detached = lock().detach(&tasks).layer(slow);
    assert!(tokio::time::timeout(millis(100), detached.oneshot(order("{\"sku\":7}"))).await.is_err());
    assert_eq!((tasks.running(), world.is_held()), (1, true));
    tasks.drain(secs(5)).await.unwrap();

    let none = Request::builder().method(Method::GET).uri("/").body(Body::empty()).unwrap();
    let free = lock().methods([Method::POST]).layer(service_fn(async |_: Request<BufferedBody>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("no lock")))
    }));
    assert_eq!(bytes(free.oneshot(none).await.unwrap().map(Body::new)).await, "no lock");
    assert_eq!(world.faulty.calls(Op::Acquire), 2, "one rejected and one detached request");
}
