//! The processes of a scenario, from the first start to the audit.

use super::site::{Site, SiteError};
use crate::{
    audit::outcomes,
    balancer::{Balancer, Servers},
    domain::Audit,
    fleet::{Fleet, FleetError, PrivateRedisError, ShopCommand},
    http_client::HttpClient,
    load::{Entry, LoadError},
    report::{ServerShare, StockPoint},
    store::{DatabaseUrl, Store, StoreError},
    strategy::Strategy,
};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use serde_json::Value;
use std::{
    ffi::OsString,
    fmt::Write,
    io,
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Product code of the hot product.
pub(super) const HOT: &str = "HOT-1";
/// Interval at which the stock is read.
const SAMPLE: Duration = Duration::from_millis(50);
/// Time limit for a condition to become true.
const PATIENCE: Duration = Duration::from_secs(20);

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
    pub(super) seed: u64,
}

/// The shops of a scenario, with one database, behind a balancer.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) fleet: Fleet,
    pub(super) balancer: Balancer,
    pub(super) store: Store,
    pub(super) directory: PathBuf,
    pub(super) zero: Instant,
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
    /// A database operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// Starts the shops with a new database that contains the products.
    pub(super) async fn open(site: &Site, plan: &StagePlan) -> Result<Self, ScenarioError> {
        let directory = site.directory(&plan.name)?;
        let catalogue = directory.join("catalogue.csv");
        std::fs::write(&catalogue, csv(&plan.products))?;
        let database = site.database(&plan.name).await?;
        let servers = Servers::default();
        let mut commands: Vec<_> =
            (0..plan.shops).map(|_| command(plan, site, site.redis_url(), &database, &catalogue)).collect();
        if let (Some(last), Some(redis)) = (commands.last_mut(), &plan.last_shop_by) {
            *last = command(plan, site, redis, &database, &catalogue);
        }
        let fleet = Fleet::start(commands, servers.clone(), &directory).await?;
        let balancer = Balancer::start((Ipv4Addr::LOCALHOST, 0).into(), servers).await?;
        let store = Store::open(&database.parse::<DatabaseUrl>()?).await?;
        let pids = fleet.statuses().iter().map(|shop| shop.pid).collect();
        Ok(Self { fleet, balancer, store, directory, zero: Instant::now(), pids })
    }

    /// Returns the milliseconds since the start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Requests a document from a shop.
    pub(super) async fn get(&self, address: SocketAddr, path: &str) -> Result<Value, ScenarioError> {
        let request = Request::get(path).body(Full::default()).map_err(io::Error::other)?;
        let body = exchange(address, "respond", request).await?;
        serde_json::from_slice(&body).map_err(|error| ScenarioError::System(error.into()))
    }

    /// Returns the summed counters of all products.
    pub(super) async fn look(&self) -> Result<StockPoint, ScenarioError> {
        let products = self.store.products().await?;
        let (stock, sold) =
            products.iter().fold((0, 0), |(stock, sold), row| (stock + row.stock, sold + row.sold));
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
        let begin = Instant::now();
        while self.look().await?.sold < pieces {
            if begin.elapsed() > PATIENCE {
                return Err(ScenarioError::Never("the next sale"));
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Waits until one of these shops holds a product's lock.
    pub(super) async fn until_held(&self, shops: Range<usize>) -> Result<(), ScenarioError> {
        let begin = Instant::now();
        loop {
            for shop in shops.clone() {
                let state = self.get(self.fleet.status(shop).address, "/state").await?;
                let products = state["stock"].as_array();
                if products.into_iter().flatten().any(|product| product["holder"].is_string()) {
                    return Ok(());
                }
            }
            if begin.elapsed() > PATIENCE {
                return Err(ScenarioError::Never("the next holder"));
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends an admin command to a shop.
    pub(super) async fn admin(&self, shop: usize, path: &str, body: &Value) -> Result<(), ScenarioError> {
        let request = Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_string()))
            .map_err(io::Error::other)?;
        exchange(self.fleet.status(shop).address, "accept a command", request).await.map(drop)
    }

    /// Returns each shop's share of the requests.
    pub(super) fn shares(&self) -> Vec<ServerShare> {
        let shares = self.balancer.servers().shares();
        let all: u64 = shares.iter().map(|share| share.requests).sum();
        let share = |(share, pid): (crate::balancer::Share, &u32)| ServerShare {
            share: share.requests as f64 / all.max(1) as f64,
            name: share.name,
            pid: *pid,
            requests: share.requests,
        };
        shares.into_iter().zip(&self.pids).map(share).collect()
    }

    /// Stops all shops and audits the database.
    pub(super) async fn close(self, entries: &[Entry]) -> Result<Audit, ScenarioError> {
        let Self { fleet, balancer, store, .. } = self;
        drop(balancer);
        fleet.stop().await?;
        let books = store.books().await?;
        store.close().await;
        Ok(Audit::of(&books, Some(&outcomes(entries))))
    }
}

/// Sends one request and returns the response body.
pub(super) async fn exchange(
    shop: SocketAddr,
    what: &'static str,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, ScenarioError> {
    let refused = |answer: String| ScenarioError::Refused { shop, what, answer };
    let response = HttpClient::new(shop).send(request).await.map_err(|error| refused(error.to_string()))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| refused(error.to_string()))?.to_bytes();
    match status.is_success() {
        true => Ok(body),
        false => Err(refused(format!("{status} {}", String::from_utf8_lossy(&body)))),
    }
}

fn csv(products: &[(String, u32)]) -> String {
    let mut text = "sku,title,category,price_cents,stock\n".to_owned();
    for (sku, pieces) in products {
        let _ = writeln!(text, "{sku},Product {sku},Things,250,{pieces}");
    }
    text
}

fn command(plan: &StagePlan, site: &Site, redis: &str, database: &str, catalogue: &Path) -> ShopCommand {
    let millis = |duration: Duration| OsString::from(duration.as_millis().to_string());
    let arguments: Vec<OsString> = vec![
        "serve".into(),
        "--headless".into(),
        "--until-stdin-ends".into(),
        "--admin".into(),
        "--listen".into(),
        "127.0.0.1:0".into(),
        "--catalogue".into(),
        catalogue.into(),
        "--strategy".into(),
        plan.strategy.name().into(),
        "--prefix".into(),
        format!("{}-{}", site.id(), plan.name).into(),
        "--lease".into(),
        millis(plan.lease),
        "--wait".into(),
        millis(plan.wait),
        "--seed".into(),
        plan.seed.to_string().into(),
    ];
    let secrets =
        vec![("DEMO_REDIS".to_owned(), redis.to_owned()), ("DEMO_DATABASE".to_owned(), database.to_owned())];
    ShopCommand { program: site.program.clone(), arguments, secrets }
}
