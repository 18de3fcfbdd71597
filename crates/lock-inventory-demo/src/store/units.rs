//! One row per unit, taken with `skip locked`, so buyers of a product do not wait for each other.
//! PostgreSQL only.

use super::{
    Store, StoreError, Tx,
    dialect::Dialect,
    orders::{Entry, Written, record, take_off},
};
use crate::domain::Order;

/// The rows of some units, locked by an open transaction. Dropping this rolls the transaction back.
#[derive(Debug)]
pub struct HeldUnits {
    tx: Tx,
}

impl Store {
    /// Locks as many free units as the order needs, and marks them with its key. Returns `None` if
    /// there are too few free units that are not locked by another transaction.
    ///
    /// # Errors
    /// Returns [`StoreError::NeedsPostgres`] or [`StoreError::Database`].
    ///
    /// # Cancel safety
    /// Dropping this or its result rolls the transaction back.
    pub async fn hold_units(&self, order: &Order) -> Result<Option<HeldUnits>, StoreError> {
        if self.dialect != Dialect::Postgres {
            return Err(StoreError::NeedsPostgres);
        }
        let take = async {
            let mut tx = self.begin().await?;
            let taken = sqlx::query(
                "update units set order_key = $1 where id in (select id from units where sku = $2 and order_key is \
                 null order by id limit $3 for update skip locked)",
            )
            .bind(order.key.as_str())
            .bind(order.sku.as_str())
            .bind(i64::from(order.quantity.get()))
            .execute(&mut *tx)
            .await?;
            match taken.rows_affected() == u64::from(order.quantity.get()) {
                true => Ok(Some(HeldUnits { tx })),
                false => tx.rollback().await.map(|()| None),
            }
        };
        take.await.map_err(StoreError::of::<sqlx::Error>("lock the units"))
    }
}

impl HeldUnits {
    /// Deducts the units from the counter, writes the order, and commits. The product's row is
    /// locked only during this step.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn write(self, entry: Entry<'_>) -> Result<Written, StoreError> {
        let mut tx = self.tx;
        let write = async {
            take_off(&mut tx, entry.order).await?;
            record(tx, entry).await
        };
        write.await.map_err(StoreError::of("write the order"))
    }

    /// Releases the units.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn give_back(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(StoreError::of("unlock the units"))
    }
}
