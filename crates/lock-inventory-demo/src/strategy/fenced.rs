//! The distributed lock with a token that is checked on the read and on the write. **Copy this
//! strategy.**
//!
//! The critical section spans two systems, the stock and the payment service, and no transaction
//! covers both. The lock ensures that only one shop at a time works on a product. The token keeps
//! the stock correct if a holder outlives its lock, for example because of a pause, a slow call or
//! a suspended machine. No lock can prevent this.
//!
//! A single row in a single database needs neither lock nor token; see
//! [`conditional`](super::conditional).

use super::seller::{SellError, Seller};
use crate::{
    domain::{Order, Outcome},
    store::Read,
};
use lock_core::FencingToken;

pub(super) async fn sell(seller: &Seller, order: &Order, token: FencingToken) -> Result<Outcome, SellError> {
    // 1. Read the stock and store the token with it. From then on, no earlier holder can write.
    let stock = match seller.store.fenced_read(&order.sku, token).await? {
        Read::Fresh(stock) => stock,
        Read::Stale(stale) => return Ok(Outcome::Stale(stale)),
    };
    let Some(left) = stock.take(order.quantity) else {
        return Ok(Outcome::SoldOut);
    };

    // 2. Call the other system. The lock can be lost during the call. Checking `is_held()` afterwards
    //    would only save a write that is refused. It cannot replace the fence, because the lock can
    //    also be lost between that check and the write.
    let Ok(payment) = seller.payments.charge(order).await else {
        return Ok(Outcome::Declined);
    };

    // 3. Write the stock and the order in one transaction. If there was a newer holder, refund the
    //    payment instead. After an error, the commit may or may not have happened, so nothing is
    //    refunded. The client repeats the request, and the order's key decides, both here and at the
    //    payment service.
    let written = seller.store.fenced_write(seller.entry(order, Some(token)), left, token).await?;
    seller.conclude(order, Some(token), payment, written).await
}
