//! The rows that the auditor asks for.

use super::{Store, StoreError};
use crate::domain::{LedgerRow, StockRow};

impl Store {
    /// The ledger, in the order in which it was written.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn ledger(&self) -> Result<Vec<LedgerRow>, StoreError> {
        let rows: Vec<(i64, String, i64, Option<i64>)> =
            sqlx::query_as("select number, sku, quantity, token from orders order by seq")
                .fetch_all(&self.pool)
                .await
                .map_err(StoreError::of("read the ledger"))?;
        let row = |(order, sku, quantity, token)| LedgerRow { order, sku, quantity, token };
        Ok(rows.into_iter().map(row).collect())
    }

    /// The stock of every product.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn stock(&self) -> Result<Vec<StockRow>, StoreError> {
        let rows: Vec<(String, i64)> = sqlx::query_as("select id, stock from sku order by id")
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::of("read the stock"))?;
        Ok(rows.into_iter().map(|(sku, stock)| StockRow { sku, stock }).collect())
    }
}
