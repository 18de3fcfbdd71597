//! The audit rules. The audit trusts the order and restock rows, and checks the counters against
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The data that the audit reads from the store. Values are not validated, because the audit must
/// also find invalid ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Books {
    /// Orders, in write order.
    pub ledger: Vec<LedgerRow>,
    /// Counters of every product.
    pub stock: Vec<StockRow>,
    /// Restocks.
    pub restocks: Vec<RestockRow>,
}

/// An order in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// The order's idempotency key.
    pub order: String,
    /// The product's code.
    pub sku: String,
    /// The number of units.
    pub quantity: i64,
    /// The fencing token of the hold under which the units were sold, if there was one.
    pub token: Option<i64>,
}

/// The counters of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockRow {
    /// The product's code.
    pub sku: String,
    /// The units before the first sale.
    pub initial: i64,
    /// The units left in stock, according to the counter.
    pub stock: i64,
    /// Units in open reservations.
    pub reserved: i64,
}

/// Units added by the restock job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestockRow {
    /// The product's code.
    pub sku: String,
    /// The number of units.
    pub quantity: i64,
}

/// The outcome of an order from the client's point of view, after all its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientOutcome {
    /// The shop accepted the order.
    Acknowledged,
    /// The shop refused the order and confirmed that nothing was sold.
    Refused,
    /// The client received no response, or one that does not show the outcome.
    Unknown,
}

/// The result of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Number of units supplied: the initial stock and all restocks.
    pub supplied: i64,
    /// Number of orders in the ledger.
    pub orders: u64,
    /// Number of units sold.
    pub sold: i64,
    /// Number of units sold that did not exist.
    pub oversold: i64,
    /// Inconsistencies.
    pub breaches: Vec<Breach>,
}

/// An inconsistency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach {
    /// More units were sold than were supplied.
    Oversold {
        /// The product.
        sku: String,
        /// The units supplied.
        supplied: i64,
        /// The units sold.
        sold: i64,
    },
    /// Supplied − stock − reserved ≠ sold.
    CounterIsOff {
        /// The product.
        sku: String,
        /// The units supplied.
        supplied: i64,
        /// The units left, according to the counter.
        stock: i64,
        /// The units in open reservations.
        reserved: i64,
        /// The units sold.
        sold: i64,
    },
    /// An order's token is not higher than that of the previous order for the same product, so two
    /// holds overlapped.
    TokenDidNotRise {
        /// The product.
        sku: String,
        /// The order.
        order: String,
        /// The previous order's token.
        before: i64,
        /// The order's token.
        token: i64,
    },
    /// Several orders have the same idempotency key.
    Duplicate {
        /// The order.
        order: String,
        /// The number of rows.
        rows: usize,
    },
    /// The shop acknowledged the order, but the ledger does not contain it.
    Missing {
        /// The order.
        order: String,
    },
    /// The ledger contains an order that the shop refused, or that no client placed.
    NotAcknowledged {
        /// The order.
        order: String,
    },
    /// An order or a restock refers to an unknown product.
    UnknownProduct {
        /// The product.
        sku: String,
    },
}

impl Audit {
    /// Audits the books. If all client outcomes are given by key, also compares the books with
    /// them.
    #[must_use]
    pub fn of(books: &Books, outcomes: Option<&BTreeMap<String, ClientOutcome>>) -> Self {
        let mut audit = Self { orders: books.ledger.len() as u64, ..Self::default() };
        let mut sold = sums(books.ledger.iter().map(|row| (&*row.sku, row.quantity)));
        let mut restocked = sums(books.restocks.iter().map(|row| (&*row.sku, row.quantity)));
        audit.sold = sold.values().sum();
        for StockRow { sku, initial, stock, reserved } in &books.stock {
            let (stock, reserved) = (*stock, *reserved);
            let supplied = initial + restocked.remove(&**sku).unwrap_or(0);
            let sold = sold.remove(&**sku).unwrap_or(0);
            audit.supplied += supplied;
            if supplied - stock - reserved != sold {
                let sku = sku.clone();
                audit.breaches.push(Breach::CounterIsOff { sku, supplied, stock, reserved, sold });
            }
            if sold > supplied {
                audit.oversold += sold - supplied;
                audit.breaches.push(Breach::Oversold { sku: sku.clone(), supplied, sold });
            }
        }
        let strangers: BTreeSet<&str> = sold.into_keys().chain(restocked.into_keys()).collect();
        audit.breaches.extend(strangers.into_iter().map(|sku| Breach::UnknownProduct { sku: sku.into() }));
        audit.check_tokens(&books.ledger);
        audit.check_keys(&books.ledger, outcomes);
        audit
    }

    fn check_tokens(&mut self, ledger: &[LedgerRow]) {
        let mut tokens = BTreeMap::<&str, i64>::new();
        for row in ledger {
            if let Some(token) = row.token
                && let Some(before) = tokens.insert(&row.sku, token)
                && token <= before
            {
                let (sku, order) = (row.sku.clone(), row.order.clone());
                self.breaches.push(Breach::TokenDidNotRise { sku, order, before, token });
            }
        }
    }

    fn check_keys(&mut self, ledger: &[LedgerRow], outcomes: Option<&BTreeMap<String, ClientOutcome>>) {
        let mut rows = BTreeMap::<&str, usize>::new();
        for row in ledger {
            *rows.entry(&row.order).or_default() += 1;
        }
        let duplicates = rows.iter().filter(|(_, rows)| **rows > 1);
        self.breaches.extend(
            duplicates.map(|(order, rows)| Breach::Duplicate { order: (*order).into(), rows: *rows }),
        );
        let Some(outcomes) = outcomes else { return };
        for (order, outcome) in outcomes {
            match (outcome, rows.remove(&**order)) {
                (ClientOutcome::Acknowledged, None) => {
                    self.breaches.push(Breach::Missing { order: order.clone() });
                }
                (ClientOutcome::Refused, Some(_)) => {
                    self.breaches.push(Breach::NotAcknowledged { order: order.clone() });
                }
                _ => {}
            }
        }
        self.breaches.extend(rows.into_keys().map(|order| Breach::NotAcknowledged { order: order.into() }));
    }
}

fn sums<'a>(rows: impl Iterator<Item = (&'a str, i64)>) -> BTreeMap<&'a str, i64> {
    let mut sums = BTreeMap::new();
    for (sku, quantity) in rows {
        *sums.entry(sku).or_default() += quantity;
    }
    sums
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversold { sku, supplied, sold } => {
                write!(f, "{sku}: {sold} units were sold, but only {supplied} were supplied")
            }
            Self::CounterIsOff { sku, supplied, stock, reserved, sold } => {
                write!(
                    f,
                    "{sku}: {stock} of {supplied} units are left and {reserved} are reserved, but {sold} were sold"
                )
            }
            Self::TokenDidNotRise { sku, order, before, token } => {
                write!(f, "{sku}: order {order} was written with token {token} after token {before}")
            }
            Self::Duplicate { order, rows } => write!(f, "order {order} has {rows} rows in the ledger"),
            Self::Missing { order } => {
                write!(f, "order {order} was acknowledged, but is not in the ledger")
            }
            Self::NotAcknowledged { order } => {
                write!(f, "order {order} is in the ledger, but was refused or never placed")
            }
            Self::UnknownProduct { sku } => {
                write!(
                    f,
                    "{sku}: an order or a restock refers to this product, but the store has no such product"
                )
            }
        }
    }
}
