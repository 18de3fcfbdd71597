//! A simulated payment service, which is a separate, slow system.

use crate::{
    domain::{IdempotencyKey, Order},
    fault::Faults,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

/// A client for the payment service. Clones share the service.
///
/// A real service is called with the order's key and charges once per key. After an error, query
/// the payment for the key before a refund.
#[derive(Debug, Clone)]
pub struct Payments {
    seed: u64,
    taken: Arc<AtomicU64>,
    faults: Faults,
}

/// A completed payment. [`Payments::refund`] refunds it.
#[derive(Debug)]
#[must_use]
pub struct Payment {
    cents: u64,
}

/// The error for a payment that the service declined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declined;

impl Payments {
    /// Maximum payment, in cents.
    pub const LIMIT: u64 = 1_000_000;

    /// Creates a service whose delays are derived from `seed`. Faults are injected after a payment is taken,
    /// before `charge` returns.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self { seed, taken: Arc::default(), faults }
    }

    /// Charges for `order`. Without a fault, this takes 2 to 6 ms, depending only on the seed and
    /// the key.
    ///
    /// # Errors
    /// Returns [`Declined`] if the price exceeds [`LIMIT`](Self::LIMIT).
    ///
    /// # Cancel safety
    /// If this is dropped, the payment may or may not have been taken.
    pub async fn charge(&self, order: &Order) -> Result<Payment, Declined> {
        sleep(self.delay(&order.key)).await;
        if order.cents > Self::LIMIT {
            return Err(Declined);
        }
        self.taken.fetch_add(order.cents, Ordering::Relaxed);
        self.faults.strike().await;
        Ok(Payment { cents: order.cents })
    }

    /// Refunds a payment.
    pub async fn refund(&self, payment: Payment) {
        self.taken.fetch_sub(payment.cents, Ordering::Relaxed);
    }

    /// Returns the sum of payments that were not refunded, in cents.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn delay(&self, key: &IdempotencyKey) -> Duration {
        let mut hash = DefaultHasher::new();
        (self.seed, key).hash(&mut hash);
        Duration::from_micros(StdRng::seed_from_u64(hash.finish()).random_range(2_000..6_000))
    }
}
