//! The read and the write that refuse a holder whose time has passed.
//!
//! Both are fenced. A token that is checked on the write alone still oversells: the new holder reads, the stale
//! one writes (the store has seen no newer token yet), the new one writes what it computed from its read.

use super::{BEGIN, Store, StoreError, quantity, record};
use crate::domain::{Order, Quantity, Sku};
use lock_core::FencingToken;

/// What a fenced read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// No newer holder was here; from now on no older one can write.
    Fresh(Quantity),
    /// A newer holder was here: stop.
    Stale,
}

/// What became of a fenced write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Stock and order are committed.
    Recorded,
    /// A newer holder was here; nothing is written.
    Stale,
}

impl Store {
    /// Reads the stock, and leaves `token` at it.
    ///
    /// A transaction of its own: it is committed when this returns, and the holder goes and asks other systems
    /// without one. (In autocommit, a commit that fails after `returning` gave its row would go unseen.)
    ///
    /// # Errors
    /// [`StoreError`] when the database fails. A product that does not exist reads as stale.
    pub async fn fenced_read(&self, sku: &Sku, token: FencingToken) -> Result<Read, StoreError> {
        let stock = self.read_stock(sku, token).await.map_err(StoreError::of("read the stock"))?;
        stock.map_or(Ok(Read::Stale), |stock| quantity(sku, stock).map(Read::Fresh))
    }

    async fn read_stock(&self, sku: &Sku, token: FencingToken) -> Result<Option<i64>, sqlx::Error> {
        let mut tx = self.pool.begin_with(BEGIN).await?;
        let stock =
            sqlx::query_scalar("update sku set fence = ?1 where id = ?2 and fence <= ?1 returning stock")
                .bind(token.as_i64())
                .bind(sku.as_str())
                .fetch_optional(&mut *tx)
                .await?;
        tx.commit().await?;
        Ok(stock)
    }

    /// Writes the stock that is `left` after `order`, and the order, in one transaction.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn fenced_write(
        &self,
        order: &Order,
        left: Quantity,
        shop: &str,
        token: FencingToken,
    ) -> Result<Written, StoreError> {
        self.write_order(order, left, shop, token).await.map_err(StoreError::of("write the order"))
    }

    async fn write_order(
        &self,
        order: &Order,
        left: Quantity,
        shop: &str,
        token: FencingToken,
    ) -> Result<Written, sqlx::Error> {
        let mut tx = self.pool.begin_with(BEGIN).await?;
        let written = sqlx::query("update sku set stock = ? where id = ? and fence = ?")
            .bind(left.get())
            .bind(order.sku.as_str())
            .bind(token.as_i64())
            .execute(&mut *tx)
            .await?;
        if written.rows_affected() == 0 {
            tx.rollback().await?;
            return Ok(Written::Stale);
        }
        record(&mut tx, order, shop, Some(token.as_i64())).await?;
        tx.commit().await?;
        Ok(Written::Recorded)
    }

    /// The highest token that has touched the product.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails, or has no such product.
    pub async fn fence(&self, sku: &Sku) -> Result<i64, StoreError> {
        let fence = sqlx::query_scalar("select fence from sku where id = ?")
            .bind(sku.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::of("read the fence"))?;
        fence.ok_or_else(|| StoreError::NoProduct { sku: sku.clone() })
    }
}
