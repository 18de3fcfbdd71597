//! Transactions of an application that end with a fence.

use super::{
    clients::{first_statement, lock, patient, through},
    support::Schema,
};
use crate::support::{fence_delays_the_next_grant_and_nothing_else, take_over};
use lock_core::{LockGuard, LockOptions};
use lock_sqlx::{FenceError, fence};
use lock_testkit::{PostgresServer, TcpProxy};
use sqlx::{PgPool, PgTransaction};
use std::{env, time::Duration};

/// The number of rounds in a long run; otherwise a twentieth of it.
const ROUNDS: u64 = 1_000;

async fn pool(schema: &Schema) -> PgPool {
    let pool = schema.pool().await;
    sqlx::query("create table written (number bigserial primary key, token bigint)")
        .execute(&pool)
        .await
        .unwrap();
    pool
}

/// Begins a transaction that writes a row under the hold.
async fn begin(
    pool: &PgPool,
    isolation: &'static str,
    guard: &LockGuard,
) -> Result<PgTransaction<'static>, FenceError> {
    let mut tx = pool.begin_with(isolation).await?;
    sqlx::query("insert into written (token) values ($1)")
        .bind(guard.fencing_token().as_i64())
        .execute(&mut *tx)
        .await?;
    Ok(tx)
}

const READ_COMMITTED: &str = "begin isolation level read committed";
const REPEATABLE_READ: &str = "begin isolation level repeatable read";

async fn write(
    pool: &PgPool,
    isolation: &'static str,
    guard: &LockGuard,
    takes: Duration,
) -> Result<(), FenceError> {
    let mut tx = begin(pool, isolation, guard).await?;
    tokio::time::sleep(takes).await;
    fence(&mut tx, guard).await?;
    tokio::time::sleep(takes).await;
    Ok(tx.commit().await?)
}

/// As users of other clients do it.
async fn write_by_hand(
    pool: &PgPool,
    isolation: &'static str,
    guard: &LockGuard,
    takes: Duration,
) -> Result<(), FenceError> {
    if !guard.pin() {
        return Err(FenceError::Stale);
    }
    let mut tx = begin(pool, isolation, guard).await?;
    tokio::time::sleep(takes).await;
    let grant = sqlx::query_as("select first, last from distlock_fence where name = $1 for share");
    let (first, last): (i64, i64) = grant.bind(guard.name().as_str()).fetch_one(&mut *tx).await?;
    if !(first..=last).contains(&guard.fencing_token().as_i64()) || !guard.is_held() {
        return Err(FenceError::Stale);
    }
    tokio::time::sleep(takes).await;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn ended_hold_is_stale() {
    let schema = Schema::new();
    let (locks, pool) = (schema.locks().await, pool(&schema).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    write(&pool, READ_COMMITTED, &guard, Duration::ZERO).await.unwrap();
    let hold = guard.hold();
    guard.release().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let error = fence(&mut tx, &hold).await.unwrap_err();
    assert!(matches!(error, FenceError::Stale), "{error:?}");
}

#[tokio::test]
async fn fence_that_protects_nothing_is_refused() {
    let (schema, other) = (Schema::new(), Schema::new());
    let locks = schema.locks().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let pool = schema.pool().await;
    let mut connection = pool.acquire().await.unwrap();
    let error = fence(&mut *connection, &guard).await.unwrap_err();
    assert!(matches!(error, FenceError::NoTransaction), "{error:?}");
    let elsewhere = other.pool().await;
    let mut tx = elsewhere.begin().await.unwrap();
    let error = fence(&mut tx, &guard).await.unwrap_err();
    assert!(matches!(error, FenceError::OtherDatabase), "{error:?}");
}

/// The holder has not noticed yet that another one was granted.
#[tokio::test]
async fn replaced_hold_is_stale_before_it_is_noticed() {
    let schema = Schema::new();
    let (locks, others, pool) = (schema.locks().await, schema.locks().await, pool(&schema).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let newer = take_over(&others, &others.named("x").unwrap()).await;
    assert!(guard.is_held(), "its next renewal is due in 10 s");
    for isolation in [READ_COMMITTED, REPEATABLE_READ] {
        let error = write(&pool, isolation, &guard, Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, FenceError::Stale), "{error:?}");
        write(&pool, isolation, &newer, Duration::ZERO).await.unwrap();
    }
}

/// The counter of a long hold expires, and its row is kept.
#[tokio::test]
async fn long_hold_passes_its_fence() {
    let schema = Schema::new();
    let (locks, pool) = (schema.locks().await, pool(&schema).await);
    let options = LockOptions::default().retention(lock_core::Retention::For(Duration::from_secs(1)));
    let guard = locks.named("x").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    // Enough releases for a sweep.
    for number in 0..64 {
        let guard = locks.named(format!("y:{number}")).unwrap().acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    write(&pool, READ_COMMITTED, &guard, Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_fence_delays_the_next_grant_and_nothing_else() {
    let schema = Schema::new();
    let (locks, others, pool) = (schema.locks().await, schema.locks().await, pool(&schema).await);
    let fenced = async |guard: &LockGuard| {
        let mut tx = begin(&pool, READ_COMMITTED, guard).await.unwrap();
        fence(&mut tx, guard).await.unwrap();
        tx
    };
    fence_delays_the_next_grant_and_nothing_else(&locks, &others, fenced).await;
}

/// A request that waits for a fence is given up, and leaves no lease behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_that_is_given_up_behind_a_fence_leaves_nothing() {
    let schema = Schema::new();
    let (locks, others, pool) = (schema.locks().await, schema.locks().await, pool(&schema).await);
    for round in 0..5 {
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        let mut tx = begin(&pool, READ_COMMITTED, &guard).await.unwrap();
        fence(&mut tx, &guard).await.unwrap();
        guard.release().await.unwrap();
        let waiting = tokio::spawn(others.named("x").unwrap().acquire());
        tokio::time::sleep(Duration::from_millis(50 + 40 * round)).await;
        waiting.abort();
        tx.commit().await.unwrap();
        let again = locks.named("x").unwrap().acquire_timeout(Duration::from_secs(10)).await.unwrap();
        again.release().await.unwrap();
    }
}

/// Holders whose lock is taken from them write at the same time as the new ones.
async fn no_stale_write_follows_a_newer_one(isolation: &'static str, by_hand: bool) {
    let schema = Schema::new();
    let (locks, others, pool) = (schema.locks().await, schema.locks().await, pool(&schema).await);
    let rounds = if env::var_os("LOCK_LONG").is_some() { ROUNDS } else { ROUNDS / 20 };
    let mut stale = 0;
    for round in 0..rounds {
        let guard = take_over(&locks, &locks.named("x").unwrap()).await;
        let old = tokio::spawn({
            let pool = pool.clone();
            async move {
                let takes = Duration::from_millis(1);
                tokio::time::sleep(Duration::from_millis(round % 12)).await;
                match by_hand {
                    true => write_by_hand(&pool, isolation, &guard, takes).await,
                    false => write(&pool, isolation, &guard, takes).await,
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(4)).await;
        let newer = take_over(&others, &others.named("x").unwrap()).await;
        write(&pool, READ_COMMITTED, &newer, Duration::ZERO).await.unwrap();
        stale += u64::from(old.await.unwrap().is_err());
    }
    // What counts is the order of the commits.
    let order = "select token from written order by pg_xact_commit_timestamp(xmin), number";
    let tokens: Vec<i64> = sqlx::query_scalar(order).fetch_all(&pool).await.unwrap();
    assert!(tokens.len() >= usize::try_from(rounds).unwrap() && tokens.is_sorted(), "{tokens:?}");
    assert!(stale > 0 && stale < rounds, "{stale} of {rounds} old holders were refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stale_write_follows_a_newer_one_at_read_committed() {
    no_stale_write_follows_a_newer_one(READ_COMMITTED, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stale_write_follows_a_newer_one_at_repeatable_read() {
    no_stale_write_follows_a_newer_one(REPEATABLE_READ, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stale_write_follows_a_newer_one_by_hand() {
    no_stale_write_follows_a_newer_one(READ_COMMITTED, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stale_write_follows_a_newer_one_by_hand_at_repeatable_read() {
    no_stale_write_follows_a_newer_one(REPEATABLE_READ, true).await;
}

/// The first attempt of an acquire arrives after the repeat that was granted, still in its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_copy_of_an_acquire_does_not_make_its_hold_stale() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let proxy = TcpProxy::start(server.address());
    let locks = through(&schema, server.address(), proxy.address()).await;
    let lock = lock(&locks, "x", patient());
    lock.acquire().await.unwrap().release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    proxy.capture(first_statement());
    let guard = lock.acquire().await.unwrap();
    assert_eq!(proxy.captured(), 1);
    tokio::task::block_in_place(|| proxy.deliver_captured());
    proxy.pass();
    let pool = schema.pool().await;
    let mut tx = pool.begin().await.unwrap();
    let checked = fence(&mut tx, &guard).await;
    let row: (i64, i64) =
        sqlx::query_as("select first, last from distlock_fence").fetch_one(&mut *tx).await.unwrap();
    assert!(
        checked.is_ok() || !guard.is_held(),
        "{checked:?}, token {} of {row:?}",
        guard.fencing_token().as_i64()
    );
}
