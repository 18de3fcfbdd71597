//! A shop, with the state shared by its routes and jobs.

mod counters;
mod current;
mod holders;
mod metrics;
mod reserving;
mod snapshot;

pub use counters::{Counters, Counts};
pub(crate) use current::StrategyInUse;
pub use holders::LocalLock;
pub use metrics::MetricsError;

use crate::{
    domain::{Cents, Sku},
    fault::Faults,
    locks::Locks,
    payment::Payments,
    store::{Store, StoreError},
    strategy::{RedisStock, Seller, Strategy},
};
use current::CurrentStrategy;
use holders::Holders;
use lock_core::{Lock, LockError, LockFactory, LockName, LockOptions, observer::OtelObserver};
use lock_cron::Scheduler;
use lock_tower::{DetachedTasks, observer::LayerObserver};
use metrics::Metrics;
use snapshot::Board;
pub(crate) use snapshot::FRESH;
use std::{
    collections::HashMap,
    process,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Settings for a shop.
#[derive(Debug, Clone)]
pub struct ShopConfig {
    /// Shop name, used in the ledger and in the header `x-shop`.
    pub name: String,
    /// Initial strategy.
    pub strategy: Strategy,
    /// Prefix for the names of all locks, jobs and Redis keys, for shops that share a Redis server
    /// with other applications; see
    /// [`LockFactoryBuilder::prefix`](lock_core::LockFactoryBuilder::prefix). Can be empty. Shops
    /// that sell the same stock need the same prefix.
    pub prefix: String,
    /// Lock options.
    pub options: LockOptions,
    /// Maximum wait for a lock.
    pub wait: Duration,
    /// Seed for the payment delays.
    pub seed: u64,
    /// Observer of the routes that acquire locks, in addition to the metrics.
    pub observer: Option<Arc<dyn LayerObserver>>,
    /// Stock below which the restock job restocks a product to its initial stock; 0 disables it.
    pub restock_below: u32,
}

impl Default for ShopConfig {
    /// Returns settings with a lease of 10 s, a wait of 1 s, the strategy
    /// [`Fenced`](Strategy::Fenced), and no restocking.
    fn default() -> Self {
        Self {
            name: "shop-1".into(),
            strategy: Strategy::Fenced,
            prefix: String::new(),
            options: LockOptions::new().lease(Duration::from_secs(10)),
            wait: Duration::from_secs(1),
            seed: 42,
            observer: None,
            restock_below: 0,
        }
    }
}

impl ShopConfig {
    /// Returns `name` with the prefix.
    pub(crate) fn qualified(&self, name: &str) -> String {
        match &*self.prefix {
            "" => name.to_owned(),
            prefix => format!("{prefix}:{name}"),
        }
    }
}

/// A shop. Several shops, in one or more processes, share only the database and the lock store.
#[derive(Debug)]
pub struct Shop {
    pub(crate) config: ShopConfig,
    pub(crate) seller: Seller,
    pub(crate) prices: HashMap<Sku, Cents>,
    pub(crate) locks: LockFactory,
    pub(crate) lock_store: Locks,
    pub(crate) faults: Faults,
    pub(crate) counters: Arc<Counters>,
    pub(crate) holders: Arc<Holders>,
    pub(crate) metrics: Metrics,
    /// Handlers that hold a lock.
    pub(crate) detached: DetachedTasks,
    /// Handlers that sell without a lock.
    pub(crate) tasks: TaskTracker,
    pub(crate) board: Board,
    strategy: CurrentStrategy,
    cron: OnceLock<Scheduler>,
    closing: watch::Sender<bool>,
}

impl Shop {
    /// Opens a shop on a [set-up](Store::set_up) database.
    ///
    /// # Errors
    /// Returns [`ShopError`] if the database fails or a lock option is invalid.
    ///
    /// # Cancel safety
    /// Dropping this leaves nothing behind.
    pub async fn open(
        config: ShopConfig,
        store: Store,
        lock_store: Locks,
        redis: Option<RedisStock>,
        faults: Faults,
    ) -> Result<Arc<Self>, ShopError> {
        let mut prices = HashMap::new();
        for product in store.products().await? {
            if let (Ok(sku), Ok(cents)) = (Sku::parse(&product.sku), u32::try_from(product.price_cents)) {
                prices.insert(sku, Cents::new(cents));
            }
        }
        let counters = Arc::new(Counters::default());
        let metrics = Metrics::new(&config.name, &counters)?;
        let holders = Arc::new(Holders::default());
        let locks = LockFactory::builder(lock_store.store())
            .options(config.options)
            .observer(OtelObserver::new(metrics.meter()))
            .observer(holders.clone());
        let locks = match &*config.prefix {
            "" => locks.build()?,
            prefix => locks.prefix(prefix).build()?,
        };
        let payments = Payments::new(config.seed, faults.clone());
        Ok(Arc::new(Self {
            seller: Seller::new(&config.name, store, payments, redis),
            strategy: CurrentStrategy::new(config.strategy),
            config,
            prices,
            locks,
            lock_store,
            faults,
            counters,
            holders,
            metrics,
            detached: DetachedTasks::new(),
            tasks: TaskTracker::new(),
            board: Board::default(),
            cron: OnceLock::new(),
            closing: watch::Sender::new(false),
        }))
    }

    /// Returns the name and the process id, as in the header `x-shop`.
    #[must_use]
    pub fn instance(&self) -> String {
        format!("{}/{}", self.config.name, process::id())
    }

    /// Returns the seller.
    #[must_use]
    pub fn seller(&self) -> &Seller {
        &self.seller
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.seller.store()
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.now()
    }

    /// Returns the current strategy.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy.get()
    }

    /// Returns the strategy for an order that starts now.
    pub(crate) fn begin(&self) -> StrategyInUse {
        self.strategy.begin()
    }

    pub(crate) fn set_strategy(&self, strategy: Strategy) {
        self.strategy.set(strategy);
    }

    /// Returns a product's lock, with the same name as in the layer.
    pub(crate) fn lock(&self, sku: &Sku) -> Result<Lock, LockError> {
        self.locks.named(LockName::of(("stock", sku))?)
    }

    /// Sets the shop's scheduler.
    pub(crate) fn set_cron(&self, cron: Scheduler) {
        let _ = self.cron.set(cron);
    }

    pub(crate) fn cron(&self) -> Option<&Scheduler> {
        self.cron.get()
    }

    /// Ends all event streams. Called when the server begins to drain.
    pub(crate) fn begin_closing(&self) {
        self.closing.send_replace(true);
    }

    /// Completes when the server begins to drain.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.closing.subscribe();
        async move {
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }

    /// Waits for running handlers, including those whose clients have disconnected, and
    /// releases the locks.
    ///
    /// # Errors
    /// Returns [`ShopError::StillBusy`] if handlers are still running after `within`, and
    /// [`ShopError::LeftLocked`] if the release of a lock was not confirmed. That lock is freed
    /// when its lease expires.
    pub async fn drain(&self, within: Duration) -> Result<(), ShopError> {
        self.tasks.close();
        let drained = async { tokio::join!(self.detached.drain(within), self.tasks.wait()).0 };
        let drained = tokio::time::timeout(within, drained).await.is_ok_and(|drained| drained.is_ok());
        let report = self.locks.shutdown().await;
        if !drained {
            return Err(ShopError::StillBusy { within });
        }
        match report.unconfirmed.into_iter().next() {
            Some(name) => Err(ShopError::LeftLocked { name }),
            None => Ok(()),
        }
    }
}

/// An error while opening or closing a shop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShopError {
    /// A database operation failed.
    #[error("could not access the shop's database")]
    Store(#[from] StoreError),
    /// A lock could not be created or acquired.
    #[error("could not create or acquire one of the shop's locks")]
    Locks(#[from] LockError),
    /// The metrics could not be set up.
    #[error("could not set up the shop's metrics")]
    Metrics(#[from] MetricsError),
    /// Handlers were still running after the time limit.
    #[error(
        "request handlers were still running {within:?} after shutdown began: look for a call without a timeout"
    )]
    StillBusy {
        /// Time limit.
        within: Duration,
    },
    /// The release of a lock was not confirmed.
    #[error(
        "the shop closed before the release of {name} was confirmed: the lock may stay held until its lease expires"
    )]
    LeftLocked {
        /// Name of the lock.
        name: LockName,
    },
}
