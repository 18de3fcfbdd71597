//! The simulated demand, mostly for a few hot products. The same seed gives the same orders.

use super::{Catalogue, IdempotencyKey, Order, Quantity, Sku};
use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, weighted::WeightedIndex},
    rngs::StdRng,
    seq::SliceRandom,
};
use std::collections::HashMap;

/// The size and seed of a demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemandSize {
    /// Number of orders.
    pub orders: u32,
    /// Number of orders that go to the shop whose payments stall.
    pub stalls: u32,
    /// Seed for all random choices.
    pub seed: u64,
}

/// The orders of one sale, in the order in which they are placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    stalled: Vec<Order>,
    crowd: Vec<Order>,
    contested: usize,
}

/// Zipf's exponent. With 1.1, the most popular of 320 products gets about a fifth of all orders.
const SKEW: f64 = 1.1;

impl Demand {
    /// Draws the orders. Products are chosen by Zipf's law from a shuffled catalogue. Most orders are for one unit, some
    /// for two or three.
    ///
    /// The stalled orders are the first orders for the most popular products, one per product, so
    /// other orders for the same products always follow.
    ///
    /// # Errors
    /// Returns [`DemandError`] if no product has more demand than stock, because such a sale would
    /// prove nothing, or if there are too few products for the stalls.
    pub fn draw(catalogue: &Catalogue, size: DemandSize) -> Result<Self, DemandError> {
        let mut random = StdRng::seed_from_u64(size.seed);
        let mut products: Vec<_> = catalogue.products().iter().collect();
        products.shuffle(&mut random);

        let weights = (1..=products.len()).map(|rank| (rank as f64).powf(-SKEW));
        let popularity = WeightedIndex::new(weights).expect("the weights are positive and not empty");
        let mut crowd: Vec<Order> = (0..size.orders)
            .map(|number| {
                let product = products[popularity.sample(&mut random)];
                let quantity = Quantity::new([1, 1, 1, 1, 1, 1, 2, 2, 2, 3][random.random_range(0..10)]);
                Order {
                    key: key(size.seed, number),
                    sku: product.sku.clone(),
                    quantity,
                    cents: product.price.times(quantity),
                }
            })
            .collect();

        let wanted = wanted(&crowd);
        let contested =
            products.iter().filter(|p| wanted.get(&p.sku).is_some_and(|w| w.units > p.stock.into()));
        let contested = contested.count();
        if contested == 0 {
            return Err(DemandError::NothingContested { orders: size.orders });
        }
        let mut hot: Vec<_> = products
            .iter()
            .filter_map(|p| wanted.get(&p.sku).map(|w| (p, w)))
            .filter(|(product, w)| w.orders >= 2 && product.stock.take(crowd[w.first].quantity).is_some())
            .collect();
        // The rank breaks ties, so the choice depends only on the seed.
        hot.sort_by_key(|(_, w)| std::cmp::Reverse(w.orders));
        let stalls = size.stalls as usize;
        if hot.len() < stalls {
            return Err(DemandError::TooManyStalls { stalls: size.stalls, most: hot.len() });
        }
        let mut first: Vec<usize> = hot[..stalls].iter().map(|(_, w)| w.first).collect();
        first.sort_unstable();
        // Removing from the end keeps the earlier indices valid.
        let mut stalled: Vec<Order> = first.iter().rev().map(|&index| crowd.remove(index)).collect();
        stalled.reverse();
        Ok(Self { stalled, crowd, contested })
    }

    /// Returns the orders for the stalling shop, each for a different product.
    #[must_use]
    pub fn stalled(&self) -> &[Order] {
        &self.stalled
    }

    /// Returns all other orders.
    #[must_use]
    pub fn crowd(&self) -> &[Order] {
        &self.crowd
    }

    /// Returns the total number of orders.
    #[must_use]
    pub fn orders(&self) -> usize {
        self.stalled.len() + self.crowd.len()
    }

    /// Returns the number of products with more demand than stock.
    #[must_use]
    pub fn contested(&self) -> usize {
        self.contested
    }
}

fn key(seed: u64, number: u32) -> IdempotencyKey {
    format!("{seed}-{number}").parse().expect("digits and a dash form a valid key")
}

struct Wanted {
    orders: u32,
    units: u64,
    first: usize,
}

fn wanted(orders: &[Order]) -> HashMap<Sku, Wanted> {
    let mut wanted: HashMap<Sku, Wanted> = HashMap::new();
    for (index, order) in orders.iter().enumerate() {
        let entry = wanted.entry(order.sku.clone()).or_insert(Wanted { orders: 0, units: 0, first: index });
        entry.orders += 1;
        entry.units += u64::from(order.quantity.get());
    }
    wanted
}

impl From<Quantity> for u64 {
    fn from(quantity: Quantity) -> Self {
        Self::from(quantity.get())
    }
}

/// The error for an unusable demand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DemandError {
    /// No product has more demand than stock.
    #[error(
        "with --orders {orders}, no product has more demand than stock, so nothing can be oversold: raise --orders, \
         or use a catalogue with less stock"
    )]
    NothingContested {
        /// Number of orders.
        orders: u32,
    },
    /// Fewer products have at least two orders than there are stalls.
    #[error(
        "--stalls {stalls} needs at least {stalls} products with two or more orders: use at most --stalls {most}, or \
         raise --orders"
    )]
    TooManyStalls {
        /// Requested number of stalls.
        stalls: u32,
        /// Largest possible number of stalls.
        most: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Cents, Product};

    fn catalogue(products: u32, stock: u32) -> Catalogue {
        let product = |n| Product {
            sku: Sku::parse(&format!("P-{n}")).unwrap(),
            title: "a thing".into(),
            category: "things".into(),
            price: Cents::new(100),
            stock: Quantity::new(stock),
        };
        Catalogue::new((0..products).map(product).collect()).unwrap()
    }

    #[test]
    fn the_same_seed_repeats_the_demand() {
        let catalogue = catalogue(100, 20);
        let size = DemandSize { orders: 1_000, stalls: 3, seed: 7 };
        let demand = Demand::draw(&catalogue, size).unwrap();
        assert_eq!(demand, Demand::draw(&catalogue, size).unwrap());
        assert_ne!(demand, Demand::draw(&catalogue, DemandSize { seed: 8, ..size }).unwrap());
        assert_eq!((demand.stalled().len(), demand.crowd().len()), (3, 997));
    }

    #[test]
    fn stalled_orders_have_successors_for_any_seed() {
        let catalogue = catalogue(40, 5);
        for seed in 0..200 {
            let demand = Demand::draw(&catalogue, DemandSize { orders: 300, stalls: 5, seed }).unwrap();
            for (index, stalled) in demand.stalled().iter().enumerate() {
                assert!(
                    demand.crowd().iter().any(|order| order.sku == stalled.sku),
                    "seed {seed}: {stalled:?}"
                );
                assert!(
                    demand.stalled()[..index].iter().all(|other| other.sku != stalled.sku),
                    "seed {seed}"
                );
            }
        }
    }

    #[test]
    fn a_sale_without_excess_demand_is_refused() {
        let size = DemandSize { orders: 10, stalls: 0, seed: 7 };
        let error = Demand::draw(&catalogue(100, 1_000), size).unwrap_err();
        assert_eq!(error, DemandError::NothingContested { orders: 10 });

        let size = DemandSize { orders: 10, stalls: 2, seed: 7 };
        let error = Demand::draw(&catalogue(1, 3), size).unwrap_err();
        assert_eq!(error, DemandError::TooManyStalls { stalls: 2, most: 1 });
    }
}
