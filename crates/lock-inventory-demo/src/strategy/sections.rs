//! The critical section without a token check. Correct only without concurrent writes.

use super::seller::{SellError, Seller};
use crate::domain::{Order, Outcome};
use lock_core::FencingToken;

/// Reads, pays and writes. `token` is only recorded in the ledger.
pub(super) async fn unfenced(
    seller: &Seller,
    order: &Order,
    token: Option<FencingToken>,
) -> Result<Outcome, SellError> {
    let stock = seller.store.read(&order.sku).await?;
    let Some(left) = stock.take(order.quantity) else {
        return Ok(Outcome::SoldOut);
    };
    let Ok(payment) = seller.payments.charge(order).await else {
        return Ok(Outcome::Declined);
    };
    let written = seller.store.write(seller.entry(order, token), left).await?;
    seller.conclude(order, token, payment, written).await
}
