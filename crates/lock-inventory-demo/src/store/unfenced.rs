//! The read and the write without a token check. Do not copy these.

use super::{
    Store, StoreError,
    orders::{Entry, Written, record, set_stock},
    products::quantity,
};
use crate::domain::{Quantity, Sku};

impl Store {
    /// Reads a product's stock.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] if the query fails, [`StoreError::NoProduct`] if the product does not exist, or
    /// [`StoreError::Invalid`] if the stored stock is not a valid quantity.
    pub async fn read(&self, sku: &Sku) -> Result<Quantity, StoreError> {
        let stock: Option<i64> = sqlx::query_scalar("select stock from sku where id = $1")
            .bind(sku.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::of("read the stock"))?;
        quantity(stock.ok_or_else(|| StoreError::NoProduct { sku: sku.clone() })?)
    }

    /// Writes the order and sets the stock to `left`, in one transaction. Overwrites every change
    /// since the read.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn write(&self, entry: Entry<'_>, left: Quantity) -> Result<Written, StoreError> {
        let write = async {
            let mut tx = self.begin().await?;
            set_stock(&mut tx, entry.order, left).await?;
            record(tx, entry).await
        };
        write.await.map_err(StoreError::of("write the order"))
    }
}
