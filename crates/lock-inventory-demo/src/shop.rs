//! One shop instance: sells a piece under the lock of its product. **Copy from here.**
//!
//! The critical section spans two systems, the stock and the payment service, so no transaction of either can
//! cover it. The lock keeps the shops from one another; the fencing token keeps the stock right when a shop
//! outlives its lock (a pause, a slow call, a suspended machine), which no lock can prevent.
//!
//! For one row in one database you need none of this: `update … set stock = stock - 1 where stock > 0` will do.

use crate::{
    domain::{Answer, Order, Outcome, Sku},
    payment::Payments,
    store::{Read, Store, StoreError, Written},
};
use lock_core::{FencingToken, Lock, LockError, LockFactory, ShutdownReport};
use std::time::{Duration, Instant};

/// One shop: its own lock factory, its own connection to the stock. Several of them share nothing in memory.
#[derive(Debug)]
pub struct Shop {
    name: String,
    locks: LockFactory,
    lease: Lease,
    store: Store,
    payments: Payments,
    lock_prefix: String,
}

/// Who keeps the lock alive while a shop works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// The watchdog, as long as this process lives and reaches the store. What you want.
    Watched,
    /// Nobody: the lock is lost after this time, as that of a process is that was paused.
    Fixed(Duration),
}

impl Shop {
    /// A shop of this name.
    #[must_use]
    pub fn new(name: String, locks: LockFactory, lease: Lease, store: Store, payments: Payments) -> Self {
        Self { name, locks, lease, store, payments, lock_prefix: String::new() }
    }

    /// Puts `prefix` before the names of its locks. Shops over one stock need the same one; give another to those that
    /// share only the Redis, such as a test beside production.
    #[must_use]
    pub fn with_lock_prefix(self, prefix: &str) -> Self {
        Self { lock_prefix: prefix.into(), ..self }
    }

    /// Sells what `order` asks for, or says why not.
    ///
    /// # Errors
    /// [`ShopError`] when the lock or the store fails.
    ///
    /// # Cancel safety
    /// Dropping this releases the lock. It may leave a payment without an order: run it in a task of its own.
    pub async fn sell(&self, order: &Order) -> Result<Answer, ShopError> {
        // A lock per product: orders for different products never wait for one another.
        let lock = self.lock(&order.sku)?;
        let asked = Instant::now();
        let guard = lock.acquire().await?;
        let waited = asked.elapsed();

        let outcome = self.deduct(order, guard.fencing_token()).await;

        // What the order became is decided: a release that fails costs the next buyer a wait, not this one the
        // order. (Dropping the guard would release too, in the background.)
        let _ = guard.release().await;
        Ok(Answer { outcome: outcome?, waited: Some(waited) })
    }

    /// The critical section.
    async fn deduct(&self, order: &Order, token: FencingToken) -> Result<Outcome, ShopError> {
        // 1. Read the stock and leave our token there: from here on, nobody who held the lock before us can write.
        let Read::Fresh(stock) = self.store.fenced_read(&order.sku, token).await? else {
            return Ok(Outcome::Stale);
        };
        let Some(left) = stock.take(order.quantity) else {
            return Ok(Outcome::SoldOut);
        };

        // 2. Ask the other system. Nothing bounds how long it takes, and the lock may be lost meanwhile. Asking
        //    `guard.is_held()` afterwards would save a write that is refused; it could not replace the fence, because
        //    the lock can also be lost between that question and the write.
        let payment = self.payments.charge(order).await;

        // 3. Write stock and order in one transaction, unless somebody with a newer token was here. If this fails
        //    with an error, the commit may have happened: look for the order's number before you refund.
        match self.store.fenced_write(order, left, &self.name, token).await? {
            Written::Recorded => Ok(Outcome::Accepted),
            Written::Stale => {
                self.payments.refund(payment).await;
                Ok(Outcome::Stale)
            }
        }
    }

    fn lock(&self, sku: &Sku) -> Result<Lock, LockError> {
        let lock = self.locks.named(format!("{}stock:{sku}", self.lock_prefix))?;
        match self.lease {
            Lease::Watched => Ok(lock),
            Lease::Fixed(lease) => lock.with_fixed_lease(lease),
        }
    }

    /// Closes the shop: gives back what it holds, and names the locks for which that was not confirmed.
    pub async fn close(&self) -> ShutdownReport {
        let report = self.locks.shutdown().await;
        self.store.close().await;
        report
    }
}

/// Why an order has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShopError {
    /// The lock was not acquired; nothing was sold.
    #[error("a shop did not get its lock")]
    Lock(#[from] LockError),
    /// The stock could not be read or written.
    #[error("a shop did not reach its stock")]
    Store(#[from] StoreError),
}
