//! The servers of a test, its shops, and its customers.

mod customer;
mod shop;
mod world;

pub(crate) use customer::{Customer, Reply};
pub(crate) use shop::{Settings, Shop};
pub(crate) use world::{PRICE, World, assert_honest};

use std::time::Duration;
use tokio::time::Instant;

/// The time limit of every wait. It is only reached if the condition never holds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for a condition that another process is about to fulfil.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
