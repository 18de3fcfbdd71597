//! The distributed lock, with a token that is checked on the read and on the write. **Copy this one.**
//!
//! The section spans two systems, the stock and the payment service, and no transaction covers both. The lock keeps shops
//! from working on one product at a time. The token keeps the stock right when a holder outlives its lock (a pause, a slow
//! call, a suspended machine), which no lock can prevent.
//!
//! One row in one database needs neither: see [`conditional`](super::conditional).

use super::seller::{SellError, Seller};
use crate::{
    domain::{Order, Outcome},
    store::Read,
};
use lock_core::FencingToken;

pub(super) async fn sell(seller: &Seller, order: &Order, token: FencingToken) -> Result<Outcome, SellError> {
    // 1. Read the stock and leave the token there. From here on, no earlier holder can write.
    let stock = match seller.store.fenced_read(&order.sku, token).await? {
        Read::Fresh(stock) => stock,
        Read::Stale(stale) => return Ok(Outcome::Stale(stale)),
    };
    let Some(left) = stock.take(order.quantity) else {
        return Ok(Outcome::SoldOut);
    };

    // 2. Call the other system. The lock may be lost meanwhile. Asking `is_held()` afterwards would save a write that is
    //    refused; it cannot replace the fence, since the lock can also be lost between that question and the write.
    let Ok(payment) = seller.payments.charge(order).await else {
        return Ok(Outcome::Declined);
    };

    // 3. Write stock and order in one transaction, unless a newer holder was here: then return the payment. An error leaves
    //    open whether the commit happened, so nothing is returned for it: the client repeats the request, and the key of
    //    the order decides, here and at the payment service.
    let written = seller.store.fenced_write(seller.entry(order, Some(token)), left, token).await?;
    seller.conclude(order, Some(token), payment, written).await
}
