//! The tests of the reference application: real SQLite, real locks in memory and on Redis, real processes, and the
//! program itself.

// What they share may unwrap as they do.
#![allow(clippy::unwrap_used)]

mod audit;
mod balancer;
mod catalogue;
mod fleet;
mod load;
mod place;
#[cfg(target_os = "linux")] // they look into /proc
mod processes;
mod program;
mod sale;
mod shop;
mod store;

use lock_inventory_demo::{
    domain::{Catalogue, Cents, Order, OrderNumber, Product, Quantity, Sku},
    store::Store,
};
use std::path::PathBuf;
use tempfile::TempDir;

/// A database in a directory of its own, which goes with it.
struct Shelf {
    store: Store,
    path: PathBuf,
    _directory: TempDir,
}

impl Shelf {
    async fn of(catalogue: &Catalogue) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shop.sqlite");
        Self { store: Store::create(&path, catalogue).await.unwrap(), path, _directory: directory }
    }
}

/// `products` products, `P-0` first, with `stock` pieces each.
fn catalogue(products: u32, stock: u32) -> Catalogue {
    let product = |number| Product {
        sku: sku(number),
        title: format!("thing {number}"),
        category: "things".into(),
        price: Cents::new(250),
        stock: Quantity::new(stock),
    };
    Catalogue::new((0..products).map(product).collect()).unwrap()
}

fn sku(number: u32) -> Sku {
    Sku::parse(&format!("P-{number}")).unwrap()
}

/// An order for one piece of `P-0`.
fn order(number: u32) -> Order {
    Order { number: OrderNumber::new(number), sku: sku(0), quantity: Quantity::new(1), cents: 250 }
}
