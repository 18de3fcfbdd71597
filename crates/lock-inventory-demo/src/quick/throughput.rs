//! The throughput under the lock, compared with the possible throughput. With one product, the
//! limit is the sequential execution of critical sections. With a hundred products, the limit is
//! the database, measured with the conditional update.

use super::{
    Plan, QuickError,
    crowd::{self, Journal},
    progress::Progress,
    sale::open,
    timings::Timings,
};
use crate::{
    domain::{Catalogue, Cents, Order, Product, Quantity, Sku},
    fault::Faults,
    http::{Admin, router},
    store::{DatabaseUrl, Store},
    strategy::Strategy,
};
use lock_core::LockOptions;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// The throughput of each measurement, in orders per second.
#[derive(Debug, Clone, Copy)]
pub struct Throughput {
    /// Throughput of one product under the lock.
    pub hot: f64,
    /// Mean time for which that product's lock was held.
    pub section: Duration,
    /// Throughput of a hundred products under their locks.
    pub spread: f64,
    /// Throughput of a hundred products with the conditional update.
    pub conditional: f64,
}

impl Throughput {
    /// Returns the throughput of one product relative to its limit, which is 1 / `section`.
    #[must_use]
    pub fn hot_share(&self) -> f64 {
        self.hot * self.section.as_secs_f64()
    }

    /// Returns the throughput of a hundred products relative to the conditional update.
    #[must_use]
    pub fn spread_share(&self) -> f64 {
        self.spread / self.conditional
    }
}

/// Number of orders in the measurement with one product.
const HOT_ORDERS: u32 = 500;
/// Number of orders in each measurement with a hundred products.
const SPREAD_ORDERS: u32 = 6_000;
/// Number of buyers in each measurement.
const BUYERS: u32 = 100;

pub(super) async fn measure(plan: &Plan) -> Result<Throughput, QuickError> {
    let hot = sell(plan, 1, HOT_ORDERS, Strategy::Fenced, "one product").await?;
    let spread = sell(plan, 100, SPREAD_ORDERS, Strategy::Fenced, "100 products").await?;
    let conditional = sell(plan, 100, SPREAD_ORDERS, Strategy::Conditional, "conditional").await?;
    Ok(Throughput {
        hot: hot.per_second,
        section: hot.section,
        spread: spread.per_second,
        conditional: conditional.per_second,
    })
}

struct Measured {
    per_second: f64,
    section: Duration,
}

async fn sell(
    plan: &Plan,
    products: u32,
    orders: u32,
    strategy: Strategy,
    label: &'static str,
) -> Result<Measured, QuickError> {
    let directory = tempfile::tempdir().map_err(QuickError::Directory)?;
    let store = Store::open(&DatabaseUrl::sqlite(&directory.path().join("shop.sqlite"))?).await?;
    store.set_up(&shelves(products, orders)).await?;
    let timings = Arc::new(Timings::default());
    let (options, observer) = (LockOptions::new(), Some(timings.clone() as _));
    let shop = open(plan, &store, "shop-1".into(), strategy, options, Faults::default(), observer).await?;
    let routes = [router(shop.clone(), Admin::Closed)];
    let journal = Journal::new(Progress::on_stderr(label, orders.into()));
    let orders: Arc<[Order]> = (0..orders).map(|number| order(number, products)).collect();
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    crowd::enter(&mut tasks, BUYERS, orders.clone(), &routes, &journal);
    crowd::all(tasks).await?;
    let per_second = orders.len() as f64 / began.elapsed().as_secs_f64();
    journal.close();
    shop.drain(Duration::from_secs(20)).await?;
    store.close().await;
    Ok(Measured { per_second, section: timings.mean_hold() })
}

/// Returns products that do not sell out.
fn shelves(products: u32, stock: u32) -> Catalogue {
    let product = |number| Product {
        sku: sku(number),
        title: format!("product {number}"),
        category: "measured".into(),
        price: Cents::new(100),
        stock: Quantity::new(stock),
    };
    Catalogue::new((0..products).map(product).collect()).expect("the product codes are unique")
}

fn order(number: u32, products: u32) -> Order {
    let key = format!("measured-{number}").parse().expect("the key is visible ASCII");
    Order { key, sku: sku(number % products), quantity: Quantity::new(1), cents: 100 }
}

fn sku(number: u32) -> Sku {
    Sku::parse(&format!("M-{number}")).expect("the code is valid")
}
