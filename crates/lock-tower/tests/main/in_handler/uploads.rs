//! Uploads over raw connections. Slow clients hold no lock, and each acquire comes after the last
//! byte.

use super::{layer, order};
use crate::support::{World, ask, millis, secs};
use axum::{Router, routing::post};
use http::StatusCode;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use lock_testkit::Op;
use lock_tower::DetachedTasks;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    task::JoinHandle,
};

/// A client that writes its request manually.
struct Client {
    stream: DuplexStream,
    serving: JoinHandle<()>,
}

impl Client {
    fn connect(app: &Router) -> Self {
        let (stream, server) = tokio::io::duplex(16 * 1024);
        let service = TowerToHyperService::new(app.clone());
        let http = hyper::server::conn::http1::Builder::new();
        let serving = http.serve_connection(TokioIo::new(server), service);
        Self { stream, serving: tokio::spawn(async move { drop(serving.await) }) }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends the head of an order.
    async fn begin(&mut self, framing: &str) {
        let head =
            "POST /orders HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\nconnection: close\r\n";
        self.send(&format!("{head}{framing}\r\n\r\n")).await;
    }

    async fn answer(mut self) -> String {
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

fn app(world: &World) -> Router {
    Router::new().route("/orders", post(order).layer(layer(world)))
}

/// All uploads use one SKU. If one held its lock during the upload, no other would be served.
#[tokio::test(start_paused = true)]
async fn dripping_uploads_hold_no_lock() {
    let world = World::new();
    let app = app(&world);
    let body = "{\"sku\":7}";
    let mut clients: Vec<_> = (0..100).map(|_| Client::connect(&app)).collect();
    for client in &mut clients {
        client.begin(&format!("content-length: {}", body.len())).await;
    }
    let (dripped, last) = body.split_at(body.len() - 1);
    for byte in dripped.chars() {
        for client in &mut clients {
            client.send(&byte.to_string()).await;
        }
        tokio::time::sleep(secs(60)).await;
        assert_eq!(world.faulty.calls(Op::Acquire), 0, "no acquire during the uploads");
    }
    assert_eq!(ask(&app, super::sku(7)).await.status(), StatusCode::OK, "other requests are served");
    world.settle().await;
    for (served, mut client) in clients.into_iter().enumerate() {
        let acquires = world.faulty.calls(Op::Acquire);
        assert_eq!(acquires, 1 + served, "each acquire follows its last byte");
        client.send(last).await;
        let answer = client.answer().await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("stock:7"), "{answer}");
        assert_eq!(world.faulty.calls(Op::Acquire), acquires + 1);
        world.settle().await;
        assert!(!world.is_held());
    }
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn chunks_and_trailers_end_the_upload() {
    let world = World::new();
    let app = app(&world);
    let mut client = Client::connect(&app);
    client.begin("transfer-encoding: chunked\r\ntrailer: x-sum").await;
    for part in ["1\r\n{\r\n", "7\r\n\"sku\":7\r\n", "1\r\n}\r\n", "0\r\n", "x-sum: 7\r\n"] {
        client.send(part).await;
        tokio::time::sleep(secs(1)).await;
        assert_eq!(world.faulty.calls(Op::Acquire), 0, "acquired before the end, after {part:?}");
    }
    client.send("\r\n").await;
    let answer = client.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("stock:7"), "{answer}");
    assert_eq!(world.faulty.calls(Op::Acquire), 1);
}

#[tokio::test(start_paused = true)]
async fn disconnect_during_the_upload_takes_no_lock() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let detached = Router::new().route("/orders", post(order).layer(layer(&world).detach(&tasks)));
    for app in [app(&world), detached] {
        for framing in ["content-length: 9", "transfer-encoding: chunked"] {
            let mut client = Client::connect(&app);
            client.begin(framing).await;
            client.send(if framing.contains("chunked") { "1\r\n{\r\n" } else { "{\"sku\"" }).await;
            tokio::time::sleep(millis(100)).await;
            let Client { stream, serving } = client;
            drop(stream);
            serving.await.unwrap();
            assert_eq!(tasks.running(), 0);
        }
    }
    world.settle().await;
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    world.assert_nothing_left();
}
