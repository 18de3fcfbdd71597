//! The stores for the servers of the dashboard (the databases, the locks and the products), and the strategies that the page
//! offers on them.

use super::{Config, snapshot::StrategyInfo};
use crate::{
    addresses::{Databases, InvalidDatabase},
    fleet::{Fleet, ShopCommand},
    http_client::HttpClient,
    redis::{PrivateRedis, PrivateRedisError},
    strategy::Strategy,
};
use bytes::Bytes;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::Full;
use lock_inventory_demo::{
    domain::{Product, catalogue},
    store::{Store, StoreError},
};
use serde_json::json;
use std::{ffi::OsString, fmt, io, path::Path};
use tempfile::TempDir;
use uuid::Uuid;

/// Number of products on the page. The load generator orders only these.
const HOT: usize = 8;
/// Units of each product before the sale. Few, so that a wrong strategy soon sells units that are not there.
const STOCK: i64 = 240;
/// Schedule and units of the restocking of each hot product. At the default rate of the load, they are sold out for some
/// seconds of each period.
const RESTOCKING: (&str, u32) = ("*/10 * * * * *", 100);

const ALONE: &str = "Only one server is started, with its locks in memory, because redis-server was not found. \
    Install it (Debian: apt-get install redis-server), or use --locks redis://… to start several servers.";

/// The stores. Dropping this removes the temporary ones.
#[derive(Debug)]
pub(super) struct Place {
    /// Number of servers.
    pub(super) servers: usize,
    /// Reason for starting only one server, if there is one.
    pub(super) note: Option<&'static str>,
    /// Codes and titles of the hot products.
    pub(super) products: Vec<(String, String)>,
    /// The servers' database.
    pub(super) store: Store,
    databases: Databases,
    is_temporary: bool,
    locks: LocksAt,
    /// Redis URL. It may contain a password, so it is passed to the servers in their environment.
    redis: Option<String>,
    directory: TempDir,
}

#[derive(Debug)]
enum LocksAt {
    Memory,
    Private(#[expect(dead_code, reason = "dropping it stops the server")] PrivateRedis),
    Given(String),
}

impl Place {
    /// Prepares the stores, and starts a private redis-server if none is given. An empty database receives products.
    pub(super) async fn open(config: &Config) -> Result<Self, PlaceError> {
        let directory = tempfile::tempdir().map_err(PlaceError::Directory)?;
        let (locks, redis) = match &config.locks {
            Some(given) => match given.reveal() {
                Some(url) => (LocksAt::Given(given.to_string()), Some(url.to_owned())),
                None => (LocksAt::Memory, None),
            },
            None => match PrivateRedis::start().await {
                Ok(server) => {
                    let url = server.url();
                    (LocksAt::Private(server), Some(url))
                }
                Err(PrivateRedisError::NotInstalled(_)) => (LocksAt::Memory, None),
                Err(error) => return Err(error.into()),
            },
        };
        let note = (redis.is_none() && config.locks.is_none()).then_some(ALONE);
        let (databases, is_temporary) = match &config.databases {
            Some(databases) => (databases.clone(), false),
            None => (Databases::in_directory(directory.path())?, true),
        };
        let store = Store::open(databases.shop.reveal()).await?;
        if store.offers().await?.is_empty() {
            let products: Vec<_> =
                catalogue().into_iter().map(|product| Product { initial: STOCK, ..product }).collect();
            store.set_up(&products).await?;
        }
        let products = store.offers().await?.into_iter().take(HOT);
        Ok(Self {
            servers: if redis.is_some() { config.servers } else { 1 },
            note,
            products: products.map(|offer| (offer.sku.to_string(), offer.title)).collect(),
            store,
            databases,
            is_temporary,
            locks,
            redis,
            directory,
        })
    }

    /// Returns the directory for the server logs.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the strategies that the page offers, to which a running shop can switch.
    pub(super) fn strategies(&self) -> Vec<StrategyInfo> {
        let is_offered = |strategy: &Strategy| {
            !strategy.keeps_own_stock() && (self.redis.is_some() || !strategy.needs_redis())
        };
        let info = |strategy: Strategy| {
            let (about, exact) = describe(strategy);
            StrategyInfo { name: strategy.name().into(), about: about.into(), exact }
        };
        Strategy::ALL.into_iter().filter(is_offered).map(info).collect()
    }

    /// Returns the command that starts a server.
    pub(super) fn command(&self, config: &Config) -> Result<ShopCommand, PlaceError> {
        // A separate prefix avoids collisions with other runs on the same Redis server.
        let prefix = match config.prefix.as_str() {
            "" if self.is_temporary => format!("sale-{}", Uuid::new_v4().simple()),
            prefix => prefix.to_owned(),
        };
        let mut options = config.options.clone();
        options.push(("--strategy", config.strategy.to_string()));
        options.push(("--prefix", prefix));
        let mut arguments: Vec<OsString> =
            ["serve", "--headless", "--until-stdin-ends"].map(Into::into).into();
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.into(), value.into()]));
        let mut secrets = vec![
            (ShopCommand::DATABASE.to_owned(), self.databases.shop.reveal().to_owned()),
            (ShopCommand::PAYMENTS.to_owned(), self.databases.payments.reveal().to_owned()),
        ];
        secrets.extend(self.redis.clone().map(|url| (ShopCommand::LOCKS.into(), url)));
        let mut command = ShopCommand::this_program(arguments).map_err(PlaceError::Program)?;
        command.secrets = secrets;
        Ok(command)
    }

    /// Has the shops' scheduler restock the hot products of a temporary database, by the operators' route of a server.
    pub(super) async fn restock(&self, fleet: &Fleet) -> Result<(), PlaceError> {
        let Some(operators) = fleet.status(0).operators.filter(|_| self.is_temporary) else { return Ok(()) };
        let client = HttpClient::new(operators);
        let (schedule, quantity) = RESTOCKING;
        let body = Bytes::from(json!({ "schedule": schedule, "quantity": quantity }).to_string());
        for (sku, _) in &self.products {
            let request = Request::put(format!("/products/{sku}/restocking"))
                .header("x-forwarded-user", "dashboard")
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(body.clone()));
            let request = request.map_err(|error| PlaceError::Restocking(error.to_string()))?;
            client.exchange(request).await.map_err(|error| PlaceError::Restocking(error.to_string()))?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_temporary {
            false => write!(f, "{}", self.databases.shop)?,
            true => f.write_str("SQLite in temporary files")?,
        }
        match &self.locks {
            LocksAt::Memory => f.write_str(", locks in memory"),
            LocksAt::Private(_) => f.write_str(", locks in a private redis-server"),
            LocksAt::Given(place) => write!(f, ", locks in {place}"),
        }
    }
}

/// An error while preparing a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The temporary directory could not be created.
    #[error("could not create a temporary directory")]
    Directory(#[source] io::Error),
    /// The path of the temporary directory cannot be used.
    #[error("the path of the temporary directory cannot be used: set --database and --payments")]
    Path(#[from] InvalidDatabase),
    /// The private redis-server did not start.
    #[error(transparent)]
    Redis(#[from] PrivateRedisError),
    /// The database is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The restocking could not be planned.
    #[error("a server did not accept the restocking of the products: {0}")]
    Restocking(String),
    /// The path of this program's executable is unknown.
    #[error("could not determine the path of this program's executable")]
    Program(#[source] io::Error),
}

/// Returns the description of a strategy, and `true` if it never sells more than the stock.
fn describe(strategy: Strategy) -> (&'static str, bool) {
    match strategy {
        Strategy::None => ("No lock. Concurrent orders overwrite each other's stock.", false),
        Strategy::Mutex => ("A mutex inside each process. It does not exclude other processes.", false),
        Strategy::Setnx => (
            "SET NX with a short TTL and a plain DEL. A payment slower than the TTL outlives the lock.",
            false,
        ),
        Strategy::Lock => (
            "The distributed lock without fencing. A server that pauses past its lease overwrites newer stock.",
            false,
        ),
        Strategy::LockWriteFence => (
            "The token is checked only on the write. A stale write can land between a newer holder's read and write.",
            false,
        ),
        Strategy::Fenced => (
            "The shop: the distributed lock, and a database that checks its token on the read and on the write.",
            true,
        ),
        Strategy::Conditional => (
            "One conditional statement, no lock. This is enough if the stock is one row of one database.",
            true,
        ),
        Strategy::ForUpdate => ("A row lock of the database, held while the payment runs.", true),
        Strategy::Units => ("One row for each unit, taken with SKIP LOCKED.", true),
        Strategy::RedisLua => ("The stock in Redis, deducted by a script.", true),
    }
}
