//! Read, pay, write: the stock that is written was computed from a read. Correct only while nobody else writes. The
//! strategies differ in what keeps others out:
//!
//! | strategy | keeps out | fails |
//! | --- | --- | --- |
//! | `none` | nobody | at once |
//! | `mutex` | other requests of this process | with a second process |
//! | `setnx` | others, until the TTL ends | if a section is slower than the TTL |
//! | `lock` | others, while the lease is renewed | if a holder is paused past its lease |
//! | `lock-write-fence` | the same, and stale writes after a newer *write* | if a stale write comes between a newer holder's read and write |

use super::{Outcome, Sale, SaleError, rows};
use lock_inventory_demo::{domain::Sku, payments::Charge};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The place at which the token is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    None,
    OnWrite,
}

/// Sells an order. The token, if there is one, is written with the order.
pub(super) async fn sell(sale: &Sale, fence: Fence) -> Result<Outcome, SaleError> {
    let level = rows::read(sale).await?;
    let left = level.stock - sale.order.quantity.get();
    if left < 0 {
        return Ok(Outcome::SoldOut);
    }
    let cents = level.price_cents.times(sale.order.quantity);
    match sale.charge(cents).await? {
        Charge::Charged => {}
        Charge::Declined => return Ok(Outcome::Declined),
        Charge::Refunded => return Ok(Outcome::Refunded),
    }
    match rows::write(sale, left, cents, fence).await? {
        Some(answer) => Ok(Outcome::Sold(answer)),
        None => {
            sale.shop.payments.refund(sale.key()).await?;
            Ok(Outcome::Stale)
        }
    }
}

/// The mutexes of a process, one for each product.
#[derive(Debug, Clone, Default)]
pub(super) struct Mutexes(Arc<Mutex<HashMap<Sku, Arc<tokio::sync::Mutex<()>>>>>);

impl Mutexes {
    pub(super) async fn sell(&self, sale: &Sale) -> Result<Outcome, SaleError> {
        let mutex = self.of(&sale.order.sku);
        let _guard = mutex.lock().await;
        sell(sale, Fence::None).await
    }

    fn of(&self, sku: &Sku) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(sku.clone()).or_default().clone()
    }
}
