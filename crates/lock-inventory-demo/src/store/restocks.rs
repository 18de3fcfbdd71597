//! Restocking of products by a job.

use super::{Store, StoreError, products::quantity};
use crate::domain::{Quantity, Sku, Stale};
use lock_core::FencingToken;

/// The result of a stock change under a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The change is committed.
    Done,
    /// The change was already made or is no longer needed.
    NothingToDo,
    /// The store has seen a newer holder.
    Stale(Stale),
}

impl Store {
    /// Returns the products with fewer than `below` units, and the number of units needed to reach
    /// the initial stock.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::Invalid`].
    pub async fn running_out(&self, below: u32) -> Result<Vec<(Sku, Quantity)>, StoreError> {
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "select id, initial - stock from sku where stock < $1 and stock < initial order by id",
        )
        .bind(i64::from(below))
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::of("read the stock"))?;
        let row = |(sku, missing): (String, i64)| {
            Ok((Sku::parse(&sku).map_err(|_| StoreError::invalid("sku.id", sku))?, quantity(missing)?))
        };
        rows.into_iter().map(row).collect()
    }

    /// Adds units of a product, once per job run. The caller must hold the product's lock.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::NoProduct`].
    pub async fn restock(
        &self,
        run: &str,
        sku: &Sku,
        pieces: Quantity,
        mine: FencingToken,
    ) -> Result<Changed, StoreError> {
        let write = async {
            let mut tx = self.begin().await?;
            let added = sqlx::query(
                "update sku set stock = stock + $1, restocked = restocked + $1, fence = $2 where id = $3 and fence <= $2",
            )
            .bind(i64::from(pieces.get()))
            .bind(mine.as_i64())
            .bind(sku.as_str())
            .execute(&mut *tx)
            .await?;
            if added.rows_affected() == 0 {
                return tx.rollback().await.map(|()| None);
            }
            let new = sqlx::query(
                "insert into restocks (run, sku, quantity, token) values ($1, $2, $3, $4) on conflict do nothing",
            )
            .bind(run)
            .bind(sku.as_str())
            .bind(i64::from(pieces.get()))
            .bind(mine.as_i64())
            .execute(&mut *tx)
            .await?;
            match new.rows_affected() {
                0 => tx.rollback().await.map(|()| Some(Changed::NothingToDo)),
                _ => tx.commit().await.map(|()| Some(Changed::Done)),
            }
        };
        match write.await.map_err(StoreError::of("restock the product"))? {
            Some(changed) => Ok(changed),
            None => Ok(Changed::Stale(Stale { mine, newer: self.fence(sku).await? })),
        }
    }
}
