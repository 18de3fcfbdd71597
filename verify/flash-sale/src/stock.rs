//! The products with the sums of their rows, for curves and for the dashboard. Correct sums, also while a wrong strategy sells.

use lock_inventory_demo::store::{Store, StoreError};
use serde::Serialize;
use sqlx::FromRow;

/// A product with the sums of its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, FromRow, Serialize)]
pub struct StockCount {
    /// The code.
    pub sku: String,
    /// The units that were ever for sale: the initial stock and all restocks.
    pub supplied: i64,
    /// The units that are left, as counted by the shop.
    pub stock: i64,
    /// The units of reservations that are held.
    pub reserved: i64,
    /// The units sold, according to the orders.
    pub sold: i64,
}

impl StockCount {
    /// Returns the units that were sold although they were not there.
    #[must_use]
    pub fn sold_twice(&self) -> u64 {
        u64::try_from(self.sold + self.reserved - self.supplied).unwrap_or(0)
    }

    /// Returns the units whose deduction from the stock was lost. Each of them is sold twice, or will be. Neither a correct
    /// sale nor a restocking changes this number.
    #[must_use]
    pub fn lost(&self) -> u64 {
        u64::try_from(self.stock.max(0) + self.sold + self.reserved - self.supplied).unwrap_or(0)
    }
}

/// Reads all products, sorted by their codes.
///
/// # Errors
/// Returns [`StoreError`] if the database fails.
///
/// # Cancel safety
/// Cancel safe: it changes nothing.
pub async fn read(store: &Store) -> Result<Vec<StockCount>, StoreError> {
    let stock = sqlx::query_as(
        "select products.sku, stock, \
         initial + cast(coalesce((select sum(quantity) from restocks where restocks.sku = products.sku), 0) as bigint) \
         as supplied, \
         cast(coalesce(held.units, 0) as bigint) as reserved, cast(coalesce(ordered.units, 0) as bigint) as sold \
         from products \
         left join (select sku, sum(quantity) as units from reservations where state = 'held' group by sku) as held \
         on held.sku = products.sku \
         left join (select sku, sum(quantity) as units from orders group by sku) as ordered \
         on ordered.sku = products.sku \
         order by products.sku",
    );
    Ok(stock.fetch_all(store.pool()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_deductions_are_not_yet_units_sold_twice() {
        let count = |stock, reserved, sold| StockCount {
            supplied: 10,
            stock,
            reserved,
            sold,
            ..StockCount::default()
        };
        let counts = |count: StockCount| (count.lost(), count.sold_twice());
        assert_eq!(counts(count(4, 1, 5)), (0, 0));
        assert_eq!(counts(count(6, 0, 9)), (5, 0), "nothing was sold twice, yet");
        assert_eq!(counts(count(2, 0, 13)), (5, 3));
        assert_eq!(counts(count(0, 0, 15)), (5, 5));
    }
}
