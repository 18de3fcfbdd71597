//! Redis locks for [`lock_core`], through the `redis` client (redis-rs).
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::LockFactory;
//! use lock_redis_rs::RedisBackend;
//!
//! let locks = LockFactory::new(RedisBackend::connect("redis://127.0.0.1:6379").await?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! println!("{:?}", guard.release().await); // no `?`: the work is done even if the release is not confirmed
//! # Ok(()) }
//! ```
//!
//! This crate opens and secures connections and translates errors. It is built on [`lock_redis`],
//! which documents the stored data, the connections, the guarantees and the supported servers.
//! Locks, ledger and stored data are the same as in lock-fred, and both crates export the same
//! names, so switching clients changes one line of a program.
//!
//! # Choosing a client
//! Use lock-fred by default: it has been tested for longer, and it logs in without `HELLO`. Use
//! this crate if the program already uses redis-rs. Neither is faster at every load; see
//! `docs/performance.md` for the figures. One task drives each connection. A call wakes the task
//! once, and the task wakes the call once. The task also delivers wake-up messages to the waiters.
//!
//! The connections log in with `HELLO 3` (RESP3), so requests and messages use the same kind of
//! connection. Servers and proxies without `HELLO` are rejected.
//!
//! # Features
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `tls-ring` | off | `rediss://`, using rustls on ring |
//! | `tls-aws-lc-rs` | off | `rediss://`, using rustls on aws-lc-rs; with both, this crate uses ring |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod connection;
mod connector;
mod error;

pub use client::RedisRs;
pub use connector::Redis;
#[cfg(feature = "__tls")]
pub use lock_redis::Tls;
pub use lock_redis::{Address, ConnectWarning, client::Credentials};
/// The underlying client, for [`RedisBackendBuilder::from_client`](lock_redis::RedisBackendBuilder::from_client).
pub use redis;

/// A Redis backend with Redisson's data layout, on one server, the master behind Sentinel, or a cluster.
///
/// Created by [`connect`](lock_redis::RedisBackend::connect) or [`RedisBackendBuilder`]. Clones share their
/// [connections](lock_redis#connections), which close with the last clone. They are opened in the
/// [worker](lock_redis::RedisBackendBuilder::worker), or else in the tokio runtime that connects. If that ends or
/// stands still, others are opened in the keeper, the thread in which factories renew their leases.
pub type RedisBackend = lock_redis::RedisBackend<RedisRs>;

/// A builder for a [`RedisBackend`].
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_redis_rs::RedisBackendBuilder;
/// use std::time::Duration;
///
/// let backend = RedisBackendBuilder::from_url("redis://:secret@cache:6379/2")?
///     .connect_timeout(Duration::from_secs(2))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
pub type RedisBackendBuilder = lock_redis::RedisBackendBuilder<RedisRs>;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
