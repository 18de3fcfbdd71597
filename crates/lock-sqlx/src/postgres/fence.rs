//! The last grant, and the end of a run, in a transaction of the application.

use crate::fence::{FINISH, FenceError, FencedTransaction, InTransaction};
use lock_core::Hold;
use lock_ledger::{
    StartedRun,
    stored::{FINISHED, argument_name},
};
use sqlx::{Connection as _, PgConnection, Postgres, Transaction};

/// The last grant. Only grants write this row, and the next one waits for the end of the transaction. The tokens are
/// compared in the program: under REPEATABLE READ, a row that does not match would look as one of an older snapshot.
const LAST_GRANT: &str = "select first, last from distlock_fence where name = $1 for share";

impl FencedTransaction for PgConnection {}
impl FencedTransaction for Transaction<'_, Postgres> {}

impl InTransaction for PgConnection {
    async fn last_grant(&mut self, _: &Hold, stored: &str) -> Result<Option<(i64, i64)>, FenceError> {
        if !self.is_in_transaction() {
            return Err(FenceError::NoTransaction);
        }
        Ok(sqlx::query_as(LAST_GRANT).bind(stored).fetch_optional(self).await?)
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

impl InTransaction for Transaction<'_, Postgres> {
    async fn last_grant(&mut self, hold: &Hold, stored: &str) -> Result<Option<(i64, i64)>, FenceError> {
        (**self).last_grant(hold, stored).await
    }

    async fn finish(&mut self, run: &StartedRun) -> Result<bool, FenceError> {
        (**self).finish(run).await
    }
}
