//! One flash sale: a fresh database, several shops, a crowd of buyers, and the audit afterwards.

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

/// What a sale did.
#[derive(Debug)]
pub struct Sale {
    /// The way in which the shops sold.
    pub strategy: Strategy,
    /// The audit of its books.
    pub audit: Audit,
    /// The orders that were answered.
    pub answered: u64,
    /// The orders that found too little stock.
    pub sold_out: u64,
    /// The orders that the store refused as stale.
    pub refused: u64,
    /// The time from the first order of the crowd to the last answer.
    pub elapsed: Duration,
    /// The waits for the locks, in microseconds.
    pub waits: Histogram<u64>,
}

/// No request of a sale gives up.
const WAIT: Duration = Duration::from_secs(120);

/// How long requests may take to end.
const DRAIN: Duration = Duration::from_secs(20);

/// A shop of a sale.
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

/// Runs a sale. In one with the lock, one more shop stalls: see [`stall`].
pub(super) async fn run(plan: &Plan, strategy: Strategy, progress: Progress) -> Result<Sale, QuickError> {
    let directory = tempfile::tempdir().map_err(QuickError::Directory)?;
    // One store for all shops, as a server of databases would be.
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
