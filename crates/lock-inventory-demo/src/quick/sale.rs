//! A flash sale: a new database, several shops, a crowd of buyers, and the audit afterwards.

use super::{
    Plan, QuickError,
    crowd::{self, Journal},
    progress::Progress,
    stall,
    timings::Timings,
};
use crate::{
    domain::{Audit, Order},
    fault::Faults,
    http::{Admin, router},
    shop::{Shop, ShopConfig},
    store::{DatabaseUrl, Store},
    strategy::Strategy,
};
use hdrhistogram::Histogram;
use lock_core::LockOptions;
use lock_tower::observer::LayerObserver;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// The result of a sale.
#[derive(Debug)]
pub struct Sale {
    /// Strategy of the shops.
    pub strategy: Strategy,
    /// Audit of the books.
    pub audit: Audit,
    /// Number of orders with a response.
    pub answered: u64,
    /// Number of orders refused because of too little stock.
    pub sold_out: u64,
    /// Number of orders that the store refused as stale.
    pub refused: u64,
    /// Time from the first order of the crowd to the last response.
    pub elapsed: Duration,
    /// Waits for the locks, in microseconds.
    pub waits: Histogram<u64>,
}

/// Maximum wait for a lock, long enough for every request to acquire it.
const WAIT: Duration = Duration::from_secs(120);

/// Time limit for requests when a shop closes.
const DRAIN: Duration = Duration::from_secs(20);

/// Opens a shop for a sale.
pub(super) async fn open(
    plan: &Plan,
    store: &Store,
    name: String,
    strategy: Strategy,
    options: LockOptions,
    faults: Faults,
    observer: Option<Arc<dyn LayerObserver>>,
) -> Result<Arc<Shop>, QuickError> {
    let config = ShopConfig {
        name,
        strategy,
        prefix: plan.prefix.clone(),
        options,
        wait: WAIT,
        seed: plan.options.seed,
        observer,
        restock_below: 0,
    };
    Ok(Shop::open(config, store.clone(), plan.locks.clone(), None, faults).await?)
}

/// Runs a sale. With the lock, an additional shop stalls; see [`stall`].
pub(super) async fn run(plan: &Plan, strategy: Strategy, progress: Progress) -> Result<Sale, QuickError> {
    let directory = tempfile::tempdir().map_err(QuickError::Directory)?;
    // All shops share one store, like one database server.
    let store = Store::open(&DatabaseUrl::sqlite(&directory.path().join("shop.sqlite"))?).await?;
    store.set_up(&plan.catalogue).await?;
    let timings = Arc::new(Timings::default());
    let journal = Journal::new(progress);
    let mut shops = Vec::new();
    for number in 1..=plan.options.shops {
        let (name, observer) = (format!("shop-{number}"), Some(timings.clone() as Arc<dyn LayerObserver>));
        let options = LockOptions::new();
        shops.push(open(plan, &store, name, strategy, options, Faults::default(), observer).await?);
    }
    let routes: Vec<_> = shops.iter().map(|shop| router(shop.clone(), Admin::Closed)).collect();

    let mut tasks = JoinSet::new();
    let began = match strategy.needs_lock() {
        false => {
            let orders: Arc<[Order]> = [plan.demand.stalled(), plan.demand.crowd()].concat().into();
            let began = Instant::now();
            crowd::enter(&mut tasks, plan.options.buyers, orders, &routes, &journal);
            began
        }
        true => {
            let stalled = stall::begin(plan, &store, &mut tasks, &journal).await?;
            shops.push(stalled.shop.clone());
            let began = Instant::now();
            crowd::enter(&mut tasks, plan.options.buyers, plan.demand.crowd().into(), &routes, &journal);
            let store = store.clone();
            tasks.spawn(async move { stall::end(&stalled, &store).await });
            began
        }
    };
    crowd::all(tasks).await?;
    let elapsed = began.elapsed();
    for shop in &shops {
        shop.drain(DRAIN).await?;
    }

    let tally = journal.close();
    let audit = Audit::of(&store.books().await?, Some(&tally.outcomes));
    store.close().await;
    Ok(Sale {
        strategy,
        audit,
        answered: tally.answered,
        sold_out: tally.sold_out,
        refused: tally.stale,
        elapsed,
        waits: timings.waits(),
    })
}
