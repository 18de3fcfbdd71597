//! Responses that a handler stores in the transaction of its own work.

use super::{pay, stores::pool};
use crate::support::ask;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Extension, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use lock_core::{FencingToken, LockFactory, MemoryBackend};
use lock_tower::{
    DetachedTasks, LockLayer,
    idempotency::{
        Attempt, BeginRequest, Fingerprint, IdempotencyLayer, IdempotencyStore, SqliteIdempotencyStore,
        StoreError,
    },
};
use sqlx::SqlitePool;
use std::time::{Duration, SystemTime};

#[derive(Clone)]
struct Shop {
    pool: SqlitePool,
    store: SqliteIdempotencyStore,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The first attempt fails between its work and its response.
    BeforeAnswer,
    /// Another server begins an attempt while the first one is working.
    TakenOver,
}

struct Failed;

impl<E: std::error::Error> From<E> for Failed {
    fn from(_: E) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// Begins a newer attempt after the record has expired. Its own record expires immediately.
async fn take_over(store: &SqliteIdempotencyStore, attempt: &Attempt) -> Result<(), StoreError> {
    let token = FencingToken::new(attempt.fencing_token().get() + 1);
    let later = SystemTime::now() + Duration::from_secs(7 * 24 * 60 * 60);
    let request = BeginRequest {
        name: attempt.name().clone(),
        token,
        fingerprint: Fingerprint::new([0; 32]),
        now: later,
        expires_at: SystemTime::UNIX_EPOCH,
    };
    store.begin(&request).await.map(drop)
}

async fn handle(
    State(shop): State<Shop>,
    Extension(attempt): Extension<Attempt>,
) -> Result<Response, Failed> {
    let first = attempt.number() == 1;
    if first && shop.fault == Fault::TakenOver {
        take_over(&shop.store, &attempt).await?;
    }
    let mut tx = shop.pool.begin_with("begin immediate").await?;
    sqlx::query("insert into payments default values").execute(&mut *tx).await?;
    if first && shop.fault == Fault::BeforeAnswer {
        return Err(Failed);
    }
    let receipt = http::Response::builder().status(201).body(Bytes::from("paid"))?;
    SqliteIdempotencyStore::complete_in(&mut tx, &attempt, &receipt).await?;
    tx.commit().await?;
    Ok(receipt.map(Body::from))
}

/// Returns the statuses of three requests, and the number of payments.
async fn pays_three_times(fault: Fault) -> (Vec<u16>, i64) {
    let pool = pool().await;
    sqlx::query("create table payments (id integer primary key)").execute(&pool).await.unwrap();
    let store = SqliteIdempotencyStore::new(pool.clone());
    store.create_table().await.unwrap();
    let lock = LockLayer::new(LockFactory::new(MemoryBackend::new())).detach(&DetachedTasks::new());
    let layer = IdempotencyLayer::unscoped(lock, store.clone()).recorded_by_handler();
    let shop = Shop { pool: pool.clone(), store, fault };
    let app = Router::new().route("/pay", post(handle).route_layer(layer)).with_state(shop);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask(&app, pay("k", "7 EUR")).await.status().as_u16());
    }
    let payments = sqlx::query_scalar("select count(*) from payments").fetch_one(&pool).await.unwrap();
    (statuses, payments)
}

#[tokio::test]
async fn work_and_response_are_committed_together() {
    assert_eq!(pays_three_times(Fault::None).await, (vec![201, 201, 201], 1));
}

#[tokio::test]
async fn failed_transaction_leaves_the_key_for_a_retry() {
    assert_eq!(pays_three_times(Fault::BeforeAnswer).await, (vec![500, 201, 201], 1));
}

#[tokio::test]
async fn superseded_attempt_is_rolled_back() {
    // The record of the newer attempt has expired, so the first retry is attempt 1 again and is
    // also superseded.
    assert_eq!(pays_three_times(Fault::TakenOver).await, (vec![500, 500, 500], 0));
}
