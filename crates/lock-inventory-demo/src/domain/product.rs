//! Products, and validated quantities and prices.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// The code of a product: 1 to 64 ASCII letters, digits, `-`, `_` or `.`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sku(Arc<str>);

impl Sku {
    /// Validates a code.
    ///
    /// # Errors
    /// Returns [`SkuError`] with the violated rule.
    pub fn parse(code: &str) -> Result<Self, SkuError> {
        if code.is_empty() {
            return Err(SkuError::Empty);
        }
        if code.len() > 64 {
            return Err(SkuError::TooLong { bytes: code.len() });
        }
        match code.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_.".contains(*c))) {
            Some(character) => Err(SkuError::Character { character }),
            None => Ok(Self(code.into())),
        }
    }

    /// Returns the code as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Sku {
    type Err = SkuError;

    fn from_str(code: &str) -> Result<Self, SkuError> {
        Self::parse(code)
    }
}

impl TryFrom<String> for Sku {
    type Error = SkuError;

    fn try_from(code: String) -> Result<Self, SkuError> {
        Self::parse(&code)
    }
}

impl From<Sku> for String {
    fn from(sku: Sku) -> Self {
        sku.as_str().to_owned()
    }
}

impl fmt::Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for an invalid product code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkuError {
    /// The text is empty.
    #[error("the SKU is empty: every product needs one")]
    Empty,
    /// The text is longer than 64 bytes.
    #[error("the SKU is {bytes} bytes long: use at most 64 bytes")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
    /// The text contains a character that is not allowed.
    #[error("the SKU contains {character:?}: use ASCII letters, digits, '-', '_' or '.'")]
    Character {
        /// First such character.
        character: char,
    },
}

/// A number of units of one product, in stock or in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quantity(u32);

impl Quantity {
    /// Creates a quantity of this many units.
    #[must_use]
    pub const fn new(pieces: u32) -> Self {
        Self(pieces)
    }

    /// Returns the number of units.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the quantity left after `wanted` units are taken, or `None` if there are too few.
    #[must_use]
    pub fn take(self, wanted: Self) -> Option<Self> {
        self.0.checked_sub(wanted.0).map(Self)
    }
}

/// An amount of money, in cents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cents(u32);

impl Cents {
    /// Creates an amount of this many cents.
    #[must_use]
    pub const fn new(cents: u32) -> Self {
        Self(cents)
    }

    /// Returns the amount for `quantity` units at this price.
    #[must_use]
    pub fn times(self, quantity: Quantity) -> u64 {
        u64::from(self.0) * u64::from(quantity.0)
    }

    /// Returns the number of cents.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// One line of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Product code.
    pub sku: Sku,
    /// Product title.
    pub title: String,
    /// Product category.
    pub category: String,
    /// Price of one unit.
    pub price: Cents,
    /// Number of units in stock before the first sale.
    pub stock: Quantity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_contain_no_special_characters() {
        assert_eq!(Sku::parse("COF-0142").unwrap().as_str(), "COF-0142");
        assert_eq!(Sku::parse(""), Err(SkuError::Empty));
        assert_eq!(Sku::parse(&"x".repeat(65)), Err(SkuError::TooLong { bytes: 65 }));
        for (code, character) in [("a b", ' '), ("a{b", '{'), ("a\nb", '\n'), ("käse", 'ä')] {
            assert_eq!(Sku::parse(code), Err(SkuError::Character { character }));
        }
    }

    #[test]
    fn taking_more_than_available_fails() {
        let three = Quantity::new(3);
        assert_eq!(three.take(Quantity::new(2)), Some(Quantity::new(1)));
        assert_eq!(three.take(three), Some(Quantity::new(0)));
        assert_eq!(three.take(Quantity::new(4)), None);
    }
}
