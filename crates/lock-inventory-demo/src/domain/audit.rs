//! What the auditor concludes from the ledger: the counter is only a claim.

use super::{Catalogue, OrderNumber};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// One order as the ledger has it. The numbers are unchecked: an auditor trusts no row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// The order's number.
    pub order: i64,
    /// The product's code.
    pub sku: String,
    /// How many pieces were sold.
    pub quantity: i64,
    /// The fencing token of the hold that sold them; none where there was no lock.
    pub token: Option<i64>,
}

/// The stock of one product as the store has it, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockRow {
    /// The product's code.
    pub sku: String,
    /// What the counter says is left.
    pub stock: i64,
}

/// What a sale did, by its ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Pieces in stock before the sale.
    pub initial: i64,
    /// Orders in the ledger.
    pub orders: u64,
    /// Pieces sold.
    pub sold: i64,
    /// Pieces sold that did not exist.
    pub oversold: i64,
    /// Everything that does not add up.
    pub breaches: Vec<Breach>,
}

/// Something that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach {
    /// More pieces were sold than there were.
    Oversold {
        /// The product.
        sku: String,
        /// How many there were.
        initial: i64,
        /// How many were sold.
        sold: i64,
    },
    /// Initial − stock ≠ sold.
    CounterIsOff {
        /// The product.
        sku: String,
        /// How many there were.
        initial: i64,
        /// How many the counter says are left.
        stock: i64,
        /// How many were sold.
        sold: i64,
    },
    /// An order has no higher token than the one before it for the same product, so two holds overlapped.
    TokenDidNotRise {
        /// The product.
        sku: String,
        /// The order.
        order: i64,
        /// The token before.
        before: i64,
        /// The order's token.
        token: i64,
    },
    /// A buyer was told that the order is accepted, and the ledger does not have it exactly once.
    Acknowledged {
        /// The order.
        order: i64,
        /// How often the ledger has it.
        rows: usize,
    },
    /// The ledger has an order that no buyer was told of.
    NeverAcknowledged {
        /// The order.
        order: i64,
    },
    /// The catalogue and the store do not have the same products, or the ledger sells one that neither has.
    UnknownProduct {
        /// The product.
        sku: String,
    },
}

impl Audit {
    /// Audits a sale: `ledger` in the order in which it was written, `stock` of every product, and the orders
    /// that buyers were told are `accepted`.
    #[must_use]
    pub fn of(
        catalogue: &Catalogue,
        ledger: &[LedgerRow],
        stock: &[StockRow],
        accepted: &BTreeSet<OrderNumber>,
    ) -> Self {
        let mut audit = Self { orders: ledger.len() as u64, ..Self::default() };
        let mut sold = BTreeMap::<&str, i64>::new();
        let mut tokens = BTreeMap::<&str, i64>::new();
        let mut rows = BTreeMap::<i64, usize>::new();
        for row in ledger {
            *sold.entry(&row.sku).or_default() += row.quantity;
            *rows.entry(row.order).or_default() += 1;
            if let Some(token) = row.token
                && let Some(before) = tokens.insert(&row.sku, token)
                && token <= before
            {
                let (sku, order) = (row.sku.clone(), row.order);
                audit.breaches.push(Breach::TokenDidNotRise { sku, order, before, token });
            }
        }
        audit.sold = sold.values().sum();
        let mut counters: BTreeMap<&str, i64> =
            stock.iter().map(|row| (row.sku.as_str(), row.stock)).collect();
        for product in catalogue.products() {
            let sku = product.sku.as_str();
            let (initial, sold) = (i64::from(product.stock.get()), sold.remove(sku).unwrap_or(0));
            audit.initial += initial;
            match counters.remove(sku) {
                None => audit.breaches.push(Breach::UnknownProduct { sku: sku.into() }),
                Some(stock) if initial - stock != sold => {
                    audit.breaches.push(Breach::CounterIsOff { sku: sku.into(), initial, stock, sold });
                }
                Some(_) => {}
            }
            if sold > initial {
                audit.oversold += sold - initial;
                audit.breaches.push(Breach::Oversold { sku: sku.into(), initial, sold });
            }
        }
        let strangers: BTreeSet<&str> = sold.into_keys().chain(counters.into_keys()).collect();
        audit.breaches.extend(strangers.into_iter().map(|sku| Breach::UnknownProduct { sku: sku.into() }));
        audit.compare_with_answers(&mut rows, accepted);
        audit
    }

    fn compare_with_answers(&mut self, rows: &mut BTreeMap<i64, usize>, accepted: &BTreeSet<OrderNumber>) {
        for order in accepted.iter().map(|number| i64::from(number.get())) {
            match rows.remove(&order).unwrap_or(0) {
                1 => {}
                rows => self.breaches.push(Breach::Acknowledged { order, rows }),
            }
        }
        self.breaches.extend(rows.keys().map(|&order| Breach::NeverAcknowledged { order }));
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversold { sku, initial, sold } => {
                write!(f, "{sku}: {sold} pieces were sold of {initial}")
            }
            Self::CounterIsOff { sku, initial, stock, sold } => {
                write!(f, "{sku}: {initial} in the beginning and {stock} left, but {sold} were sold")
            }
            Self::TokenDidNotRise { sku, order, before, token } => {
                write!(f, "{sku}: order {order} was written with token {token} after token {before}")
            }
            Self::Acknowledged { order, rows } => {
                write!(f, "order {order} was acknowledged and has {rows} rows in the ledger")
            }
            Self::NeverAcknowledged { order } => {
                write!(f, "order {order} is in the ledger and was never acknowledged")
            }
            Self::UnknownProduct { sku } => {
                write!(f, "{sku}: the catalogue, the stock and the ledger do not have the same products")
            }
        }
    }
}
