//! One shop process, with its parts and its shutdown order.

use crate::{
    catalogue::{self, CatalogueError},
    domain::Catalogue,
    fault::Faults,
    http::{self, Admin},
    jobs,
    locks::{Locks, LocksUrl},
    shop::{Shop, ShopConfig, ShopError},
    store::{DatabaseUrl, Store, StoreError},
    strategy::{RedisStock, Strategy},
};
use lock_core::LockError;
use lock_cron::CronError;
use lock_fred::fred;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    path::PathBuf,
    process,
    sync::Arc,
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, time::timeout};

/// Time limit for requests during the shutdown.
const DRAIN: Duration = Duration::from_secs(20);

/// Settings for a shop process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Database; `None` for a SQLite file in a temporary directory.
    pub database: Option<DatabaseUrl>,
    /// Lock store.
    pub locks: LocksUrl,
    /// CSV file with the products for an empty database; `None` for the built-in catalogue.
    pub catalogue: Option<PathBuf>,
    /// Availability of the routes under `/admin`, which require a loopback address.
    pub admin: Admin,
    /// Settings for the shop.
    pub shop: ShopConfig,
}

impl Default for Config {
    /// Returns settings with a free loopback port, a temporary SQLite file, locks in memory and the
    /// built-in catalogue, without `/admin`.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            database: None,
            locks: LocksUrl::MEMORY,
            catalogue: None,
            admin: Admin::Closed,
            shop: ShopConfig::default(),
        }
    }
}

/// The line on stdout that announces that the shop is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Address on which the shop listens.
    pub listening: SocketAddr,
    /// Process id.
    pub pid: u32,
    /// Shop name.
    pub shop: String,
}

/// An open shop. [`run`](Self::run) serves its requests.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    ready: Ready,
    admin: Admin,
    shop: Arc<Shop>,
    cron: lock_cron::Scheduler,
    _directory: Option<TempDir>,
}

impl Server {
    /// Connects to the database and the locks, and binds the address.
    ///
    /// # Errors
    /// Returns [`ServeError`] if a part cannot be opened.
    ///
    /// # Cancel safety
    /// Dropping this closes everything that was opened.
    pub async fn open(config: Config) -> Result<Self, ServeError> {
        let Config { listen, database, locks, catalogue, admin, shop } = config;
        if admin == Admin::Open && !listen.ip().is_loopback() {
            return Err(ServeError::AdminNotLocal { listen });
        }
        let catalogue = read(catalogue)?;
        let (database, directory) = match database {
            Some(database) => (database, None),
            None => {
                let directory = tempfile::tempdir().map_err(ServeError::Directory)?;
                (DatabaseUrl::sqlite(&directory.path().join("shop.sqlite"))?, Some(directory))
            }
        };
        let lock_store = Locks::connect(&locks).await.map_err(ServeError::Locks)?;
        let redis = connect_strategies(&shop, &locks).await?;
        let store = Store::open(&database).await?;
        store.set_up(&catalogue).await?;
        let shop = Shop::open(shop, store, lock_store, redis, Faults::default()).await?;
        let cron = jobs::schedule(&shop)?;
        let bound = async { TcpListener::bind(listen).await.and_then(|l| Ok((l.local_addr()?, l))) };
        let (listening, listener) = bound.await.map_err(|source| ServeError::Listen { listen, source })?;
        let ready = Ready { listening, pid: process::id(), shop: shop.config.name.clone() };
        Ok(Self { listener, ready, admin, shop, cron, _directory: directory })
    }

    /// Returns the address, process id and name of the shop.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Returns the shop.
    #[must_use]
    pub fn shop(&self) -> &Arc<Shop> {
        &self.shop
    }

    /// Serves until `stop` completes. It then stops accepting connections, hands the jobs over to
    /// another shop, waits for requests to end, releases the locks, and closes the database, in
    /// this order.
    ///
    /// # Errors
    /// Returns [`ServeError`] if the server or the scheduler failed, or a part did not end in time.
    ///
    /// # Cancel safety
    /// Dropping this aborts requests. Prefer `stop`.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        let Self { listener, admin, shop, cron, _directory, .. } = self;
        let (stop_jobs, jobs_stop) = oneshot::channel::<()>();
        let jobs = tokio::spawn({
            let cron = cron.clone();
            async move { cron.run_until(async { drop(jobs_stop.await) }).await }
        });
        let (stopping, stopped) = oneshot::channel::<()>();
        let accepting = async move {
            stop.await;
            drop(stopping);
        };
        let serving =
            axum::serve(listener, http::router(shop.clone(), admin)).with_graceful_shutdown(accepting);
        let mut serving = tokio::spawn(async move { serving.await });
        let early = tokio::select! {
            _ = stopped => None,
            ended = &mut serving => Some(ended),
        };
        // The shop accepts no further connections. End the streams, so their connections close.
        shop.begin_closing();
        drop(stop_jobs);
        let jobs = jobs.await;
        let served = match early {
            Some(ended) => Ok(ended),
            None => timeout(DRAIN, serving).await,
        };
        let drained = shop.drain(DRAIN).await;
        shop.store().close().await;
        jobs.map_err(ServeError::Task)??;
        match served {
            Ok(served) => served.map_err(ServeError::Task)?.map_err(ServeError::Serve)?,
            Err(_) => return Err(ServeError::Shop(ShopError::StillBusy { within: DRAIN })),
        }
        Ok(drained?)
    }
}

/// Opens a shop, prints its address on stdout, and serves until `stop` completes.
///
/// # Errors
/// Returns the error from [`Server::open`] or [`Server::run`].
///
/// # Cancel safety
/// Dropping this aborts requests. Prefer `stop`.
pub async fn run(config: Config, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
    let server = Server::open(config).await?;
    announce(server.ready()).map_err(ServeError::Announce)?;
    server.run(stop).await
}

/// Connects to Redis for strategies that send their own commands. Other strategies also work
/// without Redis.
async fn connect_strategies(shop: &ShopConfig, locks: &LocksUrl) -> Result<Option<RedisStock>, ServeError> {
    let strategy = shop.strategy;
    let connected = match locks.reveal() {
        None => Err(ServeError::NeedsRedis { strategy }),
        Some(url) => RedisStock::connect(url, &shop.qualified("")).await.map_err(ServeError::Redis),
    };
    if strategy.needs_redis() { connected.map(Some) } else { Ok(connected.ok()) }
}

fn announce(ready: &Ready) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, ready)?;
    writeln!(out)?;
    out.flush()
}

fn read(catalogue: Option<PathBuf>) -> Result<Catalogue, CatalogueError> {
    match catalogue {
        Some(path) => catalogue::read(&path),
        None => catalogue::parse(catalogue::DEFAULT.as_bytes()),
    }
}

/// Returns a future that completes on SIGTERM or SIGINT, or when stdin ends if `until_stdin_ends` is set.
///
/// # Errors
/// Returns [`io::Error`] if signals cannot be received.
pub fn asked_to_stop(until_stdin_ends: bool) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (ended, stdin) = oneshot::channel::<()>();
    // A killed parent sends no signal, but its end of the pipe closes. A separate thread reads
    // stdin, because tokio's stdin would prevent the runtime from shutting down.
    let keep = match until_stdin_ends {
        true => {
            thread::spawn(move || {
                let _ = io::stdin().read_to_end(&mut Vec::new());
                drop(ended);
            });
            None
        }
        false => Some(ended),
    };
    let signalled = lock_core::shutdown_signal()?;
    Ok(async move {
        let _keep = keep;
        tokio::select! {
            () = signalled => {}
            _ = stdin => {}
        }
    })
}

/// An error while running a shop process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The catalogue is unusable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The directory for the database could not be created.
    #[error("could not create a temporary directory: set --database to the address of a database")]
    Directory(#[source] io::Error),
    /// The database is unusable.
    #[error("could not open the database")]
    Store(#[from] StoreError),
    /// The strategy needs Redis.
    #[error(
        "the strategy `{strategy}` keeps its data in Redis: set --locks to the address of a Redis server"
    )]
    NeedsRedis {
        /// Name of the strategy.
        strategy: Strategy,
    },
    /// Connecting to Redis for the strategy failed.
    #[error("could not connect to Redis for the strategy's commands")]
    Redis(#[source] fred::error::Error),
    /// Connecting to the lock store failed.
    #[error("could not connect to the lock store")]
    Locks(#[source] LockError),
    /// The shop could not be opened or closed.
    #[error(transparent)]
    Shop(#[from] ShopError),
    /// The jobs could not be scheduled or run.
    #[error("could not schedule or run the shop's jobs")]
    Jobs(#[from] CronError),
    /// The routes under `/admin` would be reachable from other machines.
    #[error(
        "--admin enables routes that need no password, so the shop must not be reachable from other machines: listen on \
         127.0.0.1 instead of {listen}"
    )]
    AdminNotLocal {
        /// Address to listen on.
        listen: SocketAddr,
    },
    /// The address could not be bound.
    #[error("could not listen on {listen}: choose another address, or port 0 for a free one")]
    Listen {
        /// Address to listen on.
        listen: SocketAddr,
        /// Underlying error.
        source: io::Error,
    },
    /// The HTTP server returned an error.
    #[error("the HTTP server returned an error")]
    Serve(#[source] io::Error),
    /// A task panicked.
    #[error("one of the shop's tasks panicked: see the panic message above")]
    Task(#[source] tokio::task::JoinError),
    /// Writing to stdout failed.
    #[error("could not write to stdout")]
    Announce(#[source] io::Error),
}
