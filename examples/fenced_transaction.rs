//! How do I commit work only if my lock is still mine, in my own database?
//!
//! The locks are in the application's SQLite file, and a fence ends each transaction. A holder that was suspended past its
//! lease cannot commit, and while a transaction is open, nobody is granted the lock.

use lock_core::LockFactory;
use lock_sqlx::{FenceError, SqliteBackend, fence};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};
use std::{error::Error, time::Duration};

/// Writes under a hold. An error drops the transaction, which rolls it back.
async fn sell(pool: &SqlitePool, guard: &lock_core::LockGuard) -> Result<(), FenceError> {
    let mut tx = pool.begin_with("begin immediate").await?;
    sqlx::query("update sku set stock = stock - 1").execute(&mut *tx).await?;
    fence(&mut tx, guard).await?;
    Ok(tx.commit().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let pool =
        SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file).create_if_missing(true)).await?;
    sqlx::query("create table sku (stock integer)").execute(&pool).await?;
    sqlx::query("insert into sku values (10)").execute(&pool).await?;

    let url = format!("sqlite:{}", file.display());
    let process_a = LockFactory::new(SqliteBackend::connect(&url).await?);
    let process_b = LockFactory::new(SqliteBackend::connect(&url).await?);
    let zombie = process_a.named("sku:1")?.with_fixed_lease(Duration::from_millis(200))?.acquire().await?;
    println!("A holds token {}, and is suspended", zombie.fencing_token());
    let guard = process_b.named("sku:1")?.acquire().await?; // waits until A's lease has ended
    sell(&pool, &guard).await?;
    println!("B sold under token {}", guard.fencing_token());
    match sell(&pool, &zombie).await {
        Err(FenceError::Stale) => println!("A is refused"),
        other => return Err(format!("A was not refused: {other:?}").into()),
    }
    let stock: i64 = sqlx::query_scalar("select stock from sku").fetch_one(&pool).await?;
    assert_eq!(stock, 9);
    Ok(())
}
