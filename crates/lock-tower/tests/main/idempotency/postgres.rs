//! The stores on PostgreSQL: conformance, concurrent servers, and a database that hangs or is gone.

use super::answer;
use axum::{Router, routing::post};
use lock_core::{LockFactory, MemoryBackend};
use lock_testkit::{Direction, PostgresServer, TcpProxy};
use lock_tower::{
    DetachedTasks, LockLayer,
    idempotency::{AnyIdempotencyStore, IdempotencyLayer, PostgresIdempotencyStore},
};
use sqlx::{AnyPool, PgPool};
use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

mod native {
    use super::super::conformance;
    conformance!(super::native());
}

mod any {
    use super::super::conformance;
    conformance!(super::any());
}

/// Returns the URL of an empty database, on one server for all tests.
fn empty_database() -> String {
    static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    SERVER.database(&format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed)))
}

async fn native() -> PostgresIdempotencyStore {
    let store = PostgresIdempotencyStore::new(PgPool::connect(&empty_database()).await.unwrap());
    store.create_table().await.unwrap();
    store.create_table().await.unwrap();
    store
}

async fn any() -> AnyIdempotencyStore {
    sqlx::any::install_default_drivers();
    let store = AnyIdempotencyStore::new(AnyPool::connect(&empty_database()).await.unwrap());
    store.create_table().await.unwrap();
    store.create_table().await.unwrap();
    store
}

/// An application's first servers may start concurrently.
#[tokio::test]
async fn concurrent_servers_create_the_table() {
    for _ in 0..10 {
        let store = PostgresIdempotencyStore::new(PgPool::connect(&empty_database()).await.unwrap());
        let servers = (0..8).map(|_| store.create_table());
        for created in futures_util::future::join_all(servers).await {
            created.unwrap();
        }
    }
}

/// Neither a server that hangs nor one that refuses connections is reported as a lost lock.
#[tokio::test]
async fn hanging_and_stopped_server_are_unavailable() {
    let server = PostgresServer::start();
    let proxy = TcpProxy::start(server.address());
    let url = server.url().replace(&server.address().to_string(), &proxy.address().to_string());
    let store = PostgresIdempotencyStore::new(PgPool::connect(&url).await.unwrap());
    store.create_table().await.unwrap();
    let lock = LockLayer::new(LockFactory::new(MemoryBackend::new())).detach(&DetachedTasks::new());
    let idempotent = IdempotencyLayer::unscoped(lock, store).store_timeout(Duration::from_millis(300));
    let app = Router::new().route("/pay", post(async || "paid").route_layer(idempotent));
    let pay = async || answer(&app, super::pay("k", "")).await;
    let unavailable = async || {
        let (status, _, body) = pay().await;
        assert!(status == 503 && body.contains("records_unavailable"), "{status} {body}");
    };
    assert_eq!(pay().await, (200, false, "paid".into()));

    proxy.stall(Direction::ToClient);
    unavailable().await;
    proxy.pass();
    assert_eq!(pay().await, (200, true, "paid".into()));

    server.stop();
    unavailable().await;
    server.restart();
    assert_eq!(pay().await, (200, true, "paid".into()), "the record was committed");
}
