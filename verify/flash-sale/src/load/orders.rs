//! The orders of a load. The same seed gives the same orders.

use rand::{RngExt, SeedableRng, rngs::StdRng};

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
    random: StdRng,
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
        let random = StdRng::seed_from_u64(mix.seed);
        Self { mix, random, number: 0 }
    }
}

impl Iterator for Orders {
    type Item = Wish;

    fn next(&mut self) -> Option<Wish> {
        self.number += 1;
        let sku = self.random.random_range(0..self.mix.skus.len());
        Some(Wish {
            key: format!("{}-{}", self.mix.keys, self.number),
            sku: self.mix.skus[sku].clone(),
            quantity: self.random.random_range(1..=self.mix.max_quantity.max(1)),
            seed: self.random.random(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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
