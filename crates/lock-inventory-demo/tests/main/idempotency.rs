//! Tests of the PostgreSQL idempotency store against the store contract.

use crate::support::empty_postgres;
use lock_tower::idempotency::PostgresIdempotencyStore;
use sqlx::PgPool;

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
