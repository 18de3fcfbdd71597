//! A table with one row that checks fencing tokens on reads and writes.

use lock_core::FencingToken;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};
use std::{path::Path, time::Duration};

/// The table. Several processes may open the same file.
#[derive(Debug, Clone)]
pub struct FencedTable {
    pool: SqlitePool,
}

impl FencedTable {
    /// Opens the table, creating it if necessary.
    ///
    /// # Errors
    /// The error of the database.
    ///
    /// # Cancel safety
    /// May leave a file without a table, which the next call completes.
    pub async fn open(path: &Path) -> Result<Self, sqlx::Error> {
        // Not in WAL mode: processes that change to it at the same time find the file locked, whatever their `busy_timeout`.
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(Duration::from_secs(10));
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        sqlx::query(
            "create table if not exists fenced (id integer primary key, fence integer, value integer)",
        )
        .execute(&pool)
        .await?;
        sqlx::query("insert or ignore into fenced values (1, 0, 0)").execute(&pool).await?;
        Ok(Self { pool })
    }

    /// Stores the token and reads the value. Returns `None` if a newer holder has read or written.
    ///
    /// # Errors
    /// The error of the database.
    ///
    /// # Cancel safety
    /// The token may or may not be stored.
    pub async fn read(&self, token: FencingToken) -> Result<Option<i64>, sqlx::Error> {
        sqlx::query_scalar("update fenced set fence = ?1 where id = 1 and fence <= ?1 returning value")
            .bind(token.as_i64())
            .fetch_optional(&self.pool)
            .await
    }

    /// Writes the value. Returns `false` if another holder has read in the meantime.
    ///
    /// # Errors
    /// The error of the database.
    ///
    /// # Cancel safety
    /// The value may or may not be written.
    pub async fn write(&self, token: FencingToken, value: i64) -> Result<bool, sqlx::Error> {
        let done = sqlx::query("update fenced set value = ?2 where id = 1 and fence = ?1")
            .bind(token.as_i64())
            .bind(value)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Reads the value without a token.
    ///
    /// # Errors
    /// The error of the database.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn value(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("select value from fenced where id = 1").fetch_one(&self.pool).await
    }
}
