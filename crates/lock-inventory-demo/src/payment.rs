//! The payment service: another system, which takes its time. Simulated.

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

/// The payment service, as every shop sees it. Clones are the same service.
///
/// A real one is called with the order's key, charges once for each key, and is asked about the key before a refund that
/// follows an error.
#[derive(Debug, Clone)]
pub struct Payments {
    seed: u64,
    taken: Arc<AtomicU64>,
    faults: Faults,
}

/// Money that was taken. [`Payments::refund`] returns it.
#[derive(Debug)]
#[must_use]
pub struct Payment {
    cents: u64,
}

/// The service did not take the money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declined;

impl Payments {
    /// The most that the service takes at once, in cents.
    pub const LIMIT: u64 = 1_000_000;

    /// A service whose delays come from `seed`. The faults come when an answer is under way.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self { seed, taken: Arc::default(), faults }
    }

    /// Takes the money for `order`. It takes 2 to 6 ms, the same for one seed and key.
    ///
    /// # Errors
    /// [`Declined`] above [`LIMIT`](Self::LIMIT).
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether money was taken.
    pub async fn charge(&self, order: &Order) -> Result<Payment, Declined> {
        sleep(self.delay(&order.key)).await;
        if order.cents > Self::LIMIT {
            return Err(Declined);
        }
        self.taken.fetch_add(order.cents, Ordering::Relaxed);
        self.faults.strike().await;
        Ok(Payment { cents: order.cents })
    }

    /// Returns the money.
    pub async fn refund(&self, payment: Payment) {
        self.taken.fetch_sub(payment.cents, Ordering::Relaxed);
    }

    /// Returns the sum that was taken and not returned, in cents.
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
