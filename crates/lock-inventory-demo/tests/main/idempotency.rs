//! Tests of the PostgreSQL idempotency store against the store contract.

use crate::support::empty_postgres;
use axum::{Router, body::Body, http::Request, routing::post};
use lock_core::{LockFactory, MemoryBackend};
use lock_inventory_demo::fleet::PostgresServer;
use lock_tower::{
    DetachedTasks, LockLayer,
    idempotency::{IdempotencyLayer, PostgresIdempotencyStore},
};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::PgPool;
use std::{fs, time::Duration};
use tower::ServiceExt;

#[macro_use]
#[path = "../../../lock-tower/tests/main/idempotency/conformance.rs"]
mod conformance;

conformance!(postgres());

async fn postgres() -> PostgresIdempotencyStore {
    let store =
        PostgresIdempotencyStore::new(PgPool::connect(empty_postgres().await.reveal()).await.unwrap());
    store.create_table().await.unwrap();
    store.create_table().await.unwrap();
    store
}

/// An application's first servers may start concurrently.
#[tokio::test]
async fn concurrent_servers_create_the_table() {
    for _ in 0..10 {
        let pool = PgPool::connect(empty_postgres().await.reveal()).await.unwrap();
        let store = PostgresIdempotencyStore::new(pool);
        let servers = (0..8).map(|_| store.create_table());
        for created in futures_util::future::join_all(servers).await {
            created.unwrap();
        }
    }
}

/// Returns the status, whether a retry is suggested, and the body.
async fn pay(app: &Router) -> (u16, bool, String) {
    let request = Request::post("/pay").header("idempotency-key", "k").body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let head = (response.status().as_u16(), response.headers().contains_key("retry-after"));
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (head.0, head.1, String::from_utf8(body.to_vec()).unwrap())
}

/// Neither a server that hangs nor one that refuses connections is reported as a lost lock.
#[tokio::test]
async fn hanging_and_stopped_server_are_unavailable() {
    let server = PostgresServer::start().await.unwrap();
    let store = PostgresIdempotencyStore::new(PgPool::connect(&server.url()).await.unwrap());
    store.create_table().await.unwrap();
    let lock = LockLayer::new(LockFactory::new(MemoryBackend::new())).detach(&DetachedTasks::new());
    let idempotent = IdempotencyLayer::unscoped(lock, store).store_timeout(Duration::from_millis(300));
    let app = Router::new().route("/pay", post(async || "paid").route_layer(idempotent));
    assert_eq!(pay(&app).await, (200, false, "paid".into()));

    let paused = Paused::new(&server);
    let (status, retry, body) = pay(&app).await;
    assert!(status == 503 && retry && body.contains("records_unavailable"), "{status} {retry} {body}");
    drop(paused);
    assert_eq!(pay(&app).await, (200, false, "paid".into()), "a replay");

    drop(server);
    let (status, retry, body) = pay(&app).await;
    assert!(status == 503 && retry && body.contains("records_unavailable"), "{status} {retry} {body}");
}

/// All processes of a server, stopped until this is dropped.
struct Paused(Vec<Pid>);

impl Paused {
    fn new(server: &PostgresServer) -> Self {
        let url = server.url();
        let port = url.rsplit(':').next().unwrap().split('/').next().unwrap();
        let processes: Vec<_> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|process| Some((process.file_name().to_str()?.parse().ok()?, process.path())))
            .collect();
        let main = processes.iter().find(|(_, path)| {
            let line = fs::read_to_string(path.join("cmdline")).unwrap_or_default();
            line.contains("/data\0") && line.split('\0').any(|argument| argument == port)
        });
        let main: i32 = main.unwrap().0;
        // Its children have changed their command lines.
        let is_child = |path: &std::path::Path| {
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            status.lines().any(|line| line.split_whitespace().eq(["PPid:", &main.to_string()]))
        };
        let children = processes.iter().filter(|(_, path)| is_child(path)).map(|(pid, _)| *pid);
        let all = Self([main].into_iter().chain(children).filter_map(Pid::from_raw).collect());
        all.signal(Signal::STOP);
        all
    }

    fn signal(&self, signal: Signal) {
        for process in &self.0 {
            // A child may have ended.
            let _ = kill_process(*process, signal);
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}
