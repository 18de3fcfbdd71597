//! The system next door: asks the price, takes the money, and needs its time. Simulated.

use crate::domain::{Order, OrderNumber};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

/// The payment service, as every shop sees it. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Payments {
    service: Arc<Service>,
}

#[derive(Debug)]
struct Service {
    seed: u64,
    stalls: HashMap<OrderNumber, Arc<Stall>>,
    taken: AtomicU64,
}

/// Money that was taken; give it back with [`Payments::refund`] if the order comes to nothing.
#[derive(Debug)]
#[must_use]
pub struct Payment {
    cents: u64,
}

/// A call that hangs until it is told to answer.
#[derive(Debug, Default)]
pub struct Stall {
    called: Notify,
    answer: Notify,
}

impl Payments {
    /// A service whose delays come from `seed`, and that hangs on the orders of `stalls`.
    #[must_use]
    pub fn new(seed: u64, stalls: HashMap<OrderNumber, Arc<Stall>>) -> Self {
        Self { service: Arc::new(Service { seed, stalls, taken: AtomicU64::new(0) }) }
    }

    /// Takes the money for `order`: 2 to 6 ms, always the same for one seed and order.
    pub async fn charge(&self, order: &Order) -> Payment {
        sleep(self.delay(order.number)).await;
        if let Some(stall) = self.service.stalls.get(&order.number) {
            stall.called.notify_one();
            stall.answer.notified().await;
        }
        self.service.taken.fetch_add(order.cents, Ordering::Relaxed);
        Payment { cents: order.cents }
    }

    /// Gives the money back.
    pub async fn refund(&self, payment: Payment) {
        self.service.taken.fetch_sub(payment.cents, Ordering::Relaxed);
    }

    /// The money that was taken and not given back, in cents.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.service.taken.load(Ordering::Relaxed)
    }

    fn delay(&self, number: OrderNumber) -> Duration {
        let mut random = StdRng::seed_from_u64(self.service.seed.wrapping_add(u64::from(number.get())));
        Duration::from_micros(random.random_range(2_000..6_000))
    }
}

impl Stall {
    /// Waits until the call has come in, and hangs.
    pub async fn called(&self) {
        self.called.notified().await;
    }

    /// Lets the call go on.
    pub fn answer(&self) {
        self.answer.notify_one();
    }
}
