//! The check of a hold inside a transaction of the application.

use lock_core::Hold;
use std::future::Future;

/// The reason why a transaction must be rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The hold has ended, or a newer one was granted.
    #[error("the hold has ended, or a newer one was granted: roll back the transaction")]
    Stale,
    /// The connection is not in a transaction that sqlx began, so the fence would protect nothing.
    #[error(
        "the connection is not in a transaction: begin one with `pool.begin()`; in SQLite, with `pool.begin_with(\"begin immediate\")`"
    )]
    NoTransaction,
    /// The database has no locks.
    #[error(
        "the transaction is not in the database of the locks: keep the locks and the data in one; in PostgreSQL, with the schema of the locks in the `search_path`"
    )]
    OtherDatabase,
    /// The database failed.
    #[error("the hold could not be compared with the last grant: roll back the transaction")]
    Failed(#[source] sqlx::Error),
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> Self {
        let is_missing = |error: &str| {
            let missing = error.contains("no such table: ") || error.ends_with(" does not exist");
            missing && error.contains("distlock_")
        };
        match error.as_database_error().is_some_and(|error| is_missing(error.message())) {
            true => Self::OtherDatabase,
            false => Self::Failed(error),
        }
    }
}

/// A transaction, or a connection that is in one, which [`fence`] can check: of PostgreSQL (feature `postgres`) or
/// SQLite (feature `sqlite`).
pub trait FencedTransaction: Send + LastGrant {}

/// Not for implementations elsewhere.
pub trait LastGrant {
    /// Returns the first and the last token of the last grant, which stays the last one until the transaction ends.
    fn last_grant(
        &mut self,
        hold: &Hold,
        stored: &str,
    ) -> impl Future<Output = Result<Option<(i64, i64)>, FenceError>> + Send;
}

/// Checks in a transaction of the application that the hold is the newest one of its lock, and [pins](Hold::pin) it. If
/// this and the commit succeed, no newer hold was granted before the commit, so no stale holder's work is committed
/// after a newer holder's. Roll back on any error.
///
/// The transaction must be in the database of the locks. Call this at its end: until it ends, it keeps the lock from
/// being granted to others.
///
/// - **PostgreSQL**: at any isolation level. Under REPEATABLE READ and SERIALIZABLE, a transaction that began before the
///   hold was granted may fail with SQLSTATE 40001, as others do there. Renewals and the release do not wait for it.
/// - **SQLite**: begin it with `pool.begin_with("begin immediate")`. A transaction in another file is not committed
///   together with the locks. It keeps *all* locks of the file from being granted or renewed, so it must take less than
///   a third of the lease.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use lock_core::LockFactory;
/// # use lock_sqlx::SqliteBackend;
/// # use sqlx::{Connection, sqlite::{SqliteConnectOptions, SqlitePool}};
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("app.db");
/// let locks = LockFactory::new(SqliteBackend::connect(&format!("sqlite:{}", file.display())).await?);
/// let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file)).await?;
/// # sqlx::query("create table invoice (id integer, paid integer)").execute(&pool).await?;
/// let guard = locks.named("invoice:7")?.acquire().await?;
/// let mut tx = pool.begin_with("begin immediate").await?;
/// sqlx::query("update invoice set paid = 1 where id = 7").execute(&mut *tx).await?;
/// lock_sqlx::fence(&mut tx, &guard).await?; // an error rolls the transaction back
/// tx.commit().await?;
/// # Ok(()) }
/// # #[cfg(not(feature = "sqlite"))] fn main() {}
/// ```
///
/// # Errors
/// - [`FenceError::Stale`] if the hold has ended or a newer one was granted;
/// - [`FenceError::NoTransaction`] or [`FenceError::OtherDatabase`] if the check would protect nothing;
/// - [`FenceError::Failed`] if the database fails.
///
/// # Cancel safety
/// Dropping the future leaves the transaction open. The caller must roll it back.
pub async fn fence(
    transaction: &mut impl FencedTransaction,
    hold: &impl AsRef<Hold>,
) -> Result<(), FenceError> {
    let hold = hold.as_ref();
    let Some(stored) = hold.pinned() else { return Err(FenceError::Stale) };
    let token = hold.fencing_token().as_i64();
    match transaction.last_grant(hold, stored.as_str()).await? {
        Some((first, last)) if (first..=last).contains(&token) && hold.is_held() => Ok(()),
        _ => Err(FenceError::Stale),
    }
}
