//! The last grant, and the end of a run, in a transaction of the application.

use crate::fence::{FINISH, FenceError, FencedTransaction, InTransaction};
use lock_core::Hold;
use lock_ledger::{
    StartedRun,
    stored::{FINISHED, argument_name},
};
use sqlx::{Connection as _, Sqlite, SqliteConnection, Transaction};

/// The last grant. The row stays at least as long as its lease; the counter of a long hold expires before.
const LAST_GRANT: &str =
    "select first, coalesce(last, iif(lease = ?2, ?3, 0)) from distlock_lock where name = ?1";

impl FencedTransaction for SqliteConnection {}
impl FencedTransaction for Transaction<'_, Sqlite> {}

impl InTransaction for SqliteConnection {
    async fn last_grant(&mut self, hold: &Hold, stored: &str) -> Result<Option<(i64, i64)>, FenceError> {
        if !self.is_in_transaction() {
            return Err(FenceError::NoTransaction);
        }
        let grant = sqlx::query_as(LAST_GRANT).bind(stored).bind(hold.lease_id().to_string());
        Ok(grant.bind(hold.fencing_token().as_i64()).fetch_optional(self).await?)
    }

    async fn finish(&mut self, run: &StartedRun) -> Result<bool, FenceError> {
        if !self.is_in_transaction() {
            return Err(FenceError::NoTransaction);
        }
        let finish = sqlx::query(FINISH)
            .bind(run.job().group.as_str())
            .bind(argument_name(&run.job().name, run.run()))
            .bind(run.claim().to_string())
            .bind(FINISHED);
        Ok(finish.execute(self).await?.rows_affected() == 1)
    }
}

impl InTransaction for Transaction<'_, Sqlite> {
    async fn last_grant(&mut self, hold: &Hold, stored: &str) -> Result<Option<(i64, i64)>, FenceError> {
        (**self).last_grant(hold, stored).await
    }

    async fn finish(&mut self, run: &StartedRun) -> Result<bool, FenceError> {
        (**self).finish(run).await
    }
}
