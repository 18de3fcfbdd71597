//! Transactions of an application that end with a fence.

use super::support::Database;
use crate::support::{fence_delays_the_next_grant_and_nothing_else, take_over};
use lock_core::{LockGuard, LockOptions, Retention};
use lock_sqlx::{FenceError, fence};
use sqlx::{Executor as _, MySqlPool, MySqlTransaction};
use std::{
    env,
    time::{Duration, Instant},
};

/// The number of rounds in a long run; otherwise a twentieth of it.
const ROUNDS: u64 = 1_000;

const ISOLATIONS: [&str; 2] = ["read committed", "repeatable read"];

async fn pool(database: &Database) -> MySqlPool {
    let pool = database.pool().await;
    pool.execute("create table written (number bigint auto_increment primary key, token bigint)")
        .await
        .unwrap();
    pool
}

/// Begins a transaction that writes a row under the hold.
async fn begin(
    pool: &MySqlPool,
    isolation: &'static str,
    guard: &LockGuard,
) -> Result<MySqlTransaction<'static>, FenceError> {
    let mut connection = pool.acquire().await?;
    connection
        .execute(sqlx::AssertSqlSafe(format!("set session transaction isolation level {isolation}")))
        .await?;
    let mut tx =
        MySqlTransaction::begin(sqlx::pool::MaybePoolConnection::PoolConnection(connection), None).await?;
    sqlx::query("insert into written (token) values (?)")
        .bind(guard.fencing_token().as_i64())
        .execute(&mut *tx)
        .await?;
    Ok(tx)
}

/// Returns a time before the commit.
async fn write(
    pool: &MySqlPool,
    isolation: &'static str,
    guard: &LockGuard,
    takes: Duration,
) -> Result<Instant, FenceError> {
    let mut tx = begin(pool, isolation, guard).await?;
    tokio::time::sleep(takes).await;
    fence(&mut tx, guard).await?;
    tokio::time::sleep(takes).await;
    let before = Instant::now();
    tx.commit().await?;
    Ok(before)
}

/// As users of other clients do it.
async fn write_by_hand(
    pool: &MySqlPool,
    isolation: &'static str,
    guard: &LockGuard,
    takes: Duration,
) -> Result<Instant, FenceError> {
    if !guard.pin() {
        return Err(FenceError::Stale);
    }
    let mut tx = begin(pool, isolation, guard).await?;
    tokio::time::sleep(takes).await;
    let grant = sqlx::query_as("select first, last from distlock_fence where name = ? lock in share mode");
    let (first, last): (i64, i64) = grant.bind(guard.name().as_str().as_bytes()).fetch_one(&mut *tx).await?;
    if !(first..=last).contains(&guard.fencing_token().as_i64()) || !guard.is_held() {
        return Err(FenceError::Stale);
    }
    tokio::time::sleep(takes).await;
    let before = Instant::now();
    tx.commit().await?;
    Ok(before)
}

#[tokio::test]
async fn fence_that_protects_nothing_is_refused() {
    let (database, other) = (Database::new(), Database::new());
    let locks = database.locks().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let pool = database.pool().await;
    let mut connection = pool.acquire().await.unwrap();
    let error = fence(&mut *connection, &guard).await.unwrap_err();
    assert!(matches!(error, FenceError::NoTransaction), "{error:?}");
    let mut tx = other.pool().await.begin().await.unwrap();
    let error = fence(&mut tx, &guard).await.unwrap_err();
    assert!(matches!(error, FenceError::OtherDatabase), "{error:?}");
}

/// The holder has not noticed yet that another one was granted.
#[tokio::test]
async fn replaced_hold_is_stale_before_it_is_noticed() {
    let database = Database::new();
    let (locks, others, pool) = (database.locks().await, database.locks().await, pool(&database).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let newer = take_over(&others, &others.named("x").unwrap()).await;
    assert!(guard.is_held(), "its next renewal is due in 10 s");
    for isolation in ISOLATIONS {
        let error = write(&pool, isolation, &guard, Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, FenceError::Stale), "{error:?}");
        write(&pool, isolation, &newer, Duration::ZERO).await.unwrap();
    }
    let hold = newer.hold();
    newer.release().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    assert!(matches!(fence(&mut tx, &hold).await.unwrap_err(), FenceError::Stale));
}

/// The counter of a long hold expires, and its row is kept; those of others are deleted.
#[tokio::test]
async fn long_hold_passes_its_fence_after_a_sweep() {
    let database = Database::new();
    let (locks, pool) = (database.locks().await, pool(&database).await);
    let options = LockOptions::default().retention(Retention::For(Duration::from_secs(1)));
    let lock = |name: String| locks.named(name).unwrap().with_options(options).unwrap();
    let guard = lock("x".to_owned()).acquire().await.unwrap();
    for number in 0..60 {
        lock(format!("y:{number}")).acquire().await.unwrap().release().await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    // Enough releases for a sweep.
    for number in 0..64 {
        lock(format!("z:{number}")).acquire().await.unwrap().release().await.unwrap();
    }
    let left = "select count(*) from distlock_lock natural join distlock_fence where name like 'y:%'";
    while sqlx::query_scalar::<_, i64>(left).fetch_one(&pool).await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    write(&pool, ISOLATIONS[0], &guard, Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_fence_delays_the_next_grant_and_nothing_else() {
    let database = Database::new();
    let (locks, others, pool) = (database.locks().await, database.locks().await, pool(&database).await);
    let fenced = async |guard: &LockGuard| {
        let mut tx = begin(&pool, ISOLATIONS[1], guard).await.unwrap();
        fence(&mut tx, guard).await.unwrap();
        tx
    };
    fence_delays_the_next_grant_and_nothing_else(&locks, &others, fenced).await;
}

/// Holders whose lock is taken from them write at the same time as the new ones. A commit that is sent after a newer holder
/// knows of its grant must not succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stale_write_is_committed_after_a_newer_grant() {
    let database = Database::new();
    let (locks, others, pool) = (database.locks().await, database.locks().await, pool(&database).await);
    let rounds = if env::var_os("LOCK_LONG").is_some() { ROUNDS } else { ROUNDS / 20 };
    for (isolation, by_hand) in
        ISOLATIONS.into_iter().flat_map(|isolation| [(isolation, false), (isolation, true)])
    {
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
            let granted = Instant::now();
            write(&pool, isolation, &newer, Duration::ZERO).await.unwrap();
            match old.await.unwrap() {
                Ok(sent) => assert!(sent < granted, "a stale write was committed at {isolation}"),
                Err(_) => stale += 1,
            }
        }
        assert!(stale > 0 && stale < rounds, "{stale} of {rounds} old holders were refused at {isolation}");
    }
}
