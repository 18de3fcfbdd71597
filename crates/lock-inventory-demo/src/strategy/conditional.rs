//! A strategy without a lock. One conditional statement takes the units, a reservation keeps them
//! during the payment, and a second transaction turns the reservation into an order. This is the
//! simplest solution if the stock is one row in one database. Buyers of a product do not wait for
//! each other's payments.

use super::seller::{SellError, Seller};
use crate::{
    domain::{Order, Outcome, Reservation, ReservationState},
    store::{Reserved, Written},
};
use lock_cron::UtcTime;
use std::time::Duration;

/// Time for which the units stay reserved if the shop dies during the payment.
const KEPT_FOR: Duration = Duration::from_secs(60);

pub(super) async fn sell(seller: &Seller, order: &Order) -> Result<Outcome, SellError> {
    let reservation = Reservation {
        id: format!("order:{}", order.key),
        sku: order.sku.clone(),
        quantity: order.quantity,
        cents: order.cents,
        expires_at: UtcTime::now() + KEPT_FOR,
        state: ReservationState::Held,
    };
    match seller.store.reserve(&reservation, None).await? {
        Reserved::Held => {}
        Reserved::SoldOut => return Ok(Outcome::SoldOut),
        Reserved::Stale(stale) => return Ok(Outcome::Stale(stale)),
        Reserved::IdTaken => {
            let receipt = seller.store.receipt(&order.key).await?;
            return Ok(receipt.map_or(Outcome::InProgress, |receipt| receipt.repeated_by(order)));
        }
    }
    let Ok(payment) = seller.payments.charge(order).await else {
        seller.store.give_back(&reservation, ReservationState::Cancelled, None).await?;
        return Ok(Outcome::Declined);
    };
    // A reservation that expired in the meantime cannot be confirmed.
    let written = seller.store.confirm(&reservation, seller.entry(order, None)).await?;
    seller.conclude(order, None, payment, written.unwrap_or(Written::KeyTaken)).await
}
