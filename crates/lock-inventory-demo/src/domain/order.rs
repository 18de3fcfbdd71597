//! Orders and their outcomes.

use super::{IdempotencyKey, Quantity, Sku};
use lock_core::FencingToken;

/// A client's order for units of one product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Idempotency key chosen by the client.
    pub key: IdempotencyKey,
    /// Product code.
    pub sku: Sku,
    /// Number of units.
    pub quantity: Quantity,
    /// Price of all units, in cents.
    pub cents: u64,
}

impl Order {
    /// Maximum number of units in one order.
    pub const MAX_QUANTITY: u32 = 100;
}

/// An order in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Key of the order.
    pub key: IdempotencyKey,
    /// Product code.
    pub sku: Sku,
    /// Number of units.
    pub quantity: Quantity,
    /// Fencing token under which the order was sold; `None` without a lock.
    pub token: Option<FencingToken>,
}

impl Receipt {
    /// Creates the receipt for an order that is in the ledger.
    #[must_use]
    pub fn of(order: &Order, token: Option<FencingToken>) -> Self {
        Self { key: order.key.clone(), sku: order.sku.clone(), quantity: order.quantity, token }
    }

    /// Returns the outcome of a repeated request: the same receipt, or a refusal if the order
    /// differs.
    #[must_use]
    pub fn repeated_by(self, order: &Order) -> Outcome {
        match self.sku == order.sku && self.quantity == order.quantity {
            true => Outcome::Repeated(self),
            false => Outcome::KeyReused,
        }
    }
}

/// The outcome of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The order was added to the ledger.
    Accepted(Receipt),
    /// The ledger already contained the order, because the client repeated the request.
    Repeated(Receipt),
    /// The ledger contains a different order with this key.
    KeyReused,
    /// Another request with this key is in progress.
    InProgress,
    /// Too few units are left. Nothing was charged.
    SoldOut,
    /// The payment service declined the payment. Nothing was sold.
    Declined,
    /// The store refused a stale holder. Nothing was sold, and the payment was refunded.
    Stale(Stale),
}

/// The tokens of a stale holder's refused access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// Token of the refused holder.
    pub mine: FencingToken,
    /// Newest token that the store has seen.
    pub newer: FencingToken,
}
