//! Requests that the extractor rejects keep its response and take no lock.

use super::{Sku, Transfer, json, layer};
use crate::support::{World, ask, problem};
use axum::{
    Form, Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, Path, Query},
    handler::Handler,
    routing::post,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use lock_core::{LockKey, LockName, NameError, names::LockNames};
use lock_testkit::Op;
use lock_tower::{LockSetHandle, Locked};

const LIMIT: usize = 64;

/// The same handler with only the extractor, and with its lock.
fn pair<P, L, A, B>(world: &World, path: &str, plain: P, locked: L) -> [Router; 2]
where
    P: Handler<A, ()>,
    L: Handler<B, ()>,
    (A, B): 'static,
{
    let limited = |method| Router::new().route(path, method).layer(DefaultBodyLimit::max(LIMIT));
    [limited(post(plain)), limited(post(locked).layer(layer(world)))]
}

async fn same(
    world: &World,
    [plain, locked]: &[Router; 2],
    request: impl Fn() -> Request<Body>,
) -> StatusCode {
    let before = world.faulty.calls(Op::Acquire);
    let (plain, locked) = (ask(plain, request()).await, ask(locked, request()).await);
    assert_eq!((plain.status(), plain.headers()), (locked.status(), locked.headers()));
    let status = plain.status();
    let bytes = |body: Body| async { body.collect().await.unwrap().to_bytes() };
    assert_eq!(bytes(plain.into_body()).await, bytes(locked.into_body()).await);
    let taken = world.faulty.calls(Op::Acquire) - before;
    assert_eq!(taken, usize::from(status == StatusCode::OK), "{status}");
    status
}

#[tokio::test(start_paused = true)]
async fn rejections_of_json_are_unchanged() {
    let world = World::new();
    let apps = pair(&world, "/", async |_: Json<Sku>| "served", async |_: Locked<Json<Sku>>| "served");
    let status = async |body: &str| same(&world, &apps, || json("/", body.to_owned())).await;
    assert_eq!(status("{\"sku\":7}").await, StatusCode::OK);
    assert_eq!(status("{\"sku\":").await, StatusCode::BAD_REQUEST);
    assert_eq!(status("").await, StatusCode::BAD_REQUEST);
    assert_eq!(status("{}").await, StatusCode::UNPROCESSABLE_ENTITY, "a missing field");
    assert_eq!(status("{\"sku\":\"7\"}").await, StatusCode::UNPROCESSABLE_ENTITY);
    let other = || Request::post("/").header("content-type", "text/plain").body(Body::from("{}")).unwrap();
    assert_eq!(same(&world, &apps, other).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn bodies_above_the_limit_are_rejected() {
    let world = World::new();
    let apps = pair(&world, "/", async |_: Json<Sku>| "served", async |_: Locked<Json<Sku>>| "served");
    for length in [9, LIMIT - 1, LIMIT, LIMIT + 1, 10 * LIMIT] {
        let padded = format!("{:length$}", "{\"sku\":7}");
        let expected = if length > LIMIT { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::OK };
        assert_eq!(same(&world, &apps, || json("/", padded.clone())).await, expected, "{length}");
        // One-byte frames without a length, with trailers.
        let frames = || {
            let data =
                padded.clone().into_bytes().into_iter().map(|byte| Frame::data(Bytes::from(vec![byte])));
            let end =
                Frame::trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]));
            let frames: Vec<_> = data.chain([end]).map(Ok::<_, std::io::Error>).collect();
            json("/", Body::new(StreamBody::new(stream::iter(frames))))
        };
        assert_eq!(same(&world, &apps, frames).await, expected, "{length} in frames");
    }
}

#[tokio::test(start_paused = true)]
async fn rejections_of_path_query_and_form_are_unchanged() {
    let world = World::new();
    let path = pair(&world, "/{sku}", async |_: Path<Sku>| "served", async |_: Locked<Path<Sku>>| "served");
    let query = pair(&world, "/", async |_: Query<Sku>| "served", async |_: Locked<Query<Sku>>| "served");
    let form = pair(&world, "/", async |_: Form<Sku>| "served", async |_: Locked<Form<Sku>>| "served");
    let to = |uri: &'static str| move || Request::post(uri).body(Body::empty()).unwrap();
    assert_eq!(same(&world, &path, to("/+7")).await, StatusCode::OK);
    assert_eq!(same(&world, &path, to("/x")).await, StatusCode::BAD_REQUEST);
    assert_eq!(same(&world, &path, to("/%FF")).await, StatusCode::BAD_REQUEST);
    assert_eq!(same(&world, &query, to("/?sku=7")).await, StatusCode::OK);
    assert_eq!(same(&world, &query, to("/")).await, StatusCode::BAD_REQUEST);
    let body = |body: &'static str, kind: &'static str| {
        move || Request::post("/").header("content-type", kind).body(Body::from(body)).unwrap()
    };
    let kind = "application/x-www-form-urlencoded";
    assert_eq!(same(&world, &form, body("sku=7", kind)).await, StatusCode::OK);
    assert_eq!(same(&world, &form, body("sku=", kind)).await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(same(&world, &form, body("sku=7", "text/plain")).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// The extractor accepts these values, but they do not form a valid name.
#[tokio::test(start_paused = true)]
async fn values_without_a_valid_name_are_400() {
    #[derive(serde::Deserialize, LockKey)]
    #[lock_key("{kind}:{id}")]
    struct Any {
        kind: String,
        id: String,
    }

    #[derive(serde::Deserialize)]
    struct Cart {
        lines: u64,
    }

    impl LockKey for Cart {
        fn lock_names(&self) -> Result<LockNames, NameError> {
            (0..self.lines).map(|line| LockName::of(("stock", line))).collect()
        }
    }

    let world = World::new();
    let app = Router::new()
        .route("/any", post(async |_: Locked<Json<Any>>| "served"))
        .route("/cart", post(async |_: Locked<Json<Cart>, LockSetHandle>| "served"))
        .route("/transfer", post(async |_: Locked<Json<Transfer>, LockSetHandle>| "served"))
        .route_layer(layer(&world));
    let long = "x".repeat(600);
    for (path, body, detail) in [
        ("/any", r#"{"kind":"stock","id":""}"#.to_owned(), "part of the key is empty"),
        ("/any", format!(r#"{{"kind":"stock","id":"{long}"}}"#), "the key is too long"),
        ("/any", r#"{"kind":"distlock","id":"7"}"#.to_owned(), "the key begins with a reserved prefix"),
        ("/cart", r#"{"lines":0}"#.to_owned(), "the key has no names, or too many"),
        ("/cart", r#"{"lines":65}"#.to_owned(), "the key has no names, or too many"),
    ] {
        let said = problem(ask(&app, json(path, body)).await, StatusCode::BAD_REQUEST).await;
        assert_eq!((said["reason"].as_str(), said["detail"].as_str()), (Some("bad_key"), Some(detail)));
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    for (path, body) in [("/cart", r#"{"lines":64}"#), ("/transfer", r#"{"from":2,"to":2}"#)] {
        assert_eq!(ask(&app, json(path, body)).await.status(), StatusCode::OK);
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 65);
}
