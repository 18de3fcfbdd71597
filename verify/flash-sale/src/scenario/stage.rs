//! The processes of a scenario, from the first start to the audit.

use super::site::{Site, SiteError};
use crate::{
    addresses::Databases,
    audit::{self, SaleAudit},
    balancer::{Balancer, Servers, Share},
    faults::Fault,
    fleet::{Fleet, FleetError, ShopCommand},
    http_client::{ExchangeError, HttpClient},
    load::{Entry, Extent, LoadError, LoadPlan, OrderMix, Profile},
    redis::PrivateRedisError,
    report::{ServerShare, StockPoint},
    server::{Report, with_prefix},
    strategy::Strategy,
};
use distlock::{LockError, LockFactory, tower::DetachedTasks};
use http::{Request, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::body::Bytes;
use lock_inventory_demo::{
    Shop, Terms,
    audit::{AuditError, Books},
    database::DatabaseError,
    domain::{Cents, Invalid, Product},
    jobs,
    payments::Provider,
    store::{Store, StoreError},
};
use serde_json::json;
use std::{
    ffi::OsString,
    io,
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Product code of the hot product.
pub(super) const HOT: &str = "HOT-1";
/// Time limit for a response to an order.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Interval at which the stock is read.
const SAMPLE: Duration = Duration::from_millis(50);
/// Time limit for the next step of a fault, and for the open intents to be settled.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pace of the waits between the steps of a fault.
const FAULT_PACE: Pace = Pace { limit: PATIENCE, pause: Duration::from_millis(5) };

/// The time limit of a wait, and the pause between two looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) limit: Duration,
    pub(super) pause: Duration,
}

/// The shops and products of a scenario.
#[derive(Debug, Clone)]
pub(super) struct StagePlan {
    /// Name of the stage, unique within the run.
    pub(super) name: String,
    pub(super) strategy: Strategy,
    pub(super) shops: u32,
    /// Redis URL for the last shop, if it differs.
    pub(super) last_shop_by: Option<String>,
    /// Products and the number of units of each.
    pub(super) products: Vec<(String, u32)>,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
}

/// The shops of a scenario behind a balancer, with one database, and one of the payment provider.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) fleet: Fleet,
    pub(super) balancer: Balancer,
    pub(super) store: Store,
    pub(super) directory: PathBuf,
    pub(super) zero: Instant,
    provider: Provider,
    prefix: String,
    pids: Vec<u32>,
}

/// An error that ended a scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A server of the run could not be started or used.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// A shop did not start or stop.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// Redis did not restart.
    #[error(transparent)]
    Redis(#[from] PrivateRedisError),
    /// The load did not complete.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The shops' database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The provider's database failed.
    #[error(transparent)]
    Payments(#[from] DatabaseError),
    /// The books could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The lock store failed.
    #[error(transparent)]
    Locks(#[from] LockError),
    /// A product of the scenario is invalid.
    #[error(transparent)]
    Product(#[from] Invalid),
    /// A system call failed.
    #[error("could not run the scenario")]
    System(#[from] io::Error),
    /// A shop refused a request that the run sent.
    #[error("{shop} did not {what}: {answer}")]
    Refused {
        /// Address of the shop.
        shop: SocketAddr,
        /// Requested action.
        what: &'static str,
        /// Response of the shop.
        answer: String,
    },
    /// A condition did not become true.
    #[error("gave up waiting for {0}")]
    Never(&'static str),
}

impl Stage {
    /// Starts the shops with new databases that contain the products.
    pub(super) async fn open(site: &Site, plan: &StagePlan) -> Result<Self, ScenarioError> {
        let directory = site.directory(&plan.name)?;
        let databases = site.databases(&plan.name).await?;
        let store = Store::open(databases.shop.reveal()).await?;
        store.set_up(&products(&plan.products)?).await?;
        let provider = Provider::open(databases.payments.reveal(), Duration::ZERO).await?;
        let prefix = format!("{}-{}", site.id(), plan.name);
        let servers = Servers::default();
        let mut commands: Vec<_> =
            (0..plan.shops).map(|_| command(plan, site, site.redis_url(), &databases, &prefix)).collect();
        if let (Some(last), Some(redis)) = (commands.last_mut(), &plan.last_shop_by) {
            *last = command(plan, site, redis, &databases, &prefix);
        }
        let fleet = Fleet::start(commands, servers.clone(), &directory).await?;
        let balancer = Balancer::start((Ipv4Addr::LOCALHOST, 0).into(), servers).await?;
        let pids = fleet.statuses().iter().map(|shop| shop.pid).collect();
        Ok(Self { fleet, balancer, store, directory, zero: Instant::now(), provider, prefix, pids })
    }

    /// Returns the milliseconds since the start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Requests the report of a shop.
    pub(super) async fn report(&self, shop: SocketAddr) -> Result<Report, ScenarioError> {
        let request = Request::get("/state").body(Full::default()).map_err(io::Error::other)?;
        let body = exchange(shop, "respond", request).await?;
        serde_json::from_slice(&body).map_err(|error| ScenarioError::System(error.into()))
    }

    /// Returns the summed counters of all products.
    pub(super) async fn look(&self) -> Result<StockPoint, ScenarioError> {
        let stock_counts = audit::stock_counts(&self.store).await?;
        let (stock, sold) =
            stock_counts.iter().fold((0, 0), |(stock, sold), row| (stock + row.stock, sold + row.sold));
        Ok(StockPoint { ms: self.now_ms(), stock, sold })
    }

    /// Records the stock repeatedly until the future is dropped.
    pub(super) async fn watch(&self, points: &mut Vec<StockPoint>) -> Result<(), ScenarioError> {
        loop {
            points.push(self.look().await?);
            sleep(SAMPLE).await;
        }
    }

    /// Waits until this many units are sold.
    pub(super) async fn until_sold(&self, pieces: i64) -> Result<(), ScenarioError> {
        let sold = async || Ok((self.look().await?.sold >= pieces).then_some(()));
        until("the next sale", FAULT_PACE, sold).await
    }

    /// Waits until one of these shops holds a product's lock.
    pub(super) async fn until_held(&self, shops: Range<usize>) -> Result<(), ScenarioError> {
        let held = async || {
            for shop in shops.clone() {
                let report = self.report(self.fleet.status(shop).address).await?;
                if report.locks.iter().any(|lock| lock.token.is_some()) {
                    return Ok(Some(()));
                }
            }
            Ok(None)
        };
        until("the next holder", FAULT_PACE, held).await
    }

    /// Arms a fault in a shop.
    pub(super) async fn arm(&self, shop: usize, fault: Fault) -> Result<(), ScenarioError> {
        let request = Request::post("/control/fault")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(json!(fault).to_string()))
            .map_err(io::Error::other)?;
        exchange(self.fleet.status(shop).address, "accept a fault", request).await.map(drop)
    }

    /// Returns the plan of a load of single units on this stage, without aborts and without a journal.
    pub(super) fn load(
        &self,
        profile: Profile,
        extent: Extent,
        skus: Vec<String>,
        keys: &str,
        seed: u64,
    ) -> LoadPlan {
        LoadPlan {
            target: self.balancer.address(),
            profile,
            extent,
            mix: OrderMix { skus, max_quantity: 1, keys: keys.to_owned(), seed },
            timeout: ANSWER_WITHIN,
            aborts: None,
            journal: None,
            zero: self.zero,
        }
    }

    /// Connects to the shops' locks.
    pub(super) async fn locks(&self, site: &Site) -> Result<LockFactory, ScenarioError> {
        locks(site, &self.prefix).await
    }

    /// Returns each shop's share of the requests.
    pub(super) fn shares(&self) -> Vec<ServerShare> {
        let shares = self.balancer.servers().shares();
        let all: u64 = shares.iter().map(|share| share.requests).sum();
        let share = |(share, pid): (Share, &u32)| ServerShare {
            share: share.requests as f64 / all.max(1) as f64,
            name: share.name,
            pid: *pid,
            requests: share.requests,
        };
        shares.into_iter().zip(&self.pids).map(share).collect()
    }

    /// Stops all shops, settles what they left open, and audits the books.
    pub(super) async fn close(self, site: &Site, entries: &[Entry]) -> Result<SaleAudit, ScenarioError> {
        let Self { fleet, balancer, store, provider, prefix, .. } = self;
        drop(balancer);
        fleet.stop().await?;
        settle(site, &prefix, &store, &provider).await?;
        let books = Books::read(&store, &provider).await?;
        store.database().close().await;
        provider.database().close().await;
        Ok(SaleAudit::of(&books, Some(entries)))
    }
}

async fn locks(site: &Site, prefix: &str) -> Result<LockFactory, ScenarioError> {
    let (locks, _ledger) = site.locks().connect().await?;
    Ok(with_prefix(locks, prefix).build()?)
}

/// Does what the shops' job `settle` does, for all intents at once: the job of a shop that runs for a minute longer would
/// have done it.
async fn settle(site: &Site, prefix: &str, store: &Store, provider: &Provider) -> Result<(), ScenarioError> {
    if store.open_intents(Duration::ZERO).await?.is_empty() {
        return Ok(());
    }
    let locks = locks(site, prefix).await?;
    let payments = Arc::new(provider.clone());
    let terms = Terms { wait: PATIENCE, ..Terms::default() };
    let shop = Shop { locks, store: store.clone(), payments, tasks: DetachedTasks::new(), terms };
    let begin = Instant::now();
    // Each call settles as many as a run of the job does.
    while !store.open_intents(Duration::ZERO).await?.is_empty() {
        if begin.elapsed() > PATIENCE {
            return Err(ScenarioError::Never("the open intents to be settled"));
        }
        if let Err(error) = jobs::settle_open(&shop, Duration::ZERO).await {
            tracing::warn!(%error, "settling again");
        }
    }
    shop.locks.shutdown().await;
    Ok(())
}

/// Repeats `look` until it returns a value, which is `what` the caller waits for.
pub(super) async fn until<T>(
    what: &'static str,
    pace: Pace,
    look: impl AsyncFn() -> Result<Option<T>, ScenarioError>,
) -> Result<T, ScenarioError> {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look().await? {
            return Ok(seen);
        }
        if begin.elapsed() > pace.limit {
            return Err(ScenarioError::Never(what));
        }
        sleep(pace.pause).await;
    }
}

/// Sends one request and returns the response body.
pub(super) async fn exchange(
    shop: SocketAddr,
    what: &'static str,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, ScenarioError> {
    let refused = |error: ExchangeError| ScenarioError::Refused { shop, what, answer: error.to_string() };
    HttpClient::new(shop).exchange(request).await.map_err(refused)
}

fn products(products: &[(String, u32)]) -> Result<Vec<Product>, Invalid> {
    let product = |(sku, units): &(String, u32)| {
        let title = format!("Product {sku}");
        Ok(Product { sku: sku.parse()?, title, price: Cents::new(250), initial: i64::from(*units) })
    };
    products.iter().map(product).collect()
}

fn command(plan: &StagePlan, site: &Site, redis: &str, databases: &Databases, prefix: &str) -> ShopCommand {
    let millis = |duration: Duration| OsString::from(duration.as_millis().to_string());
    let arguments: Vec<OsString> = vec![
        "serve".into(),
        "--headless".into(),
        "--until-stdin-ends".into(),
        "--strategy".into(),
        plan.strategy.name().into(),
        "--prefix".into(),
        prefix.into(),
        "--lease".into(),
        millis(plan.lease),
        "--wait".into(),
        millis(plan.wait),
    ];
    let secrets = [
        (ShopCommand::LOCKS, redis),
        (ShopCommand::DATABASE, databases.shop.reveal()),
        (ShopCommand::PAYMENTS, databases.payments.reveal()),
    ];
    let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    ShopCommand { program: site.program.clone(), arguments, secrets }
}
