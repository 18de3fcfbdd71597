//! An order, and its outcome.

use super::{IdempotencyKey, Quantity, Sku};
use lock_core::FencingToken;

/// Pieces of one product for one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The key that the client chose.
    pub key: IdempotencyKey,
    /// The product.
    pub sku: Sku,
    /// The number of pieces.
    pub quantity: Quantity,
    /// The price of all of them, in cents.
    pub cents: u64,
}

impl Order {
    /// The most pieces that one order may have.
    pub const MAX_QUANTITY: u32 = 100;
}

/// An order as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The key of the order.
    pub key: IdempotencyKey,
    /// The product.
    pub sku: Sku,
    /// The number of pieces.
    pub quantity: Quantity,
    /// The fencing token of the hold under which it was sold, if there was one.
    pub token: Option<FencingToken>,
}

impl Receipt {
    /// The receipt of this order, once the ledger has it.
    #[must_use]
    pub fn of(order: &Order, token: Option<FencingToken>) -> Self {
        Self { key: order.key.clone(), sku: order.sku.clone(), quantity: order.quantity, token }
    }

    /// Returns the answer to a repetition of the order: the same receipt, or a refusal if the client sends another order
    /// under the same key.
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
    /// The ledger has it now.
    Accepted(Receipt),
    /// The ledger had it before: the client repeated the request.
    Repeated(Receipt),
    /// The ledger has another order under this key.
    KeyReused,
    /// Another request with this key is being worked on.
    InProgress,
    /// There are not that many pieces left. Nothing was charged.
    SoldOut,
    /// The payment service declined. Nothing was sold.
    Declined,
    /// The store refused a holder whose lock had passed on. Nothing was sold, and the payment was returned.
    Stale(Stale),
}

/// A refused holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// The token of the refused holder.
    pub mine: FencingToken,
    /// The newest token that the store has seen.
    pub newer: FencingToken,
}
