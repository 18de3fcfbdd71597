//! One flash sale: a fresh database, several shops, a crowd of buyers, and the audit afterwards.

mod book;
mod counter;
mod crowd;
mod error;
mod process;
mod shops;
mod stall;

pub use error::SaleError;
pub use process::{ProcessEnd, serve};
pub use shops::Venue;
pub use stall::STALLED_LEASE;

use crate::{
    domain::{Audit, Catalogue, Demand, Order},
    payment::Payments,
    progress::Progress,
    store::Store,
};
use book::Book;
use counter::Counter;
use hdrhistogram::Histogram;
use shops::Shops;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// What is sold, to whom, and by how many.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The products and their stock.
    pub catalogue: Catalogue,
    /// The orders.
    pub demand: Demand,
    /// How many shop instances there are.
    pub shops: u32,
    /// How many buyers order at the same time.
    pub buyers: u32,
    /// What the delays of the payment service are derived from.
    pub seed: u64,
    /// Where the shops run.
    pub venue: Venue,
}

/// Whether the shops take the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Read, think, write.
    WithoutLock,
    /// The same under a lock per product, with a fenced read and a fenced write.
    WithLock,
}

/// What a sale did.
#[derive(Debug)]
pub struct Sale {
    /// How it was sold.
    pub strategy: Strategy,
    /// What the ledger says.
    pub audit: Audit,
    /// How many orders were answered.
    pub answered: u64,
    /// How many of them found too little stock.
    pub sold_out: u64,
    /// How many of them the store refused as stale.
    pub refused: u64,
    /// From the first order of the crowd to the last answer.
    pub elapsed: Duration,
    /// The waits for the lock, in microseconds.
    pub waits: Histogram<u64>,
}

/// Runs the sale of `plan`.
///
/// In a sale with the lock, one more shop stalls: see [`STALLED_LEASE`].
///
/// # Errors
/// [`SaleError`] when a lock or a store fails, or a stall does not happen as it must.
///
/// # Cancel safety
/// Dropping this ends the sale: its processes end, and the database is removed. That waits, for a moment as a rule and
/// at most for a few seconds, until the processes have given back their locks.
pub async fn run(plan: &Plan, strategy: Strategy, progress: Progress) -> Result<Sale, SaleError> {
    let directory = tempfile::tempdir().map_err(SaleError::Directory)?;
    let path = directory.path().join("shop.sqlite");
    let store = Store::create(&path, &plan.catalogue).await?;
    let book = Arc::new(Book::new(progress));
    let stalls = match strategy {
        Strategy::WithoutLock => Vec::new(),
        Strategy::WithLock => stall::plan(plan.demand.stalled()),
    };
    let payments = Payments::new(plan.seed, stall::by_number(&stalls));
    let shops = Shops::open(plan, strategy, &path, &payments).await?;
    // After the shops, so that it is dropped before them: nobody orders any more when they end.
    let mut tasks = JoinSet::new();

    let began = match &shops.stalled {
        None => {
            let mut orders: Vec<Order> = [plan.demand.stalled(), plan.demand.crowd()].concat();
            orders.sort_by_key(|order| order.number);
            let began = Instant::now();
            crowd::enter(&mut tasks, plan.buyers, orders.into(), &shops.open, &book);
            began
        }
        Some(stalled) => {
            let hanging = stall::begin(&mut tasks, stalls, stalled, &store, &book).await?;
            let began = Instant::now();
            crowd::enter(&mut tasks, plan.buyers, plan.demand.crowd().into(), &shops.open, &book);
            tasks.spawn(stall::end(hanging, store.clone()));
            began
        }
    };
    // The first error ends the sale.
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(SaleError::Task)??;
    }
    let elapsed = began.elapsed();
    shops.close().await?;

    let audit = audit(plan, &path, &book).await?;
    store.close().await;
    let book = book.close();
    Ok(Sale {
        strategy,
        audit,
        answered: book.answered,
        sold_out: book.sold_out,
        refused: book.stale,
        elapsed,
        waits: book.waits,
    })
}

/// Reads the books on a connection of its own, after the shops have closed.
async fn audit(plan: &Plan, path: &Path, book: &Book) -> Result<Audit, SaleError> {
    let store = Store::open(path).await?;
    let (ledger, stock) = (store.ledger().await?, store.stock().await?);
    store.close().await;
    Ok(Audit::of(&plan.catalogue, &ledger, &stock, &book.accepted()))
}
