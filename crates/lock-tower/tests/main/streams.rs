//! Streaming handlers behind a real HTTP connection, with hyper on both ends of a pipe and virtual
//! time.

use crate::support::{World, millis};
use axum::{Router, body::Body, routing::get};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use lock_tower::{DetachedTasks, KeyTemplate, LockLayer};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{task::JoinHandle, time::Instant};

const CHUNKS: usize = 10;

/// Streams ten chunks, one every 100 ms, and counts the chunks produced.
fn streaming(made: &Arc<AtomicUsize>) -> Router {
    streaming_of(CHUNKS, made)
}

fn streaming_of(chunks: usize, made: &Arc<AtomicUsize>) -> Router {
    let made = made.clone();
    let chunk = move |at: usize| {
        let made = made.clone();
        async move {
            tokio::time::sleep(millis(100)).await;
            made.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Bytes::from(format!("chunk {at}\n")))
        }
    };
    Router::new().route("/", get(async move || Body::from_stream(stream::iter(0..chunks).then(chunk))))
}

/// Connects a client to this application; the second value is the server's side.
async fn connect(app: Router) -> (hyper::client::conn::http1::SendRequest<Empty<Bytes>>, JoinHandle<()>) {
    let (client, server) = tokio::io::duplex(16 * 1024);
    let service = hyper_util::service::TowerToHyperService::new(app);
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
    let serving = tokio::spawn(async move { drop(serving.await) });
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    (sender, serving)
}

async fn ask(app: Router) -> (hyper::body::Incoming, hyper::client::conn::http1::SendRequest<Empty<Bytes>>) {
    let (mut sender, _) = connect(app).await;
    let request = Request::get("/").header("host", "here").body(Empty::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    (response.into_body(), sender)
}

fn layer(world: &World) -> LockLayer<KeyTemplate> {
    world.layer().key("one")
}

#[tokio::test(start_paused = true)]
async fn lock_is_free_after_the_last_chunk() {
    let (world, made) = (World::new(), Arc::default());
    let tasks = DetachedTasks::new();
    for app in [streaming(&made).layer(layer(&world)), streaming(&made).layer(layer(&world).detach(&tasks))] {
        let began = Instant::now();
        let (mut body, _connection) = ask(app).await;
        for at in 0..CHUNKS {
            world.settle().await;
            assert!(world.is_held(), "before chunk {at}");
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), format!("chunk {at}\n"));
        }
        assert!(body.frame().await.is_none());
        world.settle().await;
        assert!(!world.is_held());
        assert_eq!(began.elapsed().as_millis() / 10, 100, "ten chunks of 100 ms");
    }
}

/// Disconnects after the third chunk. Returns the time until the lock is free, and the number of
/// chunks produced.
async fn abort_at_the_third(world: &World, app: Router, made: &AtomicUsize) -> (u128, usize) {
    let (mut body, connection) = ask(app).await;
    for _ in 0..3 {
        assert!(body.frame().await.unwrap().is_ok());
    }
    drop((body, connection));
    let left = Instant::now();
    while world.is_held() {
        tokio::time::sleep(millis(1)).await;
    }
    (left.elapsed().as_millis(), made.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_frees_the_lock_within_100_ms() {
    let (world, made) = (World::new(), Arc::default());
    let app = streaming(&made).layer(layer(&world));
    let (held, made) = abort_at_the_third(&world, app, &made).await;
    println!("cancelled: free {held} ms after the client disconnected, {made} chunks produced");
    assert!(held <= 100, "{held} ms");
    assert!(made < CHUNKS, "the handler continued");
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn detached_handler_finishes_without_its_client() {
    let (world, made) = (World::new(), Arc::default());
    let tasks = DetachedTasks::new();
    let app = streaming(&made).layer(layer(&world).detach(&tasks));
    let (held, made) = abort_at_the_third(&world, app, &made).await;
    println!("detached: free {held} ms after the client disconnected, {made} chunks produced");
    assert_eq!(made, CHUNKS, "the complete body was produced");
    assert!((700..=710).contains(&held), "{held} ms");
    world.settle().await;
    assert_eq!(tasks.running(), 0);
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn lost_lock_cuts_the_connection() {
    let (world, made) = (World::new(), Arc::default());
    let tasks = DetachedTasks::new();
    // The body lasts longer than a renewal interval.
    let streaming = || streaming_of(2 * CHUNKS, &made);
    let routes = [streaming().layer(layer(&world)), streaming().layer(layer(&world).detach(&tasks))];
    for app in routes {
        let (mut body, _connection) = ask(app).await;
        for _ in 0..3 {
            assert!(body.frame().await.unwrap().is_ok());
        }
        world.another_process().force_release("one").await.unwrap();
        let began = Instant::now();
        let error = loop {
            match body.frame().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("the body ended without an error"),
            }
        };
        let cut = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
        assert_eq!(cut.unwrap().kind(), std::io::ErrorKind::UnexpectedEof, "{error:?}");
        assert!(began.elapsed() <= millis(1000), "longer than a renewal interval: {:?}", began.elapsed());
        world.settle().await;
    }
    assert_eq!(tasks.running(), 0, "the handler was stopped");
}
