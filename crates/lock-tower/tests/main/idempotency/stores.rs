//! Conformance of each store, and store-specific limits.

use lock_core::{FencingToken, LockName};
use lock_tower::idempotency::{
    BeginRequest, Begun, Fingerprint, IdempotencyStore, MemoryIdempotencyStore, StoreError,
};
use std::time::{Duration, SystemTime};

mod memory {
    use super::super::conformance;
    conformance!(async { lock_tower::idempotency::MemoryIdempotencyStore::new() });
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::super::conformance;
    conformance!(crate::idempotency::stores::sqlite());
}

#[cfg(all(feature = "sqlite", feature = "sqlx-any"))]
mod any {
    use super::super::conformance;
    conformance!(crate::idempotency::stores::any());
}

/// Returns an empty store.
#[cfg(feature = "sqlite")]
async fn sqlite() -> lock_tower::idempotency::SqliteIdempotencyStore {
    let store = lock_tower::idempotency::SqliteIdempotencyStore::new(pool().await);
    store.create_table().await.unwrap();
    store.create_table().await.unwrap();
    store
}

/// Returns an empty store over sqlx's `Any`.
#[cfg(all(feature = "sqlite", feature = "sqlx-any"))]
async fn any() -> lock_tower::idempotency::AnyIdempotencyStore {
    sqlx::any::install_default_drivers();
    let pool = sqlx::any::AnyPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    let store = lock_tower::idempotency::AnyIdempotencyStore::new(pool);
    store.create_table().await.unwrap();
    store.create_table().await.unwrap();
    store
}

/// Returns an in-memory database, which lives as long as its only connection.
#[cfg(feature = "sqlite")]
pub(super) async fn pool() -> sqlx::SqlitePool {
    let pool =
        sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    pool.connect("sqlite::memory:").await.unwrap()
}

fn named(name: &'static str, now: SystemTime) -> BeginRequest {
    BeginRequest {
        name: LockName::from_static(name),
        token: FencingToken::new(1),
        fingerprint: Fingerprint::new([0; 32]),
        now,
        expires_at: now + Duration::from_secs(60),
    }
}

#[tokio::test]
async fn full_memory_removes_only_expired_keys() {
    let (store, now) = (MemoryIdempotencyStore::new().capacity(2), SystemTime::now());
    for name in ["a", "b"] {
        assert!(matches!(store.begin(&named(name, now)).await, Ok(Begun::Started { .. })));
    }
    assert!(matches!(store.begin(&named("c", now)).await, Err(StoreError::Full)));
    let retry = BeginRequest { token: FencingToken::new(2), ..named("a", now) };
    assert!(matches!(store.begin(&retry).await, Ok(Begun::Started { number: 2 })), "known keys are accepted");
    let later = now + Duration::from_secs(60);
    assert!(matches!(store.begin(&named("c", later)).await, Ok(Begun::Started { number: 1 })));
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn purge_removes_only_expired_records() {
    let (store, now) = (sqlite().await, SystemTime::now());
    store.begin(&named("a", now)).await.unwrap();
    store.begin(&named("b", now + Duration::from_secs(30))).await.unwrap();
    assert_eq!(store.purge(now + Duration::from_secs(59)).await.unwrap(), 0);
    assert_eq!(store.purge(now + Duration::from_secs(61)).await.unwrap(), 1);
    let retry = BeginRequest { token: FencingToken::new(2), ..named("b", now + Duration::from_secs(61)) };
    assert!(matches!(store.begin(&retry).await, Ok(Begun::Started { number: 2 })));
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn only_the_newest_attempt_without_a_response_passes_the_check() {
    use super::conformance::{attempt, request};
    use lock_tower::idempotency::SqliteIdempotencyStore as Records;

    let pool = pool().await;
    let store = Records::new(pool.clone());
    store.create_table().await.unwrap();
    let check = async |token| Records::check_in(&mut pool.acquire().await.unwrap(), &attempt(token)).await;
    assert!(matches!(check(1).await, Err(StoreError::Superseded)), "no record");
    store.begin(&request(1)).await.unwrap();
    assert!(check(1).await.is_ok());
    store.begin(&request(2)).await.unwrap();
    assert!(matches!(check(1).await, Err(StoreError::Superseded)), "a newer attempt");
    assert!(check(2).await.is_ok());
    store.complete(&attempt(2), &http::Response::new(bytes::Bytes::new())).await.unwrap();
    assert!(matches!(check(2).await, Err(StoreError::Superseded)), "a response");
}
