//! The stores for the dashboard's servers: the database, the locks, and the products.

use super::{
    serve::Config,
    snapshot::StrategyInfo,
    strategies::{self, Locks},
};
use crate::{
    catalogue::{self, CatalogueError},
    fleet::{PrivateRedis, PrivateRedisError, ShopCommand},
    store::{DatabaseUrl, StoreError},
};
use std::{ffi::OsString, fmt, io, path::Path};
use tempfile::TempDir;
use uuid::Uuid;

/// Number of products on the page. The load generator orders only these.
const HOT: usize = 8;
/// Number of products taken from the built-in catalogue.
const SOLD: usize = 24;
const STOCK: u32 = 2_000;
/// Stock below which a job restocks a product.
const RESTOCK_BELOW: u32 = 400;

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
    database: Option<DatabaseUrl>,
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
    /// Prepares the stores, and starts a private redis-server if none is given.
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
        let sold = match &config.catalogue {
            Some(path) => catalogue::read(path)?,
            None => catalogue::parse(shelf()?.as_bytes())?,
        };
        let products = sold.products().iter().take(HOT);
        Ok(Self {
            servers: if redis.is_some() { config.servers } else { 1 },
            note,
            products: products.map(|product| (product.sku.to_string(), product.title.clone())).collect(),
            database: config.database.clone(),
            locks,
            redis,
            directory,
        })
    }

    /// Returns the directory for the server logs.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the strategies that the page offers.
    pub(super) fn strategies(&self) -> Vec<StrategyInfo> {
        strategies::offered(if self.redis.is_some() { Locks::Redis } else { Locks::Memory })
    }

    /// Returns the command that starts a server.
    pub(super) fn command(&self, config: &Config) -> Result<ShopCommand, PlaceError> {
        let mut prefix = config.prefix.clone();
        let mut restock_below = config.restock_below;
        let mut secrets = Vec::new();
        let mut arguments: Vec<OsString> =
            ["serve", "--headless", "--admin", "--until-stdin-ends"].map(Into::into).into();
        match &self.database {
            Some(database) => secrets.push(("DEMO_DATABASE".into(), database.reveal().to_owned())),
            None => {
                let database = DatabaseUrl::sqlite(&self.directory().join("shop.sqlite"))?;
                arguments.extend(["--database".into(), database.reveal().into()]);
                // A separate prefix avoids collisions with other runs on the same Redis server.
                if prefix.is_empty() {
                    prefix = format!("demo-{}", Uuid::new_v4().simple());
                }
            }
        }
        let catalogue = match &config.catalogue {
            Some(path) => path.clone(),
            None => {
                let path = self.directory().join("catalogue.csv");
                std::fs::write(&path, shelf()?).map_err(PlaceError::Directory)?;
                restock_below = restock_below.max(RESTOCK_BELOW);
                path
            }
        };
        arguments.extend(["--catalogue".into(), catalogue.into()]);
        let mut options = config.options.clone();
        options.push(("--strategy", config.strategy.to_string()));
        options.push(("--prefix", prefix));
        options.push(("--restock-below", restock_below.to_string()));
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.into(), value.into()]));
        secrets.extend(self.redis.clone().map(|url| ("DEMO_REDIS".into(), url)));
        let mut command = ShopCommand::this_program(arguments).map_err(PlaceError::Program)?;
        command.secrets = secrets;
        Ok(command)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.database {
            Some(database) => write!(f, "{database}")?,
            None => f.write_str("SQLite in a temporary file")?,
        }
        match &self.locks {
            LocksAt::Memory => f.write_str(", locks in memory"),
            LocksAt::Private(_) => f.write_str(", locks in a private redis-server"),
            LocksAt::Given(place) => write!(f, ", locks in {place}"),
        }
    }
}

/// Returns the first products of the built-in catalogue as CSV, with enough stock for several
/// minutes of load.
fn shelf() -> Result<String, PlaceError> {
    let all = catalogue::parse(catalogue::DEFAULT.as_bytes())?;
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(catalogue::COLUMNS).map_err(PlaceError::Csv)?;
    for product in all.products().iter().take(SOLD) {
        let (price, stock) = (product.price.get().to_string(), STOCK.to_string());
        let fields = [product.sku.as_str(), &product.title, &product.category, &price, &stock];
        csv.write_record(fields).map_err(PlaceError::Csv)?;
    }
    let bytes = csv.into_inner().map_err(|error| PlaceError::Csv(error.into_error().into()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An error while preparing a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The temporary directory could not be created or written.
    #[error("could not write to a temporary directory")]
    Directory(#[source] io::Error),
    /// The private redis-server did not start.
    #[error(transparent)]
    Redis(#[from] PrivateRedisError),
    /// The catalogue is unusable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The products could not be written as CSV.
    #[error("could not write the shop's products as CSV")]
    Csv(#[source] csv::Error),
    /// The database is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The path of this program's executable is unknown.
    #[error("could not determine the path of this program's executable")]
    Program(#[source] io::Error),
}
