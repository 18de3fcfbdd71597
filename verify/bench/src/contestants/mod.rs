//! The measured locks, behind one trait without boxed futures, so that the measurement adds the same cost to each.

mod etcd;
mod floor;
mod hash;
mod ours;
mod postgres;
#[cfg(feature = "rslock")]
mod rslock;
mod sqlite;
mod zookeeper;

#[cfg(feature = "rslock")]
pub(crate) use self::rslock::Rslock;
pub(crate) use self::{
    etcd::{Etcd, EtcdFloor},
    floor::{Fenced, FencedRedisRs, SetNx},
    hash::{HandOff, Hash, Queue, QuorumFloor},
    ours::{Fair, Fred, FredOtel, Memory, OneSemaphore, Quorum, RedisRs, TokioMutex},
    postgres::{Postgres, PostgresFloor},
    sqlite::{Sqlite, SqliteFloor},
    zookeeper::{ZooKeeper, ZooKeeperFloor},
};

use crate::Result;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A connected client of a lock library or of a handwritten lock.
pub(crate) trait Locks: Sized + Send + Sync + 'static {
    type Lock: Lock;

    /// Connects to a server. Locks without a server ignore the address.
    fn connect(url: &str) -> impl Future<Output = Result<Self>> + Send;

    /// Returns the lock with this name, without any I/O.
    fn lock(&self, name: &str) -> Result<Self::Lock>;
}

/// A named lock.
pub(crate) trait Lock: Clone + Send + Sync + 'static {
    type Held: Send;

    /// Waits for the lock.
    fn acquire(&self) -> impl Future<Output = Result<Self::Held>> + Send;

    /// Releases the lock. Fails if the lock was lost before.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<()>> + Send;

    /// Returns the fencing token if the library has tokens.
    fn token(_held: &Self::Held) -> Option<u64> {
        None
    }
}

/// The values that belong to the names of locks, created on demand.
#[derive(Debug, Default)]
struct ByName<T>(Mutex<HashMap<String, Arc<T>>>);

impl<T: Default> ByName<T> {
    fn get(&self, name: &str) -> Arc<T> {
        self.all().entry(name.to_owned()).or_default().clone()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the addresses of the servers of a quorum address, `redlock://a,b,c`.
fn nodes(url: &str) -> Vec<String> {
    url.trim_start_matches("redis://")
        .trim_start_matches("redlock://")
        .split(',')
        .map(|node| format!("redis://{node}"))
        .collect()
}

/// The measured locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contestant {
    Fred,
    FredOtel,
    RedisRs,
    Fair,
    OneSemaphore,
    Memory,
    Fenced,
    FencedRedisRs,
    Hash,
    Queue,
    HandOff,
    SetNx,
    Rslock,
    Quorum,
    QuorumOneStopped,
    QuorumFloor,
    RslockQuorum,
    RslockQuorumOneStopped,
    Postgres,
    PostgresFloor,
    Sqlite,
    SqliteFloor,
    Etcd,
    EtcdFloor,
    ZooKeeper,
    ZooKeeperFloor,
    TokioMutex,
    Layer,
    LayerFloor,
    Handler,
}

impl Contestant {
    /// Returns the name in tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Fred => "lock-fred",
            Self::FredOtel => "lock-fred + OpenTelemetry",
            Self::RedisRs => "lock-redis-rs",
            Self::Fair => "fair lock",
            Self::OneSemaphore => "semaphore of 16",
            Self::Memory => "in memory",
            Self::Fenced => "fenced floor on fred",
            Self::FencedRedisRs => "fenced floor on redis-rs",
            Self::Hash => "hash floor",
            Self::Queue => "hash floor + queue",
            Self::HandOff => "hash floor + hand-off",
            Self::SetNx => "SET NX floor",
            Self::Rslock => "rslock",
            Self::Quorum => "quorum of 5",
            Self::QuorumOneStopped => "quorum of 5, one stopped",
            Self::QuorumFloor => "quorum floor",
            Self::RslockQuorum => "rslock, 5 nodes",
            Self::RslockQuorumOneStopped => "rslock, 5 nodes, one stopped",
            Self::Postgres => "lock-sqlx, PostgreSQL",
            Self::PostgresFloor => "PostgreSQL floor",
            Self::Sqlite => "lock-sqlx, SQLite",
            Self::SqliteFloor => "SQLite floor",
            Self::Etcd => "lock-etcd",
            Self::EtcdFloor => "etcd floor",
            Self::ZooKeeper => "lock-zookeeper",
            Self::ZooKeeperFloor => "ZooKeeper floor",
            Self::TokioMutex => "tokio Mutex",
            Self::Layer => "lock-tower, in memory",
            Self::LayerFloor => "layer floor",
            Self::Handler => "bare handler",
        }
    }

    /// Returns a description of the contestant and its settings.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Fred => "lock-core over lock-fred, default options",
            Self::FredOtel => "the same with `OtelObserver` on the OpenTelemetry SDK, exporting to memory",
            Self::RedisRs => "lock-core over lock-redis-rs, default options",
            Self::Fair => "a `FairLock` over lock-fred, default options",
            Self::OneSemaphore => {
                "one `Semaphore` with a limit of 16 over lock-fred for all tasks, default options"
            }
            Self::Memory => "lock-core over `MemoryBackend`, default options",
            Self::Fenced => {
                "one script that takes the lock and grants a token, then HDEL and PUBLISH, on fred; no waiting, no \
                 renewal"
            }
            Self::FencedRedisRs => "the same on redis-rs",
            Self::Hash => {
                "two scripts on fred, as Redisson has them: hash, PEXPIRE, DEL, PUBLISH; no renewal, no token"
            }
            Self::Queue => "the hash floor behind one `tokio::sync::Mutex` for each name and process",
            Self::HandOff => {
                "the hash floor, and up to 64 passes of the lease inside the process; no limit of time"
            }
            Self::SetNx => "SET NX PX and compare-and-delete on fred; no waiting, no renewal, no token",
            Self::Rslock => {
                "rslock on redis-rs, a TTL of 30 s, its default retries (3 tries, pauses of 0 to 200 ms, repeated \
                 by `acquire`); no renewal, no token"
            }
            Self::Quorum => {
                "lock-core over `QuorumBackend` of five servers, each through lock-fred, default options"
            }
            Self::QuorumOneStopped => "the same, with one of the servers stopped by SIGSTOP",
            Self::QuorumFloor => {
                "the scripts of the hash floor on five servers at once, until three have answered; nothing else"
            }
            Self::RslockQuorum => "rslock with five servers, otherwise as above",
            Self::RslockQuorumOneStopped => "the same, with one of the servers stopped by SIGSTOP",
            Self::Postgres => "lock-core over `PostgresBackend`, default options",
            Self::PostgresFloor => {
                "one statement that takes the lock, counts a token and writes a fence, one that releases it, with the same \
                 durability, over as many connections; it polls every 2 ms; no renewal"
            }
            Self::Sqlite => "lock-core over `SqliteBackend`, default options",
            Self::SqliteFloor => {
                "one statement that takes the lock and counts a token, one that releases it, with the same durability; \
                 it polls every 2 ms; no renewal"
            }
            Self::Etcd => "lock-core over `EtcdBackend`, one server whose disk is memory, default options",
            Self::EtcdFloor => {
                "one transaction that puts the key if it is not there, one that deletes it, on tonic; it polls every 2 ms; no \
                 renewal"
            }
            Self::ZooKeeper => {
                "lock-core over `ZooKeeperBackend`, one server whose disk is memory, default options"
            }
            Self::ZooKeeperFloor => {
                "one transaction that counts the grant and creates the owner, one that checks the grant and deletes the \
                 owner, on zookeeper-client; it polls every 2 ms; no renewal"
            }
            Self::TokioMutex => {
                "`tokio::sync::Mutex`: the cost of the measurement itself, and of a lock without a lease"
            }
            Self::Layer => "a request through `LockLayer` over `MemoryBackend`",
            Self::LayerFloor => {
                "a layer of 80 lines on lock-core: a fixed key, a wait of 1 s, a handle for the handler, the lock until \
                 the end of the body, two checks for its loss; nothing else"
            }
            Self::Handler => "the same request without the layer",
        }
    }

    /// Returns `true` if the contestant is compiled in.
    pub(crate) fn is_built_in(self) -> bool {
        let of_rslock = matches!(self, Self::Rslock | Self::RslockQuorum | Self::RslockQuorumOneStopped);
        !of_rslock || cfg!(feature = "rslock")
    }

    /// Returns the number of Redis servers that the contestant needs.
    pub(crate) fn servers(self) -> usize {
        match self {
            Self::Memory
            | Self::Postgres
            | Self::PostgresFloor
            | Self::Sqlite
            | Self::SqliteFloor
            | Self::Etcd
            | Self::EtcdFloor
            | Self::ZooKeeper
            | Self::ZooKeeperFloor
            | Self::TokioMutex
            | Self::Layer
            | Self::LayerFloor
            | Self::Handler => 0,
            Self::Quorum
            | Self::QuorumOneStopped
            | Self::QuorumFloor
            | Self::RslockQuorum
            | Self::RslockQuorumOneStopped => 5,
            _ => 1,
        }
    }

    /// Returns the number of servers that are stopped once the processes are connected.
    pub(crate) fn stopped_servers(self) -> usize {
        usize::from(matches!(self, Self::QuorumOneStopped | Self::RslockQuorumOneStopped))
    }
}
