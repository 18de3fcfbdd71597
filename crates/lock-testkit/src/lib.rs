//! Conformance suites for lock backends and run ledgers, and tools that inject faults into tests.
//!
//! - [`mod@conformance`]: one async function per property of a store. [`conformance!`] generates
//!   a named test for each. Every backend in this workspace passes all of them.
//!   [`ledger_conformance!`] does the same for a run ledger.
//! - [`contender`]: a lease id with a method for each store operation, used by the suite.
//! - [`FaultyBackend`]: wraps a backend and makes its calls hang, get lost, arrive late or twice,
//!   or wait at a [`Gate`]. [`FaultyLedger`] does the same for a ledger.
//! - [`History`]: records holds, and detects overlaps and decreasing tokens.
//! - [`outlives_a_blocked_thread`]: checks that a lock stays held while a caller blocks a runtime
//!   thread.
//! - [`contend_for_sets`]: runs tasks that contend for overlapping sets of locks, and checks
//!   exclusion.
//! - [`PermitRun`]: random operations on the pools of a store, whose answers must be those of the rules of pools.
//! - [`RulesRun`]: random operations on a store, whose answers must be those of the store rules.
//! - [`Seed`]: reproducible random numbers. A failing test prints its seed.
//! - [`ThreadLog`]: captures the log of a single test's thread.
//! - [`RedisServer`] (feature `servers`): a private `redis-server` that can be paused, killed,
//!   and restarted from an old dump. [`RawRedis`] reads and writes its keys.
//! - [`RedisCluster`] (feature `servers`): three masters with a third of the slots each, and one
//!   replica per master.
//! - [`RedisQuorum`] (feature `servers`): independent masters that serve as quorum nodes.
//! - [`RedisSentinels`] (feature `servers`): a master, its replicas and the sentinels that watch it.
//! - [`PostgresServer`], [`MariaDbServer`], [`EtcdCluster`] and [`ZooKeeperEnsemble`] (feature `servers`): private servers
//!   that can be stopped and restarted; the last two are each a [`Cluster`] of a [`Program`].
//! - [`Network`] (feature `servers`): hosts for a cluster, between which the network can be cut.
//! - [`PostgresPooler`] (feature `servers`): a pgbouncer in front of it.
//! - [`TcpProxy`] (feature `servers`): a proxy that cuts, stalls or delays connections, or drops replies.
//! - [`ClockShift`] (feature `servers`): an adjustable wall clock for servers and other
//!   processes.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `servers` | off | the items marked above, on Unix. They need `sh` and the binary `redis-server`, in the `PATH` or named by `REDIS_SERVER`; `PostgresServer` needs PostgreSQL instead, `MariaDbServer` MariaDB, `EtcdCluster` etcd, `ZooKeeperEnsemble` ZooKeeper, `PostgresPooler` also pgbouncer, and `ClockShift` also a C compiler |
//!
//! The feature `__planted` is reserved for this workspace's own checks and may change in any
//! release.
//!
//! ```
//! use lock_core::{MemoryBackend, Store};
//! use lock_testkit::{Fault, FaultyBackend, Op};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let faulty = FaultyBackend::new(MemoryBackend::new());
//! faulty.next(Op::Acquire, Fault::ApplyThenLose); // one lost reply
//! faulty.always(Op::Release, Fault::Hang); // releases never receive a reply
//! let store = Store::from(faulty.clone()); // pass this one to a factory
//! # drop(store);
//! faulty.heal();
//! assert_eq!(faulty.calls(Op::Acquire), 0);
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
// The list above links to items that require a feature.
#![cfg_attr(not(all(unix, feature = "servers")), allow(rustdoc::broken_intra_doc_links))]

#[cfg(all(unix, feature = "servers"))]
mod clock_shift;
#[cfg(all(unix, feature = "servers"))]
mod cluster;
pub mod conformance;
pub mod contender;
#[cfg(all(unix, feature = "servers"))]
mod database;
#[cfg(all(unix, feature = "servers"))]
mod etcd;
mod faulty;
mod history;
mod ledger_run;
#[cfg(all(unix, feature = "servers"))]
mod mariadb;
#[cfg(all(unix, feature = "servers"))]
mod network;
mod permit_run;
#[cfg(feature = "__planted")]
pub mod planted;
#[cfg(all(unix, feature = "servers"))]
mod postgres;
#[cfg(all(unix, feature = "servers"))]
mod postgres_pooler;
#[cfg(all(unix, feature = "servers"))]
mod process;
#[cfg(all(unix, feature = "servers"))]
mod proxy;
#[cfg(all(unix, feature = "servers"))]
mod redis;
mod rules_run;
mod scenarios;
mod seed;
mod thread_log;
#[cfg(all(unix, feature = "servers"))]
mod zookeeper;

#[cfg(all(unix, feature = "servers"))]
pub use clock_shift::ClockShift;
#[cfg(all(unix, feature = "servers"))]
pub use cluster::{Cluster, Program};
#[cfg(all(unix, feature = "servers"))]
pub use etcd::{Etcd, EtcdCluster};
pub use faulty::{Fault, FaultyBackend, FaultyLedger, Gate, Kept, Op, Phase};
pub use history::{History, HoldKey, Violation, Window};
pub use ledger_run::LedgerRun;
#[cfg(all(unix, feature = "servers"))]
pub use mariadb::MariaDbServer;
#[cfg(all(unix, feature = "servers"))]
pub use network::Network;
pub use permit_run::PermitRun;
#[cfg(all(unix, feature = "servers"))]
pub use postgres::PostgresServer;
#[cfg(all(unix, feature = "servers"))]
pub use postgres_pooler::PostgresPooler;
#[cfg(all(unix, feature = "servers"))]
pub use process::unused_address;
#[cfg(all(unix, feature = "servers"))]
pub use proxy::{Direction, TcpProxy};
#[cfg(all(unix, feature = "servers"))]
pub use redis::{
    Dump, RawRedis, RawValue, RedisCluster, RedisQuorum, RedisSentinels, RedisServer, RedisServerBuilder,
    TlsFiles,
};
pub use rules_run::RulesRun;
pub use scenarios::{LastUse, contend_for_sets, outlives_a_blocked_thread};
pub use seed::{Seed, Stream};
pub use thread_log::ThreadLog;
#[cfg(all(unix, feature = "servers"))]
pub use zookeeper::{ZooKeeper, ZooKeeperEnsemble};
