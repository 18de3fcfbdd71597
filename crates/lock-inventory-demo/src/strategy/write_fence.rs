//! The distributed lock with a token that is checked only on the write.
//!
//! The read does not store the token. A stale write between the new holder's read and its write is therefore accepted,
//! and then overwritten.

use super::seller::{SellError, Seller};
use crate::domain::{Order, Outcome};
use lock_core::FencingToken;

pub(super) async fn sell(seller: &Seller, order: &Order, token: FencingToken) -> Result<Outcome, SellError> {
    let stock = seller.store.read(&order.sku).await?;
    let Some(left) = stock.take(order.quantity) else {
        return Ok(Outcome::SoldOut);
    };
    let Ok(payment) = seller.payments.charge(order).await else {
        return Ok(Outcome::Declined);
    };
    let written = seller.store.write_fenced_only(seller.entry(order, Some(token)), left, token).await?;
    seller.conclude(order, Some(token), payment, written).await
}
