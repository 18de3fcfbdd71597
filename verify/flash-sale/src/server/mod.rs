//! One process of the bench: the shop, the other strategies beside it, and routes that control them.
//!
//! | route | effect |
//! | --- | --- |
//! | `POST /products/{sku}/orders` | sells with the current strategy |
//! | all other routes of the shop | unchanged |
//! | `GET /state` | returns the strategy, the locks, the counters and the jobs as JSON |
//! | `POST /control/strategy`, `POST /control/fault` | changes the strategy, or arms a fault |
//!
//! The operators' routes of the shop, with the console of its jobs, are on a second listener. The routes under `/control`
//! need no password, so a server only listens on a loopback address. Every answer names the process in its `x-shop` header.

mod routes;
mod state;
mod ticks;

pub use state::{Counts, HeldLock, JobInfo, Report};
pub use ticks::{TICK, Tick, ticks};

use crate::{
    addresses::{Databases, InvalidDatabase, LocksUrl},
    faults::{Faults, Faulty},
    strategy::{RedisCommands, Routers, Strategy, create_units},
};
use distlock::{
    LockError, LockOptions,
    cron::{CronError, Scheduler},
    fred::fred,
    tower::DetachedTasks,
};
use lock_inventory_demo::{
    Shop, Terms,
    database::DatabaseError,
    domain::catalogue,
    jobs,
    payments::Provider,
    server::{self, Listeners},
    store::{Store, StoreError},
};
use serde::{Deserialize, Serialize};
use state::{Counters, CurrentStrategy, Holders};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    process,
    sync::Arc,
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    sync::{Mutex, oneshot},
};

/// Delay of the payment provider's answer, after its commit.
const PAYMENT_DELAY: Duration = Duration::from_millis(3);
/// Longer than any stall, so that a slow payment is slow and not unknown.
const PAYMENT_WITHIN: Duration = Duration::from_secs(70);
/// Time for which a dead server keeps the leadership of the jobs.
const LEADERSHIP: Duration = Duration::from_secs(2);
/// Time for which a run counts as running after its server has died.
const RUN_LEASE: Duration = Duration::from_secs(10);
/// Time limit for running jobs when the server shuts down.
const JOBS_END_WITHIN: Duration = Duration::from_secs(5);

/// Settings for a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Databases; `None` for SQLite files in a temporary directory. An empty one receives the shop's built-in products.
    pub databases: Option<Databases>,
    /// Lock store.
    pub locks: LocksUrl,
    /// Name of the server, in the header `x-shop` and in the history of the jobs.
    pub name: String,
    /// Initial strategy.
    pub strategy: Strategy,
    /// Prefix for the names of all locks, jobs and Redis keys. Servers that sell the same stock need the same one.
    pub prefix: String,
    /// Lease of all locks.
    pub lease: Duration,
    /// Maximum wait for a lock.
    pub wait: Duration,
}

/// The line on stdout that announces that the server is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Address for customers.
    pub listening: SocketAddr,
    /// Address for operators.
    pub operators: SocketAddr,
    /// Process id.
    pub pid: u32,
    /// Name of the server.
    pub shop: String,
}

/// The state that the routes of the bench share.
#[derive(Debug)]
struct Bench {
    name: String,
    shop: Shop,
    routers: Routers,
    has_redis: bool,
    strategy: CurrentStrategy,
    faults: Faults,
    counters: Counters,
    holders: Arc<Holders>,
    cron: Scheduler,
    /// The latest known jobs.
    latest_jobs: Mutex<Vec<JobInfo>>,
}

/// A server whose parts are open. [`run`](Self::run) serves its requests.
#[derive(Debug)]
pub struct Server {
    bench: Arc<Bench>,
    listeners: Listeners,
    provider: Provider,
    ready: Ready,
    _directory: Option<TempDir>,
}

impl Server {
    /// Connects to the databases and the locks, and binds the addresses.
    ///
    /// # Errors
    /// Returns [`ServerError`] if a part cannot be opened.
    ///
    /// # Cancel safety
    /// Dropping this closes everything that was opened.
    pub async fn open(config: Config) -> Result<Self, ServerError> {
        let listen = config.listen;
        if !listen.ip().is_loopback() {
            return Err(ServerError::NotLocal { listen });
        }
        let unlistened = |source| ServerError::Listen { listen, source };
        let customers = TcpListener::bind(listen).await.map_err(unlistened)?;
        let operators = TcpListener::bind((listen.ip(), 0)).await.map_err(unlistened)?;
        let ready = Ready {
            listening: customers.local_addr().map_err(unlistened)?,
            operators: operators.local_addr().map_err(unlistened)?,
            pid: process::id(),
            shop: config.name.clone(),
        };
        let (databases, directory) = match config.databases {
            Some(databases) => (databases, None),
            None => {
                let directory = tempfile::tempdir().map_err(ServerError::Directory)?;
                (Databases::in_directory(directory.path())?, Some(directory))
            }
        };
        let redis = strategy_redis(config.strategy, &config.locks, &config.prefix).await?;
        let (locks, ledger) = config.locks.connect().await.map_err(ServerError::Locks)?;
        let holders = Arc::new(Holders::default());
        let locks = locks.options(LockOptions::new().lease(config.lease)).observer(holders.clone());
        let locks = with_prefix(locks, &config.prefix).build()?;

        let store = Store::open(databases.shop.reveal()).await?;
        if store.offers().await?.is_empty() {
            store.set_up(&catalogue()).await?;
        }
        ticks::create(&store).await?;
        if config.strategy.needs_postgres() {
            if !databases.shop.is_postgres() {
                return Err(ServerError::NeedsPostgres { strategy: config.strategy });
            }
            create_units(&store).await?;
        }
        let provider = Provider::open(databases.payments.reveal(), PAYMENT_DELAY).await?;
        let faults = Faults::default();
        let pools = vec![store.pool().clone(), provider.database().pool().clone()];
        let payments = Arc::new(Faulty::new(provider.clone(), faults.clone(), pools));
        let terms = Terms { wait: config.wait, payment: PAYMENT_WITHIN, ..Terms::default() };
        let shop = Shop { locks: locks.clone(), store, payments, tasks: DetachedTasks::new(), terms };

        let jobs = Scheduler::builder(locks, ledger)
            .group(qualified(&config.prefix, "shop"))
            .node(format!("{}/{}", config.name, process::id()))
            .leadership_lease(LEADERSHIP)
            .run_lease(RUN_LEASE)
            .shutdown_grace(JOBS_END_WITHIN);
        let cron = jobs::schedule(&shop, jobs)?;
        ticks::register(&cron, &shop.store, &config.name)?;
        let bench = Arc::new(Bench {
            routers: Routers::of(&shop, redis.clone()),
            has_redis: redis.is_some(),
            name: config.name,
            shop,
            strategy: CurrentStrategy::new(config.strategy),
            faults,
            counters: Counters::default(),
            holders,
            cron,
            latest_jobs: Mutex::default(),
        });
        let listeners = Listeners { customers, operators };
        Ok(Self { bench, listeners, provider, ready, _directory: directory })
    }

    /// Returns the addresses, process id and name of the server.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Serves until `stop` completes, and then shuts down in the shop's order.
    ///
    /// # Errors
    /// Returns [`ServerError`] if the server or the scheduler failed, or a part did not end in time.
    ///
    /// # Cancel safety
    /// Dropping this leaves parts running in the background. Complete `stop` instead.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServerError> {
        let Self { bench, listeners, provider, _directory, .. } = self;
        let (shop, cron) = (bench.shop.clone(), bench.cron.clone());
        let served = server::serve(shop, routes::router(bench), cron, listeners, stop).await;
        provider.database().close().await;
        Ok(served?)
    }
}

/// Opens a server, prints its addresses on stdout, and serves until `stop` completes.
///
/// # Errors
/// Returns the error from [`Server::open`] or [`Server::run`].
///
/// # Cancel safety
/// Like [`Server::run`].
pub async fn run(config: Config, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServerError> {
    let server = Server::open(config).await?;
    announce(server.ready()).map_err(ServerError::Announce)?;
    server.run(stop).await
}

/// Connects to Redis for strategies that send their own commands. Other strategies also work without it.
async fn strategy_redis(
    strategy: Strategy,
    locks: &LocksUrl,
    prefix: &str,
) -> Result<Option<RedisCommands>, ServerError> {
    let connected = match locks.reveal() {
        None => Err(ServerError::NeedsRedis { strategy }),
        Some(url) => {
            RedisCommands::connect(url, &qualified(prefix, "strategy")).await.map_err(ServerError::Redis)
        }
    };
    if strategy.needs_redis() { connected.map(Some) } else { Ok(connected.ok()) }
}

fn qualified(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}:{name}") }
}

/// Returns the builder with this prefix, which can be empty.
pub(crate) fn with_prefix(locks: distlock::LockFactoryBuilder, prefix: &str) -> distlock::LockFactoryBuilder {
    if prefix.is_empty() { locks } else { locks.prefix(prefix) }
}

fn announce(ready: &Ready) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, ready)?;
    writeln!(out)?;
    out.flush()
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
    let signalled = distlock::shutdown_signal()?;
    Ok(async move {
        let _keep = keep;
        tokio::select! {
            () = signalled => {}
            _ = stdin => {}
        }
    })
}

/// An error while running a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server would be reachable from other machines.
    #[error(
        "the routes under /control need no password, so the server must not be reachable from other machines: listen on \
         127.0.0.1 instead of {listen}"
    )]
    NotLocal {
        /// Address to listen on.
        listen: SocketAddr,
    },
    /// An address could not be bound.
    #[error("could not listen on {listen}: choose another address, or port 0 for a free one")]
    Listen {
        /// Address to listen on.
        listen: SocketAddr,
        /// Underlying error.
        source: io::Error,
    },
    /// The directory for the databases could not be created.
    #[error("could not create a temporary directory: set --database and --payments")]
    Directory(#[source] io::Error),
    /// The path of the temporary directory cannot be used.
    #[error("the path of the temporary directory cannot be used: set --database and --payments")]
    Path(#[from] InvalidDatabase),
    /// The strategy needs Redis.
    #[error(
        "the strategy `{strategy}` keeps its data in Redis: set --locks to the address of a Redis server"
    )]
    NeedsRedis {
        /// Name of the strategy.
        strategy: Strategy,
    },
    /// The strategy needs PostgreSQL.
    #[error(
        "the strategy `{strategy}` needs row locks: set --database to the address of a PostgreSQL server"
    )]
    NeedsPostgres {
        /// Name of the strategy.
        strategy: Strategy,
    },
    /// Connecting to Redis for the strategy failed.
    #[error("could not connect to Redis for the strategy's commands")]
    Redis(#[source] fred::error::Error),
    /// Connecting to the lock store failed.
    #[error("could not connect to the lock store")]
    Locks(#[source] LockError),
    /// An option of the locks is invalid.
    #[error("invalid lock option")]
    Options(#[from] LockError),
    /// The shop's database is unusable.
    #[error("could not open the shop's database")]
    Store(#[from] StoreError),
    /// The provider's database is unusable.
    #[error("could not open the payment provider's database")]
    Payments(#[from] DatabaseError),
    /// The jobs could not be scheduled.
    #[error("could not schedule the shop's jobs")]
    Jobs(#[from] CronError),
    /// The server failed, or did not end in time.
    #[error(transparent)]
    Serve(#[from] server::ServeError),
    /// Writing to stdout failed.
    #[error("could not write to stdout")]
    Announce(#[source] io::Error),
}
