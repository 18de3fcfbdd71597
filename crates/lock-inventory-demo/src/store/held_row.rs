//! `select … for update`, with a transaction that stays open while the holder calls other systems.

use super::{
    Store, StoreError, Tx,
    orders::{Entry, Written, record, set_stock},
    products::quantity,
};
use crate::domain::{Quantity, Sku};

/// A product's row, locked by an open transaction. Dropping this rolls the transaction back.
#[derive(Debug)]
pub struct HeldRow {
    tx: Tx,
    /// Number of units in stock.
    pub stock: Quantity,
}

impl Store {
    /// Locks a product's row and reads its stock. This occupies a connection while the row is held.
    /// On SQLite, it locks the whole database.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::NoProduct`].
    ///
    /// # Cancel safety
    /// Dropping this or its result rolls the transaction back.
    pub async fn hold_row(&self, sku: &Sku) -> Result<HeldRow, StoreError> {
        let read = async {
            let mut tx = self.begin().await?;
            let stock: Option<i64> = sqlx::query_scalar(self.dialect.select_for_update())
                .bind(sku.as_str())
                .fetch_optional(&mut *tx)
                .await?;
            Ok((tx, stock))
        };
        let (tx, stock) = read.await.map_err(StoreError::of::<sqlx::Error>("lock the stock"))?;
        let stock = stock.ok_or_else(|| StoreError::NoProduct { sku: sku.clone() })?;
        Ok(HeldRow { tx, stock: quantity(stock)? })
    }
}

impl HeldRow {
    /// Writes the order, sets the stock to `left`, and commits.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn write(self, entry: Entry<'_>, left: Quantity) -> Result<Written, StoreError> {
        let mut tx = self.tx;
        let write = async {
            set_stock(&mut tx, entry.order, left).await?;
            record(tx, entry).await
        };
        write.await.map_err(StoreError::of("write the order"))
    }

    /// Releases the row unchanged.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn give_back(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(StoreError::of("unlock the stock"))
    }
}
