//! The same read and write without a fence, for the shop that takes no lock. Do not copy.

use super::{BEGIN, Store, StoreError, quantity, record};
use crate::domain::{Order, Quantity, Sku};

impl Store {
    /// Reads the stock.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails, or has no such product.
    pub async fn read(&self, sku: &Sku) -> Result<Quantity, StoreError> {
        let stock = sqlx::query_scalar("select stock from sku where id = ?")
            .bind(sku.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::of("read the stock"))?;
        quantity(sku, stock.ok_or_else(|| StoreError::NoProduct { sku: sku.clone() })?)
    }

    /// Writes the stock that is `left` after `order`, and the order, in one transaction: whatever happened to
    /// the stock since it was read is overwritten.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn write(&self, order: &Order, left: Quantity, shop: &str) -> Result<(), StoreError> {
        self.overwrite(order, left, shop).await.map_err(StoreError::of("write the order"))
    }

    async fn overwrite(&self, order: &Order, left: Quantity, shop: &str) -> Result<(), sqlx::Error> {
        let mut tx = self.pool.begin_with(BEGIN).await?;
        sqlx::query("update sku set stock = ? where id = ?")
            .bind(left.get())
            .bind(order.sku.as_str())
            .execute(&mut *tx)
            .await?;
        record(&mut tx, order, shop, None).await?;
        tx.commit().await
    }
}
