//! The orders of a load and their arrival times. The same seed gives the same orders.

use lock_testkit::{Seed, Stream};
use std::time::Duration;

const BURST_EVERY: Duration = Duration::from_secs(5);
const BURST_LASTS: Duration = Duration::from_secs(1);
const BURST_FACTOR: u32 = 5;

/// The arrival model of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Profile {
    /// Orders at a fixed rate, evenly spaced.
    Open {
        /// Orders per second, above 0.
        rate: f64,
    },
    /// Like `Open`, but at five times the rate during every fifth second.
    Burst {
        /// Orders per second outside of the bursts, above 0.
        rate: f64,
    },
    /// A fixed number of clients, each with one order in flight.
    Closed {
        /// Number of clients.
        clients: u32,
    },
}

/// An endless iterator over intended start times in an open model, relative to the start of the
/// load.
#[derive(Debug, Clone)]
pub struct Arrivals {
    interval: Duration,
    is_bursty: bool,
    next: Duration,
}

impl Profile {
    /// Returns the arrivals, or `None` in the closed model, where the clients determine the times.
    #[must_use]
    pub fn arrivals(self) -> Option<Arrivals> {
        let (rate, is_bursty) = match self {
            Self::Open { rate } => (rate, false),
            Self::Burst { rate } => (rate, true),
            Self::Closed { .. } => return None,
        };
        Some(Arrivals { interval: Duration::from_secs_f64(1.0 / rate), is_bursty, next: Duration::ZERO })
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        let since = now.as_nanos() % BURST_EVERY.as_nanos();
        let in_burst = self.is_bursty && since >= (BURST_EVERY - BURST_LASTS).as_nanos();
        self.next += self.interval / if in_burst { BURST_FACTOR } else { 1 };
        Some(now)
    }
}

/// The customer of all orders, as the gateway in front of the shops would name it. The shops keep the keys of each customer
/// apart.
pub const CUSTOMER: &str = "load";

/// The mix of orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderMix {
    /// Codes of the products, drawn with equal probability. Must not be empty.
    pub skus: Vec<String>,
    /// Maximum number of units in an order, at least 1.
    pub max_quantity: u32,
    /// Prefix for every key, which distinguishes the loads on one database.
    pub keys: String,
    /// Seed for the orders.
    pub seed: u64,
}

/// An order that a client wants to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Value of the `Idempotency-Key`, the same for all attempts.
    pub key: String,
    /// Product code.
    pub sku: String,
    /// Number of units.
    pub quantity: u32,
    /// Seed for all further random choices about this order.
    pub seed: u64,
}

/// An endless iterator over orders.
#[derive(Debug)]
pub struct Orders {
    mix: OrderMix,
    random: Stream,
    number: u64,
}

impl Orders {
    /// Returns the orders of `mix`.
    ///
    /// # Panics
    /// Panics if the mix contains no product.
    #[must_use]
    pub fn new(mix: OrderMix) -> Self {
        assert!(!mix.skus.is_empty(), "the mix contains no product");
        let random = Seed::new(mix.seed).stream();
        Self { mix, random, number: 0 }
    }
}

impl Iterator for Orders {
    type Item = Wish;

    fn next(&mut self) -> Option<Wish> {
        self.number += 1;
        let skus = &self.mix.skus;
        let sku = usize::try_from(self.random.below(skus.len() as u64)).unwrap_or(0);
        let more = self.random.below(self.mix.max_quantity.into());
        Some(Wish {
            key: format!("{}-{}", self.mix.keys, self.number),
            sku: skus[sku].clone(),
            quantity: 1 + u32::try_from(more).unwrap_or(0),
            seed: self.random.number(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn within(profile: Profile, from: u64, to: u64) -> usize {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        profile.arrivals().unwrap().skip_while(|at| *at < from).take_while(|at| *at < to).count()
    }

    #[test]
    fn open_model_spaces_arrivals_evenly() {
        let starts: Vec<_> = Profile::Open { rate: 100.0 }.arrivals().unwrap().take(4).collect();
        assert_eq!(starts, [0, 10, 20, 30].map(Duration::from_millis));
    }

    #[test]
    fn burst_has_five_times_the_rate_for_one_second_in_five() {
        let profile = Profile::Burst { rate: 100.0 };
        assert!((399..=401).contains(&within(profile, 0, 4)), "{}", within(profile, 0, 4));
        assert!((499..=501).contains(&within(profile, 4, 5)), "{}", within(profile, 4, 5));
        assert!((99..=101).contains(&within(profile, 5, 6)), "{}", within(profile, 5, 6));
    }

    #[test]
    fn closed_model_has_no_fixed_arrivals() {
        assert!(Profile::Closed { clients: 8 }.arrivals().is_none());
    }

    fn orders(seed: u64) -> Vec<Wish> {
        let skus = ["A-1", "A-2", "A-3"].map(str::to_owned).to_vec();
        Orders::new(OrderMix { skus, max_quantity: 3, keys: "s0".into(), seed }).take(300).collect()
    }

    #[test]
    fn the_same_seed_repeats_the_orders() {
        assert_eq!(orders(7), orders(7));
        assert_ne!(orders(7), orders(8));
    }

    #[test]
    fn keys_are_unique_and_all_products_and_quantities_occur() {
        let orders = orders(7);
        assert_eq!(orders.iter().map(|wish| &wish.key).collect::<BTreeSet<_>>().len(), 300);
        assert_eq!(orders.iter().map(|wish| &wish.sku).collect::<BTreeSet<_>>().len(), 3);
        let quantities: BTreeSet<_> = orders.iter().map(|wish| wish.quantity).collect();
        assert_eq!(quantities, BTreeSet::from([1, 2, 3]));
    }
}
