//! The ledger of orders.

use super::{Store, StoreError, Tx, products::quantity};
use crate::domain::{IdempotencyKey, Order, Quantity, Receipt, Sku, Stale};
use lock_core::FencingToken;

/// An order to write.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The client's order.
    pub order: &'a Order,
    /// Shop name.
    pub shop: &'a str,
    /// Fencing token under which the order is sold; `None` without a lock.
    pub token: Option<FencingToken>,
}

/// The result of a write. Nothing is written unless it is [`Recorded`](Self::Recorded).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Stock and order are committed.
    Recorded,
    /// The ledger already contains an order with this key.
    KeyTaken,
    /// The store has seen a newer holder.
    Stale(Stale),
}

impl Store {
    /// Returns the receipt of the order with this key, if the ledger contains it.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::Invalid`].
    pub async fn receipt(&self, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        let row: Option<(String, i64, Option<i64>)> =
            sqlx::query_as("select sku, quantity, token from orders where key = $1")
                .bind(key.as_str())
                .fetch_optional(&self.pool)
                .await
                .map_err(StoreError::of("look up an order"))?;
        let Some((sku, pieces, token)) = row else { return Ok(None) };
        let sku = Sku::parse(&sku).map_err(|_| StoreError::invalid("orders.sku", sku))?;
        let token = token.map(self::token);
        Ok(Some(Receipt { key: key.clone(), sku, quantity: quantity(pieces)?, token }))
    }

    /// Writes an order whose units were already deducted in another system, and deducts the units
    /// from the counter.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn record_sale(&self, entry: Entry<'_>) -> Result<Written, StoreError> {
        let write = async {
            let mut tx = self.begin().await?;
            take_off(&mut tx, entry.order).await?;
            record(tx, entry).await
        };
        write.await.map_err(StoreError::of("write the order"))
    }
}

/// Deducts an order's units from the current value of the counter.
pub(super) async fn take_off(tx: &mut Tx, order: &Order) -> Result<(), sqlx::Error> {
    sqlx::query("update sku set stock = stock - $1, sold = sold + $1 where id = $2")
        .bind(i64::from(order.quantity.get()))
        .bind(order.sku.as_str())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Sets the counter to `left`, the stock after an order.
pub(super) async fn set_stock(tx: &mut Tx, order: &Order, left: Quantity) -> Result<(), sqlx::Error> {
    sqlx::query("update sku set stock = $1, sold = sold + $2 where id = $3")
        .bind(i64::from(left.get()))
        .bind(i64::from(order.quantity.get()))
        .bind(order.sku.as_str())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Returns the token for a stored number.
pub(super) fn token(number: i64) -> FencingToken {
    FencingToken::new(u64::try_from(number).unwrap_or_default())
}

/// Writes an order and ends the transaction. If the order cannot be written, the transaction is rolled back.
///
/// The transaction must already have written the product's row. The lock on that row keeps `seq` in
/// commit order.
pub(super) async fn record(mut tx: Tx, entry: Entry<'_>) -> Result<Written, sqlx::Error> {
    let Entry { order, shop, token } = entry;
    let recorded = sqlx::query(
        "insert into orders (key, sku, quantity, cents, shop, token) values ($1, $2, $3, $4, $5, $6) \
         on conflict (key) do nothing",
    )
    .bind(order.key.as_str())
    .bind(order.sku.as_str())
    .bind(i64::from(order.quantity.get()))
    .bind(i64::try_from(order.cents).unwrap_or(i64::MAX))
    .bind(shop)
    .bind(token.map(FencingToken::as_i64))
    .execute(&mut *tx)
    .await?;
    if recorded.rows_affected() == 0 {
        tx.rollback().await?;
        return Ok(Written::KeyTaken);
    }
    tx.commit().await?;
    Ok(Written::Recorded)
}
