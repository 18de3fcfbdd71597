//! The audit: stock, tokens, intents **and money**, from rows alone. A counter of the program would be wrong together
//! with it.

use crate::{
    database::DatabaseError,
    domain::Order,
    payments::{Payment, PaymentError, Payments},
    store::Store,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The rows of both databases, as they stand there: a wrong program may have written them.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// The products.
    pub products: Vec<ProductRow>,
    /// The orders, sorted by product and number.
    pub orders: Vec<Order>,
    /// The intents.
    pub intents: Vec<IntentRow>,
    /// The provider's books.
    pub payments: Vec<Payment>,
}

/// A product, with the sums of its other rows.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ProductRow {
    /// The code.
    pub sku: String,
    /// The units before the first sale.
    pub initial: i64,
    /// The units that were added later.
    pub restocked: i64,
    /// The units of reservations that are held.
    pub reserved: i64,
    /// The units that are left, as counted by the shop.
    pub stock: i64,
}

/// An intent.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct IntentRow {
    /// The name of the order.
    pub key: String,
    /// The product.
    pub sku: String,
    /// The units.
    pub quantity: i64,
    /// The price of all units, in cents.
    pub cents: i64,
    /// The state.
    pub state: String,
}

impl Books {
    /// Reads the books. The shops can sell in the meantime.
    ///
    /// # Errors
    /// Returns [`AuditError`] if one of the databases fails.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn read(store: &Store, payments: &dyn Payments) -> Result<Self, AuditError> {
        // There is no snapshot of two databases. Each order of the shop's snapshot was charged before it, and each
        // payment from before it has its intent in it. So the provider is read on both sides, and payments that began
        // after the first reading are left out unless the snapshot knows them.
        let before: BTreeSet<String> = payments.statement().await?.into_iter().map(|line| line.key).collect();
        let mut books = Self::of_shop(store).await.map_err(DatabaseError::from)?;
        books.payments = payments.statement().await?;
        let orders = books.orders.iter().map(|order| order.key.as_str());
        let intents = books.intents.iter().map(|intent| intent.key.as_str());
        let known: BTreeSet<&str> = orders.chain(intents).collect();
        books.payments.retain(|line| before.contains(&line.key) || known.contains(&*line.key));
        Ok(books)
    }

    async fn of_shop(store: &Store) -> Result<Self, sqlx::Error> {
        let mut tx = store.database().begin_snapshot().await?;
        let products = "select sku, initial, stock, \
                        (select cast(coalesce(sum(quantity), 0) as bigint) from restocks \
                        where restocks.sku = products.sku) as restocked, \
                        (select cast(coalesce(sum(quantity), 0) as bigint) from reservations \
                        where reservations.sku = products.sku and state = 'held') as reserved \
                        from products order by sku";
        let orders = "select key, sku, quantity, cents, number, token from orders order by sku, number";
        let intents = "select key, sku, quantity, cents, state from intents order by key";
        Ok(Self {
            products: sqlx::query_as(products).fetch_all(&mut *tx).await?,
            orders: sqlx::query_as(orders).fetch_all(&mut *tx).await?,
            intents: sqlx::query_as(intents).fetch_all(&mut *tx).await?,
            payments: Vec::new(),
        })
    }
}

/// The error of an audit that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The shop's database failed.
    #[error("the shop's books cannot be read")]
    Shop(#[from] DatabaseError),
    /// The provider failed.
    #[error("the provider's books cannot be read")]
    Payments(#[from] PaymentError),
}

/// The result of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Number of orders.
    pub orders: usize,
    /// Units that were ever for sale.
    pub supplied: i64,
    /// Units sold.
    pub sold: i64,
    /// Units sold beyond those that were ever for sale.
    pub oversold: i64,
    /// Money that was taken, in cents.
    pub charged: i64,
    /// Money of orders, in cents.
    pub ordered: i64,
    /// Money that was given back, in cents.
    pub refunded: i64,
    /// Money of intents that are still open, in cents.
    pub pending: i64,
    /// Rules that the books break.
    pub breaches: Vec<Breach>,
}

/// A rule that the books break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach {
    /// More units were sold than were ever for sale.
    Oversold {
        /// The product.
        sku: String,
        /// Units that were ever for sale.
        supplied: i64,
        /// Units sold.
        sold: i64,
    },
    /// The stock is not what the other rows add up to: updates were lost.
    Stock {
        /// The product.
        sku: String,
        /// The stock as counted.
        stock: i64,
        /// Units that were for sale, less those sold and reserved.
        expected: i64,
    },
    /// A later order has no higher fencing token: a stale holder wrote.
    Tokens {
        /// The product.
        sku: String,
        /// The number of the later order.
        number: i64,
        /// The token of the earlier order.
        earlier: i64,
        /// The token of the later order.
        later: i64,
    },
    /// An intent and its order disagree.
    Intent {
        /// The name of the order.
        key: String,
        /// The state of the intent.
        state: String,
    },
    /// The customer was not charged for exactly what was ordered.
    Money {
        /// The name of the order.
        key: String,
        /// Cents that were taken.
        charged: i64,
        /// Cents of the order.
        ordered: i64,
        /// Cents that were given back.
        refunded: i64,
    },
}

/// The money of one key.
#[derive(Default)]
struct Account<'a> {
    charged: i64,
    refunded: i64,
    order: Option<&'a Order>,
    intent: Option<&'a IntentRow>,
}

impl Audit {
    /// Audits the books.
    #[must_use]
    pub fn of(books: &Books) -> Self {
        let mut audit = Self { orders: books.orders.len(), ..Self::default() };
        for product in &books.products {
            audit.count(product, &books.orders);
        }
        // Orders that were sold without a lock can stand between two that must be in order.
        let locked: Vec<&Order> = books.orders.iter().filter(|order| order.token.is_some()).collect();
        for pair in locked.windows(2) {
            audit.compare_tokens(pair[0], pair[1]);
        }
        let mut accounts: BTreeMap<&str, Account<'_>> = BTreeMap::new();
        for payment in &books.payments {
            let account = accounts.entry(&payment.key).or_default();
            account.charged += payment.cents;
            account.refunded += if payment.state == "refunded" { payment.cents } else { 0 };
        }
        for order in &books.orders {
            accounts.entry(order.key.as_str()).or_default().order = Some(order);
        }
        for intent in &books.intents {
            accounts.entry(&intent.key).or_default().intent = Some(intent);
        }
        for (key, account) in accounts {
            audit.balance(key, &account);
        }
        audit
    }

    fn count(&mut self, product: &ProductRow, orders: &[Order]) {
        let supplied = product.initial + product.restocked;
        let of_product = orders.iter().filter(|order| order.sku.as_str() == product.sku);
        let sold = of_product.map(|order| order.quantity.get()).sum();
        let expected = supplied - sold - product.reserved;
        self.supplied += supplied;
        self.sold += sold;
        if sold > supplied {
            self.oversold += sold - supplied;
            self.breaches.push(Breach::Oversold { sku: product.sku.clone(), supplied, sold });
        }
        if product.stock != expected {
            self.breaches.push(Breach::Stock { sku: product.sku.clone(), stock: product.stock, expected });
        }
    }

    fn compare_tokens(&mut self, first: &Order, second: &Order) {
        if let (Some(earlier), Some(later)) = (first.token, second.token)
            && first.sku == second.sku
            && later <= earlier
        {
            let (sku, number) = (second.sku.to_string(), second.number);
            self.breaches.push(Breach::Tokens { sku, number, earlier, later });
        }
    }

    fn balance(&mut self, key: &str, account: &Account<'_>) {
        // An order without an intent was sold by the naive shop.
        let sold = account.order.map(|order| (order.sku.as_str(), order.quantity.get(), order.cents.get()));
        if let Some(IntentRow { sku, quantity, cents, state, .. }) = account.intent
            && sold != (state == "ordered").then_some((sku, *quantity, *cents))
        {
            self.breaches.push(Breach::Intent { key: key.to_owned(), state: state.clone() });
        }
        let (charged, refunded, ordered) = (account.charged, account.refunded, sold.map_or(0, |sold| sold.2));
        let pending = account.intent.filter(|intent| matches!(&*intent.state, "open" | "refunding"));
        let pending = pending.map_or(0, |intent| intent.cents.min(charged - refunded));
        self.charged += charged;
        self.refunded += refunded;
        self.ordered += ordered;
        self.pending += pending;
        if charged != ordered + refunded + pending {
            self.breaches.push(Breach::Money { key: key.to_owned(), charged, ordered, refunded });
        }
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { orders, supplied, sold, oversold, charged, ordered, refunded, pending, breaches } = self;
        writeln!(f, "{orders} orders: {sold} of {supplied} units sold, {oversold} beyond the supply")?;
        writeln!(
            f,
            "{charged} cents charged: {ordered} for orders, {refunded} refunded, {pending} not decided yet"
        )?;
        for breach in breaches {
            writeln!(f, "- {breach}")?;
        }
        write!(f, "{} rules broken", breaches.len())
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversold { sku, supplied, sold } => {
                write!(f, "{sku}: {sold} units were sold, {supplied} were for sale")
            }
            Self::Stock { sku, stock, expected } => {
                write!(f, "{sku}: the stock says {stock}, the orders and reservations leave {expected}")
            }
            Self::Tokens { sku, number, earlier, later } => {
                write!(f, "{sku}: order {number} has token {later}, the order before it {earlier}")
            }
            Self::Intent { key, state } => {
                write!(f, "{key}: the intent is `{state}`, which its order denies")
            }
            Self::Money { key, charged, ordered, refunded } => write!(
                f,
                "{key}: {charged} cents were charged, {ordered} are owed for the order, {refunded} were refunded"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Cents, OrderKey};

    /// One order that was charged, and one that was refunded.
    fn books() -> Books {
        let order = |customer: &str, number, token| Order {
            key: OrderKey::new(&customer.parse().unwrap(), "1").unwrap(),
            sku: "kettle".parse().unwrap(),
            quantity: 2.try_into().unwrap(),
            cents: Cents::new(700),
            number,
            token: Some(token),
        };
        let intent = |key: &str, state: &str| IntentRow {
            key: key.into(),
            sku: "kettle".into(),
            quantity: 2,
            cents: 700,
            state: state.into(),
        };
        let payment = |key: &str, state: &str| Payment { key: key.into(), cents: 700, state: state.into() };
        Books {
            products: vec![ProductRow {
                sku: "kettle".into(),
                initial: 5,
                restocked: 2,
                reserved: 1,
                stock: 2,
            }],
            orders: vec![order("ann", 1, 10), order("bob", 2, 20)],
            intents: vec![
                intent("ann/1", "ordered"),
                intent("bob/1", "ordered"),
                intent("cy/1", "refunded"),
                intent("di/1", "open"),
            ],
            payments: vec![
                payment("ann/1", "charged"),
                payment("bob/1", "charged"),
                payment("cy/1", "refunded"),
                payment("di/1", "charged"),
            ],
        }
    }

    fn breaches(change: impl FnOnce(&mut Books)) -> Vec<Breach> {
        let mut books = books();
        change(&mut books);
        Audit::of(&books).breaches
    }

    #[test]
    fn balanced_books_have_no_breach() {
        let audit = Audit::of(&books());
        assert_eq!(audit.breaches, []);
        assert_eq!((audit.orders, audit.supplied, audit.sold, audit.oversold), (2, 7, 4, 0));
        assert_eq!((audit.charged, audit.ordered, audit.refunded, audit.pending), (2800, 1400, 700, 700));
    }

    #[test]
    fn oversold_units_and_lost_updates_are_separate() {
        let found = breaches(|books| {
            books.orders[1].quantity = 6.try_into().unwrap();
            books.intents[1].quantity = 6;
        });
        assert!(matches!(&found[..], [Breach::Oversold { supplied: 7, sold: 8, .. }, Breach::Stock { .. }]));
        let found = breaches(|books| books.products[0].stock = 4);
        assert!(matches!(&found[..], [Breach::Stock { stock: 4, expected: 2, .. }]));
    }

    #[test]
    fn tokens_rise_with_the_orders_of_a_product() {
        let found = breaches(|books| books.orders[1].token = Some(10));
        assert!(matches!(&found[..], [Breach::Tokens { number: 2, earlier: 10, later: 10, .. }]));
        assert_eq!(breaches(|books| books.orders[1].token = None), []);
        let found = breaches(|books| {
            let mut stale = books.orders[0].clone();
            (stale.number, stale.quantity, stale.token) = (3, 1.try_into().unwrap(), Some(5));
            books.orders[1].token = None;
            books.orders.push(stale);
        });
        assert!(
            found.iter().any(|breach| matches!(breach, Breach::Tokens { earlier: 10, later: 5, .. })),
            "{found:?}"
        );
    }

    #[test]
    fn intents_agree_with_orders() {
        let found = breaches(|books| books.intents[0].state = "declined".into());
        assert!(matches!(&found[..], [Breach::Intent { .. }]), "{found:?}");
        assert_eq!(breaches(|books| drop(books.intents.remove(0))), [], "the naive shop writes none");
    }

    #[test]
    fn money_is_charged_for_orders_or_refunded() {
        let money = |change: fn(&mut Books)| match &breaches(change)[..] {
            [Breach::Money { charged, ordered, refunded, .. }] => (*charged, *ordered, *refunded),
            other => panic!("{other:?}"),
        };
        assert_eq!(money(|books| books.payments[0].cents = 800), (800, 700, 0), "charged too much");
        assert_eq!(money(|books| drop(books.payments.remove(0))), (0, 700, 0), "never charged");
        assert_eq!(money(|books| books.payments[0].state = "refunded".into()), (700, 700, 700), "given away");
        assert_eq!(money(|books| books.payments[2].state = "charged".into()), (700, 0, 0), "kept");
        assert_eq!(money(|books| drop(books.intents.pop())), (700, 0, 0), "charged without a trace");
    }
}
