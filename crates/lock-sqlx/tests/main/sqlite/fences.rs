//! Transactions of an application that end with a fence.

use crate::{sqlite::support::LockFile, support::take_over};
use lock_core::{LockFactory, LockGuard, LockOptions, Retention};
use lock_sqlx::{FenceError, fence};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use std::{env, time::Duration};

/// The number of rounds in a long run; otherwise a twentieth of it.
const ROUNDS: u64 = 1_000;

async fn pool_without_locks(file: &LockFile) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(file.path()).create_if_missing(true);
    let options = options.busy_timeout(Duration::from_secs(30));
    SqlitePoolOptions::new().max_connections(2).connect_with(options).await.unwrap()
}

async fn pool(file: &LockFile) -> SqlitePool {
    let pool = pool_without_locks(file).await;
    sqlx::query("create table if not exists written (number integer primary key, token integer)")
        .execute(&pool)
        .await
        .unwrap();
    pool
}

/// Writes a row under the hold.
async fn write(pool: &SqlitePool, guard: &LockGuard, takes: Duration) -> Result<(), FenceError> {
    let mut tx = pool.begin_with("begin immediate").await?;
    sqlx::query("insert into written (token) values (?1)")
        .bind(guard.fencing_token().as_i64())
        .execute(&mut *tx)
        .await?;
    tokio::time::sleep(takes).await;
    fence(&mut tx, guard).await?;
    tokio::time::sleep(takes).await;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn ended_hold_is_stale() {
    let file = LockFile::new();
    let (locks, pool) = (file.locks().await, pool(&file).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    write(&pool, &guard, Duration::ZERO).await.unwrap();
    let hold = guard.hold();
    guard.release().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let error = fence(&mut tx, &hold).await.unwrap_err();
    assert!(matches!(error, FenceError::Stale), "{error:?}");
}

/// Its counter has expired.
#[tokio::test]
async fn long_hold_passes_its_fence() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let options = LockOptions::default().lease(Duration::from_secs(3));
    let options = options.retention(Retention::For(Duration::from_secs(1)));
    let guard = locks.named("x").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    file.counter_has_expired("x").await;
    write(&pool(&file).await, &guard, Duration::ZERO).await.unwrap();
    let newer = take_over(&file.locks().await, &locks.named("x").unwrap()).await;
    let stale = write(&pool(&file).await, &guard, Duration::ZERO).await;
    assert!(matches!(stale, Err(FenceError::Stale)), "{stale:?}");
    write(&pool(&file).await, &newer, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn fence_that_protects_nothing_is_refused() {
    let (file, other) = (LockFile::new(), LockFile::new());
    let locks = file.locks().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let mut connection = pool(&file).await.acquire().await.unwrap();
    let error = fence(&mut *connection, &guard).await.unwrap_err();
    assert!(matches!(error, FenceError::NoTransaction), "{error:?}");
    let elsewhere = pool_without_locks(&other).await;
    let mut tx = elsewhere.begin().await.unwrap();
    let error = fence(&mut tx, &guard).await.unwrap_err();
    assert!(matches!(error, FenceError::OtherDatabase), "{error:?}");
}

/// The holder has not noticed yet that another one was granted.
#[tokio::test]
async fn replaced_hold_is_stale_before_it_is_noticed() {
    let file = LockFile::new();
    let (locks, others, pool) = (file.locks().await, file.locks().await, pool(&file).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let newer = take_over(&others, &others.named("x").unwrap()).await;
    assert!(guard.is_held(), "its next renewal is due in 10 s");
    let error = write(&pool, &guard, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, FenceError::Stale), "{error:?}");
    write(&pool, &newer, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn prefixed_lock_is_fenced_by_its_stored_name() {
    let file = LockFile::new();
    let locks = LockFactory::builder(file.client().await).prefix("shop").build().unwrap();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    write(&pool(&file).await, &guard, Duration::ZERO).await.unwrap();
}

/// A waiter of the same process is not granted the lock while a fenced transaction is open.
#[tokio::test]
async fn fenced_hold_is_not_handed_on() {
    let file = LockFile::new();
    let (locks, pool) = (file.locks().await, pool(&file).await);
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(lock.acquire())).collect();
    while locks.inspect("x").await.unwrap().waiters < waiters.len() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut tx = pool.begin_with("begin immediate").await.unwrap();
    fence(&mut tx, &guard).await.unwrap();
    drop(guard);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "granted beside an open transaction");
    tx.commit().await.unwrap();
    for waiter in waiters {
        drop(waiter.await.unwrap().unwrap());
    }
}

/// Holders whose lock is taken from them write at the same time as the new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stale_write_follows_a_newer_one() {
    let file = LockFile::new();
    let (locks, others, pool) = (file.locks().await, file.locks().await, pool(&file).await);
    let rounds = if env::var_os("LOCK_LONG").is_some() { ROUNDS } else { ROUNDS / 20 };
    let mut stale = 0;
    for round in 0..rounds {
        let guard = take_over(&locks, &locks.named("x").unwrap()).await;
        let old = tokio::spawn({
            let pool = pool.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(round % 8)).await;
                write(&pool, &guard, Duration::from_millis(1)).await
            }
        });
        tokio::time::sleep(Duration::from_millis(3)).await;
        let newer = take_over(&others, &others.named("x").unwrap()).await;
        write(&pool, &newer, Duration::ZERO).await.unwrap();
        stale += u64::from(matches!(old.await.unwrap(), Err(FenceError::Stale)));
    }
    let tokens: Vec<i64> =
        sqlx::query_scalar("select token from written order by number").fetch_all(&pool).await.unwrap();
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert!(stale > 0 && stale < rounds, "{stale} of {rounds} old holders were refused");
}
