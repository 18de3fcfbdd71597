//! Distributed locks with expiring leases, automatic renewal and fencing tokens, in a single
//! dependency.
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> Result<(), distlock::LockError> {
//! let locks = distlock::connect("redis://127.0.0.1:6379").await?; // one per process
//! let guard = locks.named("stock:42")?.acquire().await?;
//! println!("held with token {}", guard.fencing_token());
//! println!("{:?}", guard.release().await); // no `?`: the work is done, see `LockErrorKind::Unconfirmed`
//! locks.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! The root re-exports [`lock_core`], which documents locks, guards and options, and [`quorum`], a
//! store over several independent ones. Each other part is a module behind a feature:
//!
//! | feature | default | provides |
//! | --- | --- | --- |
//! | `fred` | on | `fred`: the backend on Redis and Valkey through the client `fred` |
//! | `redis` | off | `redis`: the same backend through the client `redis` (redis-rs) |
//! | `tls-ring`, `tls-aws-lc-rs` | off | `rediss://` and the other TLS schemes, through rustls on ring or on aws-lc-rs, for the enabled clients |
//! | `tower` | off | `tower`: a lock as a tower layer |
//! | `axum` | off | path keys and extractors for the layer (enables `tower`), and the scheduler's console |
//! | `idempotency` | off | `tower::idempotency`: requests with an `Idempotency-Key` run once (enables `tower`) |
//! | `sqlite` | off | `sql`: locks and jobs in an SQLite file, and `sqlite:` in `connect`; with `idempotency`, records in SQLite; needs Rust 1.94 and a C compiler |
//! | `postgres` | off | `sql`: locks and jobs in PostgreSQL, and `postgres:` in `connect`; with `idempotency`, records in PostgreSQL; needs Rust 1.94 |
//! | `mysql` | off | `sql`: locks in MariaDB (MySQL 8.0: untested), and `mysql:` in `connect`; needs Rust 1.94 |
//! | `etcd` | off | `etcd`: locks in an etcd cluster, and `etcd:` in `connect` |
//! | `zookeeper` | off | `zookeeper`: locks in a ZooKeeper ensemble, and `zookeeper:` in `connect`; its TLS needs `tls-aws-lc-rs` |
//! | `sqlx-any` | off | idempotency records through sqlx's `Any` (enables `tower`); the program enables the databases as features of sqlx |
//! | `cron` | off | `cron`: jobs that start once across a fleet |
//! | `macros` | off | `#[derive(LockKey)]`: lock names from a value's fields |
//! | `otel` | off | metrics on the OpenTelemetry API, for the enabled parts |
//! | `cancellation-token` | off | `Hold::cancellation_token` |
//! | `testing` | off | for tests: `LockFactory::paused`, `clock::TestClock`, the contents of a [`MemoryBackend`], and `testing`: injected faults, and the conformance suites for backends and ledgers |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connect;
#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
mod connect_with_ledger;

pub use connect::{connect, connect_lazy};
#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
pub use connect_with_ledger::{connect_with_ledger, connect_with_ledger_lazy};
pub use lock_core::*;
/// A store over several independent ones, of which a majority decides.
pub use lock_quorum as quorum;

/// Cron jobs that start exactly once across a fleet.
#[cfg(feature = "cron")]
pub use lock_cron as cron;
/// Locks in an etcd cluster.
#[cfg(feature = "etcd")]
pub use lock_etcd as etcd;
/// A backend for Redis and Valkey, built on the client `fred`.
#[cfg(feature = "fred")]
pub use lock_fred as fred;
/// The run ledger, which ensures that schedulers start each run only once.
#[cfg(any(
    feature = "cron",
    feature = "fred",
    feature = "redis",
    feature = "postgres",
    feature = "sqlite"
))]
pub use lock_ledger as ledger;
// lock-core can export a macro with the same name, but its code refers to lock-core, which may not
// be a dependency of the program.
#[cfg(feature = "macros")]
pub use lock_macros::DistlockLockKey as LockKey;
/// A backend for Redis and Valkey, built on the client `redis` (redis-rs).
#[cfg(feature = "redis")]
pub use lock_redis_rs as redis;
/// Locks and jobs in a PostgreSQL database or an SQLite file, locks in MariaDB and MySQL, and a fence for transactions there.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use lock_sqlx as sql;
/// Fault-injecting backends and ledgers, and conformance suites, for dev-dependencies.
#[cfg(feature = "testing")]
pub use lock_testkit as testing;
/// A lock as a tower layer.
#[cfg(feature = "tower")]
pub use lock_tower as tower;
/// Locks in a ZooKeeper ensemble.
#[cfg(feature = "zookeeper")]
pub use lock_zookeeper as zookeeper;
