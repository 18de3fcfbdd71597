//! The last grant, in a transaction of the application.

use crate::fence::{FenceError, FencedTransaction, LastGrant};
use lock_core::Hold;
use sqlx::{Connection as _, Sqlite, SqliteConnection, Transaction};

/// The last grant. The row stays at least as long as its lease; the counter of a long hold expires before.
const LAST_GRANT: &str =
    "select first, coalesce(last, iif(lease = ?2, ?3, 0)) from distlock_lock where name = ?1";

impl FencedTransaction for SqliteConnection {}
impl FencedTransaction for Transaction<'_, Sqlite> {}

impl LastGrant for SqliteConnection {
    async fn last_grant(&mut self, hold: &Hold, stored: &str) -> Result<Option<(i64, i64)>, FenceError> {
        if !self.is_in_transaction() {
            return Err(FenceError::NoTransaction);
        }
        let grant = sqlx::query_as(LAST_GRANT).bind(stored).bind(hold.lease_id().to_string());
        Ok(grant.bind(hold.fencing_token().as_i64()).fetch_optional(self).await?)
    }
}

impl LastGrant for Transaction<'_, Sqlite> {
    async fn last_grant(&mut self, hold: &Hold, stored: &str) -> Result<Option<(i64, i64)>, FenceError> {
        (**self).last_grant(hold, stored).await
    }
}
