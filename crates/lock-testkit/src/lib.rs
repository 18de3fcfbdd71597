//! The conformance suites for lock backends and run ledgers, and tools that inject faults into tests.
//!
//! - [`mod@conformance`]: one async function per property of a store. [`conformance!`] generates a named test for
//!   each. Every backend of the library passes all of them. [`ledger_conformance!`] does the same for a run ledger.
//! - [`contender`]: a lease with methods for each operation on a store; the suite tests backends through it.
//! - [`FaultyBackend`]: wraps a backend whose calls then hang, get lost, arrive late or twice, or wait at a [`Gate`];
//!   [`FaultyLedger`] does so for a ledger.
//! - [`History`]: records holds, and finds overlapping ones and tokens that decrease.
//! - [`outlives_a_blocked_thread`]: checks that a lock is kept while a caller blocks a runtime thread.
//! - [`contend_for_sets`]: tasks that contend for overlapping sets of locks, and a referee.
//! - [`Seed`]: random numbers; a failing test prints the seed that repeats them.
//! - [`ThreadLog`]: captures the log of one test's thread only.
//! - [`RedisServer`] (feature `servers`): a private `redis-server` that can be paused, killed, and restarted from an old dump;
//!   [`RawRedis`] reads and writes its keys.
//! - [`RedisCluster`] (feature `servers`): three masters with a third of the slots each, and a replica of each.
//! - [`RedisQuorum`] (feature `servers`): independent masters, as the nodes of a quorum.
//! - [`RedisSentinels`] (feature `servers`): a master, its replicas and the sentinels that watch it.
//! - [`TcpProxy`] (feature `servers`): a proxy that cuts, stalls or delays connections, or drops replies.
//! - [`ClockShift`] (feature `servers`): a wall clock that can be set, for servers and other processes.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `servers` | off | the items marked above, on Unix. They need `sh` and the binary `redis-server`, in the `PATH` or named by `REDIS_SERVER`; `ClockShift` also needs a C compiler |
//!
//! The feature `__planted` is for the checkers of this library and may change in any release.
//!
//! ```
//! use lock_core::{MemoryBackend, Store};
//! use lock_testkit::{Fault, FaultyBackend, Op};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let faulty = FaultyBackend::new(MemoryBackend::new());
//! faulty.next(Op::Acquire, Fault::ApplyThenLose); // one lost reply …
//! faulty.always(Op::Release, Fault::Hang); // … and releases that are never answered
//! let store = Store::from(faulty.clone()); // give this one to a factory
//! # drop(store);
//! faulty.heal();
//! assert_eq!(faulty.calls(Op::Acquire), 0);
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
// The list above also links to items that only a feature provides.
#![cfg_attr(not(all(unix, feature = "servers")), allow(rustdoc::broken_intra_doc_links))]

mod blocked_thread;
#[cfg(all(unix, feature = "servers"))]
mod clock_shift;
pub mod conformance;
pub mod contender;
mod faulty;
mod history;
#[cfg(feature = "__planted")]
pub mod planted;
#[cfg(all(unix, feature = "servers"))]
mod ports;
#[cfg(all(unix, feature = "servers"))]
mod proxy;
#[cfg(all(unix, feature = "servers"))]
mod redis;
mod seed;
mod set_contention;
mod thread_log;

pub use blocked_thread::{LastUse, outlives_a_blocked_thread};
#[cfg(all(unix, feature = "servers"))]
pub use clock_shift::ClockShift;
pub use faulty::{Fault, FaultyBackend, FaultyLedger, Gate, Kept, Op, Phase};
pub use history::{History, HoldKey, Violation, Window};
#[cfg(all(unix, feature = "servers"))]
pub use ports::unused_address;
#[cfg(all(unix, feature = "servers"))]
pub use proxy::{Direction, TcpProxy};
#[cfg(all(unix, feature = "servers"))]
pub use redis::{
    Dump, RawRedis, RawValue, RedisCluster, RedisQuorum, RedisSentinels, RedisServer, RedisServerBuilder,
    TlsFiles,
};
pub use seed::{Seed, Stream};
pub use set_contention::contend_for_sets;
pub use thread_log::ThreadLog;
