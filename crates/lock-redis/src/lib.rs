//! Locks of [`lock_core`] on Redis, for any client library.
//!
//! Applications take the crate of a client, such as lock-fred, which has aliases of [`RedisBackend`] and
//! [`RedisBackendBuilder`]. This crate has the scripts, the rules and the settings; the crate of a client implements
//! [`client::Client`], which dials one endpoint.
//!
//! # What is stored
//! What Redisson stores (`RLock`, and `RFencedLock` for the token), so that Rust and Java contend for one lock: a hash
//! `{lease id: depth}` that expires with the lease, a counter for the fencing tokens, a channel for wake-ups. Every
//! operation is one Lua script in one round trip, and repeating it is harmless. Operations that are under way together share
//! a call: up to 32 in one script, each answered for itself.
//!
//! # Connections
//! A backend has two connections, whatever the number of locks: one for requests, one for wake-ups.
//! - Behind Sentinel they lead to the master, and a third one to a sentinel.
//! - With [`replicas`](RedisBackendBuilder::replicas) there is one more, for requests that need not wait for replicas.
//! - In a cluster each master has two.
//!
//! Each is replaced
//! - when it ends, after a random pause of 150 to 250 ms; a dial that the server refuses is repeated after 0.5 to 1 s;
//! - when requests were under way for 2 to 2.5 s without any answer;
//! - when the server says that it is read-only, or the sentinels have another master, with random pauses that grow to 2 s.
//!
//! A request is never sent twice; without a connection it waits up to 300 ms for one, and is then not sent at all. The
//! connection for wake-ups gives a sign of life every 5 s, the other one every 10 s.
//!
//! # What one Redis promises
//! At most one valid holder per name while the server keeps its data and its clock does not step. A failover to a
//! replica that missed the last write, an eviction or a restart without data can grant a lock that somebody still
//! believes to hold. The fencing token tells such holders apart, and the resource has to check it. A quorum of independent
//! servers ([`connect_quorum`](RedisBackendBuilder::connect_quorum)) promises the same while a minority of them is lost.
//!
//! # Servers
//! Redis 6.2 or later, and Valkey: alone, the master of sentinels, a cluster, or as the nodes of a
//! [quorum](lock_core::quorum); `docs/topologies.md` says what each survives, `docs/protocol.md` lists the versions that were
//! tried. An answer about a lease comes from a master only: a replica behind the address refuses it.

mod backend;
mod builder;
mod check;
pub mod client;
mod clock;
mod cluster;
mod connection;
mod error;
mod info;
mod keys;
mod ledger;
mod liveness;
mod pauses;
mod pipeline;
mod quorum;
mod route;
mod script;
mod script_reply;
mod secret;
mod sentinel;
mod shared;
mod sync;
mod topology;
mod url;
mod wake;

pub use backend::RedisBackend;
pub use builder::RedisBackendBuilder;
pub use check::ConnectWarning;
pub use client::Tls;
pub use topology::{QuorumAddress, SentinelAddress, Topology};
pub use url::{Address, SCHEMES};

/// Reading of replies and naming of keys, for fuzzers and trials. Not covered by any promise of stability.
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod model;
