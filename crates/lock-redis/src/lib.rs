//! Redis backend for [`lock_core`], for any client library.
//!
//! Applications use a client crate such as lock-fred, which exports aliases of [`RedisBackend`] and
//! [`RedisBackendBuilder`]. This crate contains the scripts, the rules and the settings. A client crate implements
//! [`client::Client`], which dials one endpoint.
//!
//! # Stored data
//! The layout is Redisson's (`RLock`, and `RFencedLock` for the token), so Rust and Java can
//! contend for the same lock. It consists of a hash `{lease id: depth}` that expires with the
//! lease, a counter for the fencing tokens, and a channel for wake-ups. Every operation takes one
//! round trip and is safe to repeat: it is one Lua script, or two commands for the usual release.
//! Concurrent operations share a call: one script carries up to 32, and each gets its own reply.
//!
//! Each factory also stores a process card under `distlock:process:<uuid>`, for operators. The card
//! is optional and needs no additional permissions. See `docs/protocol.md`.
//!
//! # Connections
//! A backend has two connections regardless of the number of locks: one for requests and one for wake-ups.
//! - Behind Sentinel, both lead to the master, and a third one leads to a sentinel.
//! - With [`replicas`](RedisBackendBuilder::replicas), one more carries requests that need not wait for replicas.
//! - In a cluster, each master has two.
//!
//! Each connection is replaced
//! - when it ends, after a random pause of 150 to 250 ms; if the server refuses the dial, it is repeated after 0.5 to
//!   1 s;
//! - when requests were pending for 2 to 2.5 s without any reply;
//! - when the server reports that it is read-only, or the sentinels name another master, with random pauses that grow
//!   to 2 s.
//!
//! A request is never sent twice. Without a connection it waits up to 300 ms for one, and then fails without being
//! sent. The connection for wake-ups is pinged every 5 s, the one for requests every 10 s.
//! # Guarantees of a single Redis server
//! At most one valid holder exists per lock while the server keeps its data and its clock does not
//! step. A failover to a replica that missed the last write, an eviction or a restart without data
//! can grant a lock that is still held by another holder. The fencing token distinguishes these
//! holders, and the resource must check it. A quorum of independent servers
//! ([`connect_quorum`](RedisBackendBuilder::connect_quorum)) keeps the guarantee even if a minority
//! of them is lost.
//!
//! # Servers
//! Redis 6.2 or later, and Valkey: standalone, the master of sentinels, a cluster, or the nodes of
//! a [quorum](lock_quorum). `docs/topologies.md` describes which failures each survives, and
//! `docs/protocol.md` lists the tested versions. Only a master answers requests about leases; a
//! replica rejects them.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod builder;
mod check;
pub mod client;
mod clock;
mod cluster;
mod connect;
mod connection;
mod directory;
mod error;
mod keys;
mod ledger;
mod pipeline;
mod quorum;
mod route;
mod script;
mod script_reply;
mod sentinel;
mod shared;
mod url;
mod wake;

pub use backend::RedisBackend;
pub use builder::{Configured, RedisBackendBuilder};
pub use check::ConnectWarning;
pub use client::Tls;
pub use url::{Address, QuorumAddress, SCHEMES, SentinelAddress, Topology};

/// Internal functions for fuzzers and trials. They may change in any release.
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod model;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
