//! Products, orders and money. Values that a customer sends are checked here once.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

/// The code of a product.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(try_from = "String")]
#[sqlx(transparent)]
pub struct Sku(String);

/// A customer, as the gateway that authenticates names them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Customer(String);

/// The name of an order or a reservation: `customer/key`, with the key that the customer chose. Two customers cannot
/// have the same name. The payment provider receives it too, and charges once for it: at a provider that several
/// programs share, each needs an account of its own, or the second sells what the first was paid for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, sqlx::Type)]
#[sqlx(transparent)]
pub struct OrderKey(String);

/// The units of one order: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type)]
#[serde(try_from = "i64")]
#[sqlx(transparent)]
pub struct Quantity(i64);

/// An amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, sqlx::Type)]
#[sqlx(transparent)]
pub struct Cents(i64);

/// The error for a value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A code, a customer or a key is empty, too long, or has another character.
    #[error("`{0}` is not valid: use 1 to 64 letters, digits, `.`, `_` or `-`")]
    Word(String),
    /// A quantity is out of range.
    #[error("{0} units cannot be ordered: use 1 to 100")]
    Quantity(i64),
}

/// Without `/` and `~`, so that parts can be joined, and without anything that an address would escape.
fn word(text: &str) -> Result<String, Invalid> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text.len() {
        1..=64 if text.chars().all(allowed) => Ok(text.to_owned()),
        _ => Err(Invalid::Word(text.chars().take(64).collect())),
    }
}

impl Sku {
    /// Returns the code.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Sku {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        word(text).map(Self)
    }
}

impl TryFrom<String> for Sku {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl fmt::Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Customer {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Customer {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        word(text).map(Self)
    }
}

impl OrderKey {
    /// Joins a customer and the key that this customer chose.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the key cannot be used.
    pub fn new(customer: &Customer, key: &str) -> Result<Self, Invalid> {
        Ok(Self(format!("{}/{}", customer.0, word(key)?)))
    }

    /// Returns the part that the customer chose.
    #[must_use]
    pub fn of_customer(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, key)| key)
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Quantity {
    /// Returns the number of units.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Quantity {
    type Error = Invalid;

    fn try_from(units: i64) -> Result<Self, Invalid> {
        if (1..=100).contains(&units) { Ok(Self(units)) } else { Err(Invalid::Quantity(units)) }
    }
}

impl Cents {
    /// Creates an amount.
    #[must_use]
    pub const fn new(cents: i64) -> Self {
        Self(cents)
    }

    /// Returns the number of cents.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the price of several units.
    #[must_use]
    pub fn times(self, quantity: Quantity) -> Self {
        Self(self.0.saturating_mul(quantity.0))
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// A product before its first sale.
#[derive(Debug, Clone)]
pub struct Product {
    /// The code.
    pub sku: Sku,
    /// The title.
    pub title: String,
    /// The price of one unit.
    pub price: Cents,
    /// The units for sale.
    pub initial: i64,
}

/// An order that has been read and checked, and that is not decided yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// The name of the order.
    pub key: OrderKey,
    /// The product.
    pub sku: Sku,
    /// The units.
    pub quantity: Quantity,
    /// The reservation whose units are bought; `None` for units from the stock.
    pub reservation: Option<OrderKey>,
}

/// An order that was sold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct Order {
    /// The name of the order.
    #[serde(rename = "order")]
    pub key: OrderKey,
    /// The product.
    pub sku: Sku,
    /// The units.
    pub quantity: Quantity,
    /// The price of all units.
    pub cents: Cents,
    /// The position among the orders of the product.
    pub number: i64,
    /// The fencing token under which it was written; `None` without a lock.
    pub token: Option<i64>,
}

/// Returns the seconds since 1970.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the products of the built-in sale.
#[must_use]
pub fn catalogue() -> Vec<Product> {
    const TITLES: [&str; 10] =
        ["Kettle", "Lamp", "Teapot", "Clock", "Radio", "Toaster", "Camera", "Blender", "Speaker", "Bicycle"];
    let product = |(at, title): (i64, &&str)| Product {
        sku: Sku(title.to_lowercase()),
        title: (*title).to_owned(),
        price: Cents::new(1_990 + 1_000 * at),
        initial: 20 + 3 * at,
    };
    (0..).zip(&TITLES).map(product).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_customers_differ() {
        let key = |customer: &str, key: &str| OrderKey::new(&customer.parse().unwrap(), key);
        assert_eq!(key("ann", "1").unwrap().as_str(), "ann/1");
        assert!(key("ann", "b/1").is_err() && "ann/b".parse::<Customer>().is_err());
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for text in ["", "a b", "ä", "a/b", &"a".repeat(65)] {
            assert!(text.parse::<Sku>().is_err(), "{text}");
        }
        assert!(Quantity::try_from(0).is_err() && Quantity::try_from(101).is_err());
        assert!(serde_json::from_str::<Quantity>("-1").is_err());
        assert_eq!(Cents::new(1_990).times(Quantity(3)).to_string(), "59.70");
    }
}
