//! What a buyer asks for, and what a shop answers.

use super::{Quantity, Sku};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// The number of an order: one per wish of a buyer, chosen before any shop sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OrderNumber(u32);

impl OrderNumber {
    /// This number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for OrderNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// So many pieces of one product, for one buyer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub number: OrderNumber,
    /// Which product.
    pub sku: Sku,
    /// How many pieces.
    pub quantity: Quantity,
    /// What they cost together, in cents.
    pub cents: u64,
}

/// How an order ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The order stands in the ledger; the buyer was told so.
    Accepted,
    /// There were not that many pieces left; nothing was charged.
    SoldOut,
    /// The lock had passed to another shop meanwhile: the store refused the write, the payment was returned and
    /// the buyer was told to try again.
    Stale,
}

/// What a shop tells a buyer, and how long it waited for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// How the order ended.
    pub outcome: Outcome,
    /// The wait for the lock; `None` in a shop that takes none.
    pub waited: Option<Duration>,
}
