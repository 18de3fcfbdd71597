//! The same shop without the lock: it reads, thinks and writes, and oversells. The negative control; do not copy.

use crate::{
    domain::{Answer, Order, Outcome},
    payment::Payments,
    shop::ShopError,
    store::Store,
};

/// A shop that hopes to be alone.
#[derive(Debug)]
pub struct CarelessShop {
    name: String,
    store: Store,
    payments: Payments,
}

impl CarelessShop {
    /// A shop of this name.
    #[must_use]
    pub fn new(name: String, store: Store, payments: Payments) -> Self {
        Self { name, store, payments }
    }

    /// Sells what `order` asks for, even if somebody else sells the same piece.
    ///
    /// # Errors
    /// [`ShopError`] when the store fails.
    ///
    /// # Cancel safety
    /// Dropping this may leave a payment without an order.
    pub async fn sell(&self, order: &Order) -> Result<Answer, ShopError> {
        let stock = self.store.read(&order.sku).await?;
        let Some(left) = stock.take(order.quantity) else {
            return Ok(Answer { outcome: Outcome::SoldOut, waited: None });
        };
        // While the payment runs, others read the same stock.
        let _payment = self.payments.charge(order).await;
        // And here each writes what it computed: the last one wins, and the pieces of the others are sold twice.
        self.store.write(order, left, &self.name).await?;
        Ok(Answer { outcome: Outcome::Accepted, waited: None })
    }

    /// Closes the shop.
    pub async fn close(&self) {
        self.store.close().await;
    }
}
