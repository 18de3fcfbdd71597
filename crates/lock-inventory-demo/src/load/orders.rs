//! The orders of a load: one seed, the same orders.

use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The orders to draw from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderMix {
    /// The codes of the products, each drawn as often as the others. Not empty.
    pub skus: Vec<String>,
    /// The largest number of pieces in an order, at least 1.
    pub max_quantity: u32,
    /// The first part of every key. It keeps the loads of one database apart.
    pub keys: String,
    /// The seed.
    pub seed: u64,
}

/// One order that a client wants to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The `Idempotency-Key`: one per order, also when it is sent again.
    pub key: String,
    /// The code of the product.
    pub sku: String,
    /// How many pieces.
    pub quantity: u32,
    /// A seed for all further draws about this order.
    pub seed: u64,
}

/// The stream of orders. It does not end.
#[derive(Debug)]
pub struct Orders {
    mix: OrderMix,
    random: StdRng,
    number: u64,
}

impl Orders {
    /// The orders of `mix`, from the first on.
    ///
    /// # Panics
    /// If the mix has no product.
    #[must_use]
    pub fn new(mix: OrderMix) -> Self {
        assert!(!mix.skus.is_empty(), "orders are drawn from at least one product");
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
    fn seed_repeats_the_orders() {
        assert_eq!(orders(7), orders(7));
        assert_ne!(orders(7), orders(8));
    }

    #[test]
    fn every_key_is_new_and_every_product_and_quantity_is_drawn() {
        let orders = orders(7);
        assert_eq!(orders.iter().map(|wish| &wish.key).collect::<BTreeSet<_>>().len(), 300);
        assert_eq!(orders.iter().map(|wish| &wish.sku).collect::<BTreeSet<_>>().len(), 3);
        let quantities: BTreeSet<_> = orders.iter().map(|wish| wish.quantity).collect();
        assert_eq!(quantities, BTreeSet::from([1, 2, 3]));
    }
}
