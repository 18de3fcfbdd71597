//! Products with their counters.

use super::{Store, StoreError};
use crate::domain::{Quantity, Sku};
use serde::Serialize;
use sqlx::FromRow;

/// A product with its counters.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct ProductRow {
    /// Product code.
    pub sku: String,
    /// Product title.
    pub title: String,
    /// Price of one unit, in cents.
    pub price_cents: i64,
    /// Number of units supplied: the initial stock and all restocks.
    #[serde(skip)]
    pub supplied: i64,
    /// Number of units in stock.
    pub stock: i64,
    /// Number of units sold.
    pub sold: i64,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "select id as sku, title, price_cents, initial + restocked as supplied, stock, sold from sku ",
            $rest
        )
    };
}

impl Store {
    /// Returns all products, sorted by code.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn products(&self) -> Result<Vec<ProductRow>, StoreError> {
        let all = sqlx::query_as(select!("order by id")).fetch_all(&self.pool).await;
        all.map_err(StoreError::of("read the products"))
    }

    /// Returns a product.
    ///
    /// # Errors
    /// Returns [`StoreError::NoProduct`] or [`StoreError::Database`].
    pub async fn product(&self, sku: &Sku) -> Result<ProductRow, StoreError> {
        let one = sqlx::query_as(select!("where id = $1")).bind(sku.as_str()).fetch_optional(&self.pool);
        let one = one.await.map_err(StoreError::of("read a product"))?;
        one.ok_or_else(|| StoreError::NoProduct { sku: sku.clone() })
    }
}

/// Validates a stored number of units.
pub(super) fn quantity(pieces: i64) -> Result<Quantity, StoreError> {
    u32::try_from(pieces).map(Quantity::new).map_err(|_| StoreError::invalid("stock", pieces))
}
