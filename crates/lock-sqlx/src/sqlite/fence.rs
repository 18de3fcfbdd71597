//! The check of a hold inside a transaction of the application.

use super::SqliteBackend;
use lock_core::Hold;
use sqlx::{Connection as _, SqliteConnection};

/// The last grant. The row stays at least as long as its lease; the counter of a long hold expires before.
const LAST_GRANT: &str =
    "select first, coalesce(last, iif(lease = ?2, ?3, 0)) from distlock_lock where name = ?1";

/// The reason why a transaction must be rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The hold has ended, or a newer one was granted.
    #[error("the hold has ended, or a newer one was granted: roll back the transaction")]
    Stale,
    /// The connection is not in a transaction that sqlx began, so the fence would protect nothing.
    #[error("the connection is not in a transaction: begin one with `pool.begin_with(\"begin immediate\")`")]
    NoTransaction,
    /// The database has no locks.
    #[error("the transaction is not in the file of the locks: keep the locks and the data in one file")]
    OtherFile,
    /// The database failed.
    #[error("the hold could not be compared with the last grant: roll back the transaction")]
    Failed(#[source] sqlx::Error),
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database)
                if database.message().contains("no such table: distlock_lock") =>
            {
                Self::OtherFile
            }
            _ => Self::Failed(error),
        }
    }
}

impl SqliteBackend {
    /// Checks in a transaction that the hold is the newest one of its lock, and [pins](Hold::pin) it. If this and the
    /// commit succeed, no newer hold was granted before the commit, so no stale holder's work is committed after a
    /// newer holder's. Roll back on any error.
    ///
    /// The transaction must be in the file of the locks; in another file, SQLite does not commit both together. Begin
    /// it with `pool.begin_with("begin immediate")`, and call this at its end. It keeps all locks of the file from
    /// being granted or renewed until it ends, so it must take less than a third of the lease.
    ///
    /// ```
    /// # use lock_core::LockFactory;
    /// # use lock_sqlx::SqliteBackend;
    /// # use sqlx::{Connection, sqlite::{SqliteConnectOptions, SqlitePool}};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// let locks = LockFactory::new(SqliteBackend::connect(&format!("sqlite:{}", file.display())).await?);
    /// let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file)).await?;
    /// # sqlx::query("create table invoice (id integer, paid integer)").execute(&pool).await?;
    /// let guard = locks.named("invoice:7")?.acquire().await?;
    /// let mut tx = pool.begin_with("begin immediate").await?;
    /// sqlx::query("update invoice set paid = 1 where id = 7").execute(&mut *tx).await?;
    /// SqliteBackend::fence(&mut tx, &guard).await?; // an error rolls the transaction back
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if the hold has ended or a newer one was granted;
    /// - [`FenceError::NoTransaction`] or [`FenceError::OtherFile`] if the check would protect nothing;
    /// - [`FenceError::Failed`] if the database fails.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the transaction open. The caller must roll it back.
    pub async fn fence(connection: &mut SqliteConnection, hold: &impl AsRef<Hold>) -> Result<(), FenceError> {
        if !connection.is_in_transaction() {
            return Err(FenceError::NoTransaction);
        }
        let hold = hold.as_ref();
        let Some(stored) = hold.pinned() else { return Err(FenceError::Stale) };
        let token = hold.fencing_token().as_i64();
        let grant =
            sqlx::query_as(LAST_GRANT).bind(stored.as_str()).bind(hold.lease_id().to_string()).bind(token);
        match grant.fetch_optional(connection).await? {
            Some((first, last)) if (first..=last).contains(&token) && hold.is_held() => Ok(()),
            _ => Err(FenceError::Stale),
        }
    }
}
