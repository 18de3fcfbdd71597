//! The command line, and the client library that it selects.

use clap::{Parser, Subcommand, ValueEnum, builder::TypedValueParser as _, value_parser};
use lock_core::{LockError, Store, backend::Connector as _};
use lock_ledger::{LedgerConnector, RunLedger};
use lock_testkit::Seed;
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

/// Takes locks on a Redis, and reports each step as one line of JSON on stdout.
///
/// Orders are read from stdin, as lines of JSON. The end of stdin ends the process immediately, and releases nothing.
#[derive(Debug, Clone, Parser)]
#[command(name = "lock-node", version)]
pub struct Cli {
    /// The lease in milliseconds, renewed by the watchdog
    #[arg(long, value_name = "MS", default_value = "30000", value_parser = value_parser!(u64).map(Duration::from_millis))]
    pub lease: Duration,

    /// The maximum number of hand-offs of a lease within the process, instead of the default; 0 disables them
    #[arg(long, value_name = "TIMES")]
    pub hand_off: Option<u32>,

    /// The outage budget of a waiting acquire in milliseconds, instead of the default
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).map(Duration::from_millis))]
    pub outage_budget: Option<Duration>,

    /// The client library
    #[arg(long, value_enum, default_value = "fred")]
    pub client: Client,

    /// The address of a `lock-referee` to which each hold is reported
    #[arg(long, value_name = "ADDRESS")]
    pub referee: Option<SocketAddr>,

    /// The kind of the names that `hold` and `work` take
    #[arg(long, value_enum, default_value = "lock")]
    pub kind: Kind,

    /// The server, as `redis://127.0.0.1:6379`, or a file, as `sqlite:locks.db`
    pub url: String,

    /// The command
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the process.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Passes through sections that increment a key by reading and then writing it. Reports `ready` and waits for
    /// `go`. At the end it reports `token` for each grant, and `done`
    Count {
        /// The lock that guards the sections
        lock: String,
        /// The number of tasks
        tasks: usize,
        /// The total number of sections
        sections: usize,
        /// The key to increment
        counter: String,
    },
    /// Acquires the lock, reports `held`, and executes orders: `release`, `acquire`, `is_held`, `lost` (waits for the
    /// loss), `read` (a fenced table), `write`, `quit`
    Hold {
        /// The lock
        lock: String,
    },
    /// Passes through sections until it is killed, handing the lease off among its tasks. Reports `inside` and `left`
    /// for each section
    Contend {
        /// The lock
        lock: String,
        /// The number of tasks
        tasks: usize,
        /// The duration of every eighth section in milliseconds; the others are empty
        #[arg(long, value_name = "MS", default_value = "0", value_parser = value_parser!(u64).map(Duration::from_millis))]
        takes: Duration,
    },
    /// Passes through sections of several locks, one task for each. Reports `ready`. At `stop` it finishes its
    /// sections, and reports `section` for each, and `done`
    Work {
        /// The average pause of a task between two sections, in milliseconds
        #[arg(long, value_name = "MS", default_value = "10", value_parser = value_parser!(u64).map(Duration::from_millis))]
        pause: Duration,
        /// The duration of a section, in milliseconds
        #[arg(long, value_name = "MS", default_value = "0", value_parser = value_parser!(u64).map(Duration::from_millis))]
        takes: Duration,
        /// A folder with a fenced table per lock, which a section reads at its start and writes at its end
        #[arg(long, value_name = "FOLDER")]
        fence: Option<PathBuf>,
        /// The seed of the pauses
        #[arg(long, default_value = "0", value_parser = value_parser!(u64).map(Seed::new))]
        seed: Seed,
        /// The locks
        #[arg(required = true)]
        locks: Vec<String>,
    },
    /// Sends requests to a service behind an idempotency layer, by clients that leave and repeat, while locks are released by
    /// force. Reports `ready` and waits for `go`. At the end it reports `paid` for each request, and `payments`
    Pay {
        /// The database of the payments and the records
        database: PathBuf,
        /// The total number of requests
        requests: usize,
        /// The number of keys, which all processes share
        keys: u64,
        /// The seed of keys and faults
        #[arg(long, default_value = "0", value_parser = value_parser!(u64).map(Seed::new))]
        seed: Seed,
    },
    /// Reports `ready`, and takes permits of semaphores of 5, read-write locks and fair locks until it is killed. Holds,
    /// weights and waits are random
    Share {
        /// The number of tasks
        tasks: u64,
        /// The names, each of a pool of every kind
        #[arg(required = true)]
        names: Vec<String>,
        /// The seed of the choices
        #[arg(long, default_value = "0", value_parser = value_parser!(u64).map(Seed::new))]
        seed: Seed,
    },
    /// Reports `ready`. At each `go`, queues for a fair lock in several tasks, one after another, and reports each
    /// `turn`, and `done`
    Queue {
        /// The fair lock
        name: String,
        /// The number of tasks
        tasks: u64,
        /// The seed of the pauses between them
        #[arg(long, default_value = "0", value_parser = value_parser!(u64).map(Seed::new))]
        seed: Seed,
    },
    /// Runs one job on a schedule, or the instances of a kind, as a node of a fleet. Reports `ready`, `leading` and
    /// `resigned`, and for each run `start` and then `ended` or `cancelled`. Executes `pause`, `resume`, `trigger`,
    /// `replace`, `next` and `history` of its job, and `add`, `once`, `remove` and `forget` of instances. Ends
    /// gracefully at `stop` and on SIGTERM
    Cron {
        /// The group of the job
        group: String,
        /// The schedule of the job; without it, the node runs the instances of a kind
        schedule: Option<String>,
        /// The duration of the body, in milliseconds
        #[arg(long, value_name = "MS", default_value = "0", value_parser = value_parser!(u64).map(Duration::from_millis))]
        takes: Duration,
        /// The number of times that a run whose node died is run again
        #[arg(long, value_name = "TIMES", default_value = "0")]
        adopt: u32,
        /// The maximum number of missed instants to start, and of open runs; one by default
        #[arg(long, value_name = "TIMES")]
        catch_up: Option<u32>,
        /// The maximum number of runs at once on this node, instead of the default
        #[arg(long, value_name = "RUNS")]
        max_running: Option<u32>,
        /// The maximum number of open runs of the fleet, by a pool
        #[arg(long, value_name = "RUNS")]
        pool: Option<u32>,
        /// Keeps the runs on the leader
        #[arg(long)]
        on_leader: bool,
        /// A fenced table, which the body reads at its start and writes at its end
        #[arg(long, value_name = "FILE")]
        fence: Option<PathBuf>,
    },
    /// Takes part in an election. Reports `candidate`, then `elected` and `body_ended` of each term; executes `role`;
    /// ends gracefully on SIGTERM, and reports `stopped`
    Elect {
        /// The election
        name: String,
    },
    /// Forcibly releases the lock from any holder, and reports `forced`
    Force {
        /// The lock
        lock: String,
    },
    /// Reports the state of the lock as `locked`
    Inspect {
        /// The lock
        lock: String,
    },
}

/// A kind of lock or permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A lock
    Lock,
    /// A fair lock
    Fair,
    /// The readers' side of a read-write lock
    Read,
    /// The writers' side of a read-write lock
    Write,
}

/// A client library for Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Client {
    /// fred, through lock-fred
    Fred,
    /// redis-rs, through lock-redis-rs
    RedisRs,
}

impl Client {
    /// Returns the client in the environment variable `LOCK_CLIENT`, `fred` or `redis-rs`, so that a whole run of
    /// trials can use one of them. The default is fred.
    ///
    /// # Panics
    /// If the variable has another value.
    #[must_use]
    pub fn of_this_run() -> Self {
        let Ok(name) = std::env::var("LOCK_CLIENT") else { return Self::Fred };
        Self::from_str(&name, false).unwrap_or_else(|why| panic!("LOCK_CLIENT: {why}"))
    }

    /// Returns the name of the client on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fred => "fred",
            Self::RedisRs => "redis-rs",
        }
    }

    /// Connects a store for locks: a Redis, a PostgreSQL or MariaDB database, an etcd cluster, a ZooKeeper
    /// ensemble, or an SQLite file.
    ///
    /// # Errors
    /// The error of the connection.
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect(self, url: &str) -> Result<Store, LockError> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("mysql") => lock_sqlx::MySql.connect(url).await,
            Some("etcd") => lock_etcd::Etcd.connect(url).await,
            Some("zookeeper") => lock_zookeeper::ZooKeeper.connect(url).await,
            _ => self.connector(url).connect(url).await,
        }
    }

    /// Connects a store for locks, and the run ledger.
    ///
    /// # Errors
    /// The error of the connection.
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect_with_ledger(self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        self.connector(url).connect_with_ledger(url).await
    }

    fn connector(self, url: &str) -> &'static dyn LedgerConnector {
        match (url.split_once(':').map_or(url, |(scheme, _)| scheme), self) {
            ("sqlite", _) => &lock_sqlx::Sqlite,
            ("postgres", _) => &lock_sqlx::Postgres,
            (_, Self::Fred) => &lock_fred::Redis,
            (_, Self::RedisRs) => &lock_redis_rs::Redis,
        }
    }

    /// Connects a store whose leases only count once this number of replicas has acknowledged them.
    ///
    /// # Errors
    /// The error of the connection.
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect_with_replicas(self, url: &str, replicas: u32) -> Result<Store, LockError> {
        Ok(match self {
            Self::Fred => {
                lock_fred::RedisBackendBuilder::from_url(url)?.replicas(replicas).connect().await?.into()
            }
            Self::RedisRs => {
                lock_redis_rs::RedisBackendBuilder::from_url(url)?.replicas(replicas).connect().await?.into()
            }
        })
    }
}
