//! What every lock backend must pass, and a backend that fails on purpose.
//!
//! - [`mod@conformance`]: one plain async function per property of a store, and [`conformance!`], which makes a named
//!   test of each. Adding a backend to the library means to pass it.
//! - [`contender`]: a lease that asks a store for things: the hand with which the suite touches a backend.
//! - [`FaultyBackend`]: any backend, with operations that hang, get lost, come late, come twice, or wait at a
//!   [`Gate`].
//! - [`History`]: what was held when, and whether two holds were valid at once or tokens fell.
//! - [`outlives_a_blocked_thread`]: a careless caller on a thread that the watchdog may need.
//! - [`Seed`]: randomness that prints how to repeat it.
//! - [`ThreadLog`]: what the thread of a test logs, whatever the tests beside it log.
//! - [`RedisServer`] (feature `servers`): a `redis-server` of one's own that can be paused, killed, and restarted with
//!   the data of yesterday; [`RawRedis`] to look into it.
//! - [`RedisCluster`] (feature `servers`): three masters, each with a third of the slots and a replica.
//! - [`RedisQuorum`] (feature `servers`): independent masters, as the nodes of a quorum.
//! - [`RedisSentinels`] (feature `servers`): a master, its replicas and the sentinels that watch it.
//! - [`TcpProxy`] (feature `servers`): a way to a server that can be cut, stalled, slowed, and robbed of replies.
//! - [`ClockShift`] (feature `servers`): a wall clock that can be set, for servers and other processes.
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `servers` | no | `RedisServer`, `TcpProxy`, `ClockShift`, on Unix: for the tests of backends that need a server. Needs the binary `redis-server`, in the path or named by `REDIS_SERVER`, and `sh`; the clock a C compiler |
//! | `planted` | no | `planted`: known bugs, and stores that have them, for the checkers of this workspace |
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

// The list above names also what only a feature has.
#![cfg_attr(not(all(unix, feature = "servers")), allow(rustdoc::broken_intra_doc_links))]

mod blocked_thread;
#[cfg(all(unix, feature = "servers"))]
mod clock_shift;
pub mod conformance;
pub mod contender;
mod faulty;
mod history;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(all(unix, feature = "servers"))]
mod ports;
#[cfg(all(unix, feature = "servers"))]
mod proxy;
#[cfg(all(unix, feature = "servers"))]
mod redis;
mod seed;
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
pub use thread_log::ThreadLog;
