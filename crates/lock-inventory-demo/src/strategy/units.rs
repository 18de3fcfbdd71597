//! A strategy without a lock. Each unit has a row, taken with `skip locked`. Buyers of a product do
//! not wait for each other.

use super::seller::{SellError, Seller};
use crate::domain::{Order, Outcome};

pub(super) async fn sell(seller: &Seller, order: &Order) -> Result<Outcome, SellError> {
    let Some(units) = seller.store.hold_units(order).await? else {
        return Ok(Outcome::SoldOut);
    };
    let Ok(payment) = seller.payments.charge(order).await else {
        units.give_back().await?;
        return Ok(Outcome::Declined);
    };
    let written = units.write(seller.entry(order, None)).await?;
    seller.conclude(order, None, payment, written).await
}
