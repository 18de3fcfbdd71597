//! Strategies without a distributed lock, for a stock that is in one database. Buyers of a product wait for each other at
//! most for a statement, except with `for-update`.

use super::{Outcome, Sale, SaleError, rows};
use lock_inventory_demo::{payments::Charge, store::End};

/// One conditional statement takes the units, as a reservation, and the intent is written with it. The second transaction
/// turns the reservation into the order. If this process dies in between, the shop's job `settle` finds the intent: the
/// same tables, the same guarantees, and no lock. **The simplest correct way if the stock is one row of one database.**
pub(super) async fn conditional(sale: &Sale) -> Result<Outcome, SaleError> {
    let Some(cents) = rows::take_with_intent(sale).await? else {
        return Ok(Outcome::SoldOut);
    };
    match sale.charge(cents).await? {
        Charge::Charged => {}
        Charge::Declined => {
            sale.shop.store.end_reservation(sale.key(), End::Cancelled).await?;
            rows::decline(sale).await?;
            return Ok(Outcome::Declined);
        }
        Charge::Refunded => return Ok(Outcome::Refunded),
    }
    match rows::confirm(sale, cents).await? {
        Some(answer) => Ok(Outcome::Sold(answer)),
        // The reservation expired during a slow payment. The intent is left to the job, which pays back.
        None => Ok(Outcome::Stale),
    }
}

/// A transaction locks the product's row and stays open during the payment. Every waiter occupies a database connection. On
/// SQLite, all other writes wait.
pub(super) async fn for_update(sale: &Sale) -> Result<Outcome, SaleError> {
    let (tx, level) = rows::lock_row(sale).await?;
    if level.stock < sale.order.quantity.get() {
        return Ok(Outcome::SoldOut);
    }
    let cents = level.price_cents.times(sale.order.quantity);
    match sale.charge(cents).await? {
        Charge::Charged => Ok(Outcome::Sold(rows::sell_relative(sale, tx, cents).await?)),
        Charge::Declined => Ok(Outcome::Declined),
        Charge::Refunded => Ok(Outcome::Refunded),
    }
}

/// Each unit has a row, taken with `skip locked`. PostgreSQL only.
pub(super) async fn units(sale: &Sale) -> Result<Outcome, SaleError> {
    let cents = rows::read(sale).await?.price_cents.times(sale.order.quantity);
    let Some(tx) = rows::take_units(sale).await? else {
        return Ok(Outcome::SoldOut);
    };
    match sale.charge(cents).await? {
        Charge::Charged => Ok(Outcome::Sold(rows::sell_relative(sale, tx, cents).await?)),
        Charge::Declined => Ok(Outcome::Declined),
        Charge::Refunded => Ok(Outcome::Refunded),
    }
}
