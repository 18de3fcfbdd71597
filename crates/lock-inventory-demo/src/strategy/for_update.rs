//! A strategy without a distributed lock. A transaction locks the row and stays open during the
//! payment. Every waiter occupies a database connection. On SQLite, all other writes wait.

use super::seller::{SellError, Seller};
use crate::domain::{Order, Outcome};

pub(super) async fn sell(seller: &Seller, order: &Order) -> Result<Outcome, SellError> {
    let row = seller.store.hold_row(&order.sku).await?;
    let Some(left) = row.stock.take(order.quantity) else {
        row.give_back().await?;
        return Ok(Outcome::SoldOut);
    };
    let Ok(payment) = seller.payments.charge(order).await else {
        row.give_back().await?;
        return Ok(Outcome::Declined);
    };
    let written = row.write(seller.entry(order, None), left).await?;
    seller.conclude(order, None, payment, written).await
}
