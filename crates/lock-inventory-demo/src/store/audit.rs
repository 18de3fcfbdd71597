//! Reading the rows for the audit, and storing its results.

use super::{Store, StoreError};
use crate::domain::{Audit, Books, LedgerRow, RestockRow, StockRow};

impl Store {
    /// Reads the books from a consistent snapshot of all tables. Sales can continue in the
    /// meantime.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn books(&self) -> Result<Books, StoreError> {
        self.read_books().await.map_err(StoreError::of("read the books"))
    }

    async fn read_books(&self) -> Result<Books, sqlx::Error> {
        let mut tx = self.pool.begin_with(self.dialect.begin_snapshot()).await?;
        let ledger: Vec<(String, String, i64, Option<i64>)> =
            sqlx::query_as("select key, sku, quantity, token from orders order by seq")
                .fetch_all(&mut *tx)
                .await?;
        let stock: Vec<(String, i64, i64, i64)> = sqlx::query_as(
            "select id, initial, stock, coalesce((select cast(sum(quantity) as bigint) from reservations where \
             reservations.sku = sku.id and state = 'held'), 0) from sku order by id",
        )
        .fetch_all(&mut *tx)
        .await?;
        let restocks: Vec<(String, i64)> =
            sqlx::query_as("select sku, quantity from restocks").fetch_all(&mut *tx).await?;
        tx.commit().await?;
        let row = |(order, sku, quantity, token)| LedgerRow { order, sku, quantity, token };
        let counters = |(sku, initial, stock, reserved)| StockRow { sku, initial, stock, reserved };
        let restock = |(sku, quantity)| RestockRow { sku, quantity };
        Ok(Books {
            ledger: ledger.into_iter().map(row).collect(),
            stock: stock.into_iter().map(counters).collect(),
            restocks: restocks.into_iter().map(restock).collect(),
        })
    }

    /// Stores the result of an audit, once per job run.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn keep_audit(&self, run: &str, audit: &Audit) -> Result<(), StoreError> {
        sqlx::query(
            "insert into audits (run, breaches, oversold) values ($1, $2, $3) on conflict (run) do nothing",
        )
        .bind(run)
        .bind(i64::try_from(audit.breaches.len()).unwrap_or(i64::MAX))
        .bind(audit.oversold)
        .execute(&self.pool)
        .await
        .map(drop)
        .map_err(StoreError::of("store the audit result"))
    }
}
