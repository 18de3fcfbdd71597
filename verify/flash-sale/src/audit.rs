//! The audit of a sale and the comparison of its orders with the answers that clients received; also the sums of its rows, which
//! are correct while a wrong strategy sells.

use crate::{
    addresses::Databases,
    load::{CUSTOMER, Entry, Outcome},
};
use lock_inventory_demo::{
    audit::{Audit, AuditError, Books},
    database::DatabaseError,
    payments::Provider,
    store::{Store, StoreError},
};
use serde::Serialize;
use sqlx::FromRow;
use std::{collections::BTreeSet, fmt, time::Duration};

/// The audit of a sale.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SaleAudit {
    /// The audit of the rows.
    pub rows: Audit,
    /// The orders about which clients were told something else.
    pub lies: Vec<Lie>,
}

/// An order about which its client was told something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lie {
    /// The shop acknowledged an order that was not written.
    Missing {
        /// The name of the order.
        order: String,
    },
    /// An order was written that the shop refused, or that no client placed.
    NotAcknowledged {
        /// The name of the order.
        order: String,
    },
}

impl SaleAudit {
    /// Audits the books. If the entries of all clients are given, also compares the orders with them.
    #[must_use]
    pub fn of(books: &Books, clients: Option<&[Entry]>) -> Self {
        let lies = clients.map(|clients| lies(books, clients)).unwrap_or_default();
        Self { rows: Audit::of(books), lies }
    }

    /// Returns a line for each finding.
    pub fn findings(&self) -> impl Iterator<Item = String> {
        let rows = self.rows.breaches.iter().map(ToString::to_string);
        rows.chain(self.lies.iter().map(ToString::to_string))
    }
}

fn lies(books: &Books, clients: &[Entry]) -> Vec<Lie> {
    let orders: BTreeSet<&str> = books.orders.iter().map(|order| order.key.as_str()).collect();
    let mut unclaimed = orders.clone();
    let mut lies = Vec::new();
    for entry in clients {
        let order = format!("{CUSTOMER}/{}", entry.key);
        unclaimed.remove(order.as_str());
        match (&entry.outcome, orders.contains(order.as_str())) {
            (Outcome::Acknowledged { .. }, false) => lies.push(Lie::Missing { order }),
            (Outcome::Refused { .. }, true) => lies.push(Lie::NotAcknowledged { order }),
            _ => {}
        }
    }
    lies.extend(unclaimed.into_iter().map(|order| Lie::NotAcknowledged { order: order.into() }));
    lies
}

/// Reads both databases and audits them.
///
/// # Errors
/// Returns [`ReadError`] if a database cannot be read.
///
/// # Cancel safety
/// Dropping this closes the connections.
pub async fn of_databases(databases: &Databases, clients: Option<&[Entry]>) -> Result<SaleAudit, ReadError> {
    let store = Store::open(databases.shop.reveal()).await?;
    let provider = Provider::open(databases.payments.reveal(), Duration::ZERO).await?;
    let books = Books::read(&store, &provider).await;
    store.database().close().await;
    provider.database().close().await;
    Ok(SaleAudit::of(&books?, clients))
}

/// The error of an audit that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The shops' database could not be opened.
    #[error("could not open the shops' database")]
    Shop(#[from] StoreError),
    /// The provider's database could not be opened.
    #[error("could not open the payment provider's database")]
    Payments(#[from] DatabaseError),
    /// The books could not be read.
    #[error(transparent)]
    Books(#[from] AuditError),
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { order } => write!(f, "order {order} was acknowledged, but not written"),
            Self::NotAcknowledged { order } => {
                write!(f, "order {order} was written, but refused or never placed")
            }
        }
    }
}

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

/// Reads all products with the sums of their rows, sorted by their codes.
///
/// # Errors
/// Returns [`StoreError`] if the database fails.
///
/// # Cancel safety
/// Cancel safe: it changes nothing.
pub async fn stock_counts(store: &Store) -> Result<Vec<StockCount>, StoreError> {
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
    use lock_inventory_demo::domain::{Cents, Order, OrderKey, Quantity};

    fn lies_of(written: &[&str], told: &[(&str, Outcome)]) -> Vec<Lie> {
        let order = |(number, key): (i64, &&str)| Order {
            key: OrderKey::new(&CUSTOMER.parse().unwrap(), key).unwrap(),
            sku: "A-1".parse().unwrap(),
            quantity: Quantity::try_from(1).unwrap(),
            cents: Cents::new(250),
            number,
            token: None,
        };
        let entry = |(key, outcome): &(&str, Outcome)| Entry {
            key: (*key).into(),
            sku: "A-1".into(),
            quantity: 1,
            outcome: outcome.clone(),
            server: None,
            start_us: 0,
            latency_us: 1,
            attempts: 1,
        };
        let books = Books { orders: (1..).zip(written).map(order).collect(), ..Books::default() };
        lies(&books, &told.iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn answers_and_orders_agree_unless_the_outcome_was_unknown() {
        let yes = || Outcome::Acknowledged { token: None };
        let no = || Outcome::Refused { reason: Outcome::SOLD_OUT.into() };
        let unknown = || Outcome::unknown("timeout");
        assert_eq!(
            lies_of(&["a", "b"], &[("a", yes()), ("b", unknown()), ("c", unknown()), ("d", no())]),
            []
        );
        assert_eq!(lies_of(&[], &[("a", yes())]), [Lie::Missing { order: "load/a".into() }]);
        let written = || Lie::NotAcknowledged { order: "load/a".into() };
        assert_eq!(lies_of(&["a"], &[("a", no())]), [written()]);
        assert_eq!(lies_of(&["a"], &[]), [written()], "no client placed it");
    }

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
