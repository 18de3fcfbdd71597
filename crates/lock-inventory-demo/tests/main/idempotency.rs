//! The records of idempotency keys in PostgreSQL, against the contract of their stores.

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
