//! The read and the write that reject a stale holder. **Copy these two statements.**
//!
//! Both check the token. Checking it only on the write is not enough: a stale holder can still
//! write between the new holder's read and its write, as
//! [`write_fenced_only`](Store::write_fenced_only) shows.

use super::{
    Store, StoreError,
    orders::{Entry, Written, record, token},
    products::quantity,
};
use crate::domain::{Quantity, Sku, Stale};
use lock_core::FencingToken;

/// The result of a fenced read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// The stock. The store now refuses every older holder.
    Fresh(Quantity),
    /// The store has seen a newer holder.
    Stale(Stale),
}

impl Store {
    /// Reads the stock and stores the token in the same statement.
    ///
    /// The transaction is committed when this returns, so the holder can call other systems without an open
    /// transaction.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::NoProduct`].
    pub async fn fenced_read(&self, sku: &Sku, mine: FencingToken) -> Result<Read, StoreError> {
        // Fetch all rows although there is at most one, because a commit error is reported after
        // the rows.
        let rows: Vec<i64> =
            sqlx::query_scalar("update sku set fence = $1 where id = $2 and fence <= $1 returning stock")
                .bind(mine.as_i64())
                .bind(sku.as_str())
                .fetch_all(&self.pool)
                .await
                .map_err(StoreError::of("read the stock"))?;
        match rows.first() {
            Some(stock) => quantity(*stock).map(Read::Fresh),
            None => Ok(Read::Stale(Stale { mine, newer: self.fence(sku).await? })),
        }
    }

    /// Writes the order and sets the stock to `left`, in one transaction.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::NoProduct`]. After a failed commit, the
    /// order may or may not have been written, and the client must repeat the request with its key.
    pub async fn fenced_write(
        &self,
        entry: Entry<'_>,
        left: Quantity,
        mine: FencingToken,
    ) -> Result<Written, StoreError> {
        let statement =
            "update sku set stock = $1, sold = sold + $2, fence = $4 where id = $3 and fence = $4";
        self.write_unless_stale(statement, entry, left, mine).await
    }

    /// Writes like [`fenced_write`](Self::fenced_write), for a holder that did not store its token
    /// on the read. Do not copy this method, because it can oversell.
    ///
    /// # Errors
    /// Fails like [`fenced_write`](Self::fenced_write).
    pub async fn write_fenced_only(
        &self,
        entry: Entry<'_>,
        left: Quantity,
        mine: FencingToken,
    ) -> Result<Written, StoreError> {
        let statement =
            "update sku set stock = $1, sold = sold + $2, fence = $4 where id = $3 and fence <= $4";
        self.write_unless_stale(statement, entry, left, mine).await
    }

    async fn write_unless_stale(
        &self,
        statement: &'static str,
        entry: Entry<'_>,
        left: Quantity,
        mine: FencingToken,
    ) -> Result<Written, StoreError> {
        let write = async {
            let mut tx = self.begin().await?;
            let updated = sqlx::query(statement)
                .bind(i64::from(left.get()))
                .bind(i64::from(entry.order.quantity.get()))
                .bind(entry.order.sku.as_str())
                .bind(mine.as_i64())
                .execute(&mut *tx)
                .await?;
            match updated.rows_affected() {
                0 => tx.rollback().await.map(|()| None),
                _ => record(tx, entry).await.map(Some),
            }
        };
        match write.await.map_err(StoreError::of("write the order"))? {
            Some(written) => Ok(written),
            None => {
                let newer = self.fence(&entry.order.sku).await?;
                Ok(Written::Stale(Stale { mine, newer }))
            }
        }
    }

    /// Returns the product's newest token in the store.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::NoProduct`].
    pub async fn fence(&self, sku: &Sku) -> Result<FencingToken, StoreError> {
        let fence: Option<i64> = sqlx::query_scalar("select fence from sku where id = $1")
            .bind(sku.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::of("read the newest token"))?;
        fence.map(token).ok_or_else(|| StoreError::NoProduct { sku: sku.clone() })
    }
}
