//! The check of a hold inside a transaction of the application.

use lock_core::Hold;
use sqlx::{Database, Transaction};
use std::future::Future;

/// The reason why a transaction must be rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The hold or the run has ended, or a newer one was granted.
    #[error("the hold or the run has ended, or a newer one was granted: roll back the transaction")]
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
    #[error("the hold or the run could not be checked: roll back the transaction")]
    Failed(#[source] sqlx::Error),
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> Self {
        let is_missing = error.as_database_error().is_some_and(|error| {
            let missing = error.code().is_some_and(|code| ["42P01", "42S02"].contains(&&*code));
            (missing || error.message().starts_with("no such table")) && error.message().contains("distlock_")
        });
        match is_missing {
            true => Self::OtherDatabase,
            false => Self::Failed(error),
        }
    }
}

/// A transaction, or a connection that is in one, which [`fence`] can check: of PostgreSQL (feature `postgres`), MariaDB or
/// MySQL (`mysql`), or SQLite (`sqlite`), not of sqlx's `Any`.
pub trait FencedTransaction: Send + InTransaction {}

/// Not for implementations elsewhere.
pub trait InTransaction {
    fn is_in_transaction(&self) -> bool;

    /// Returns the first and the last token of the last grant, which stays the last one until the transaction ends.
    fn last_grant(
        &mut self,
        hold: &Hold,
        stored: &str,
    ) -> impl Future<Output = sqlx::Result<Option<(i64, i64)>>> + Send;
}

#[cfg(feature = "postgres")]
impl FencedTransaction for sqlx::PgConnection {}
#[cfg(feature = "postgres")]
impl FencedTransaction for Transaction<'_, sqlx::Postgres> {}

#[cfg(feature = "postgres")]
impl InTransaction for sqlx::PgConnection {
    fn is_in_transaction(&self) -> bool {
        sqlx::Connection::is_in_transaction(self)
    }

    async fn last_grant(&mut self, _: &Hold, stored: &str) -> sqlx::Result<Option<(i64, i64)>> {
        // Only grants write this row, and the next one waits for the end of the transaction. The tokens are compared in
        // the program: under REPEATABLE READ, a row that does not match would look as one of an older snapshot.
        let grant = sqlx::query_as("select first, last from distlock_fence where name = $1 for share");
        grant.bind(stored).fetch_optional(self).await
    }
}

#[cfg(feature = "mysql")]
impl FencedTransaction for sqlx::MySqlConnection {}
#[cfg(feature = "mysql")]
impl FencedTransaction for Transaction<'_, sqlx::MySql> {}

#[cfg(feature = "mysql")]
impl InTransaction for sqlx::MySqlConnection {
    fn is_in_transaction(&self) -> bool {
        sqlx::Connection::is_in_transaction(self)
    }

    async fn last_grant(&mut self, _: &Hold, stored: &str) -> sqlx::Result<Option<(i64, i64)>> {
        // As in PostgreSQL; it reads the newest row at every isolation level. The type of a name is bytes.
        let grant = "select first, last from distlock_fence where name = ? lock in share mode";
        sqlx::query_as(grant).bind(stored.as_bytes()).fetch_optional(self).await
    }
}

#[cfg(feature = "sqlite")]
impl FencedTransaction for sqlx::SqliteConnection {}
#[cfg(feature = "sqlite")]
impl FencedTransaction for Transaction<'_, sqlx::Sqlite> {}

#[cfg(feature = "sqlite")]
impl InTransaction for sqlx::SqliteConnection {
    fn is_in_transaction(&self) -> bool {
        sqlx::Connection::is_in_transaction(self)
    }

    async fn last_grant(&mut self, hold: &Hold, stored: &str) -> sqlx::Result<Option<(i64, i64)>> {
        // The row stays at least as long as its lease; the counter of a long hold expires before.
        let grant = "select first, coalesce(last, iif(lease = ?2, ?3, 0)) from distlock_lock where name = ?1";
        let grant = sqlx::query_as(grant).bind(stored).bind(hold.lease_id().to_string());
        grant.bind(hold.fencing_token().as_i64()).fetch_optional(self).await
    }
}

impl<DB: Database<Connection: InTransaction>> InTransaction for Transaction<'_, DB> {
    fn is_in_transaction(&self) -> bool {
        InTransaction::is_in_transaction(&**self)
    }

    async fn last_grant(&mut self, hold: &Hold, stored: &str) -> sqlx::Result<Option<(i64, i64)>> {
        (**self).last_grant(hold, stored).await
    }
}

/// Checks in a transaction of the application that the hold is the newest one of its lock, and [pins](Hold::pin) it. If
/// this and the commit succeed, no newer hold was granted before the commit, so no stale holder's work is committed
/// after a newer holder's. Roll back on any error.
///
/// The transaction must be in the database of the locks. Call this at its end: until it ends, it keeps the lock from
/// being granted to others.
///
/// - **PostgreSQL**: at any isolation level. Under REPEATABLE READ and SERIALIZABLE, a transaction that began before the
///   hold was granted may fail with SQLSTATE 40001, as others do there. Renewals and the release do not wait for it. With
///   `?schema=`, the `search_path` of the transaction must contain that schema.
/// - **MariaDB, MySQL**: at any isolation level. Renewals and the release do not wait for it. A statement that creates or
///   alters a table ends the transaction unnoticed: use none in it. With `innodb_snapshot_isolation`, a REPEATABLE READ
///   transaction that began before the grant may fail with error 1020. After an error, roll back at once, since under REPEATABLE
///   READ the first grants of other names may wait.
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
    if !transaction.is_in_transaction() {
        return Err(FenceError::NoTransaction);
    }
    let token = hold.fencing_token().as_i64();
    match transaction.last_grant(hold, stored.as_str()).await? {
        Some((first, last)) if (first..=last).contains(&token) && hold.is_held() => Ok(()),
        _ => Err(FenceError::Stale),
    }
}
