//! Redis locks for [`lock_core`], through the `fred` client.
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::LockFactory;
//! use lock_fred::RedisBackend;
//!
//! let locks = LockFactory::new(RedisBackend::connect("redis://127.0.0.1:6379").await?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! println!("{:?}", guard.release().await); // no `?`: the work is done even if the release is not confirmed
//! # Ok(()) }
//! ```
//!
//! This crate opens and secures connections and translates errors. It is built on [`lock_redis`], which documents the
//! stored data, the connections, the guarantees and the supported servers.
//!
//! The connections log in with `AUTH` (RESP2), which also works with servers and proxies without
//! `HELLO`.
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

pub use client::Fred;
pub use connector::Redis;
/// The underlying client, for [`RedisBackendBuilder::from_client`](lock_redis::RedisBackendBuilder::from_client).
pub use fred;
#[cfg(feature = "__tls")]
pub use lock_redis::Tls;
pub use lock_redis::{Address, ConnectWarning, client::Credentials};

/// A Redis backend with Redisson's data layout, on one server, the master behind Sentinel, or a cluster.
///
/// Created by [`connect`](lock_redis::RedisBackend::connect) or [`RedisBackendBuilder`]. Clones share their
/// [connections](lock_redis#connections), which close with the last clone. They are opened in the
/// [worker](lock_redis::RedisBackendBuilder::worker), or else in the tokio runtime that connects. If that ends or
/// stands still, others are opened in the keeper, the thread in which factories renew their leases.
pub type RedisBackend = lock_redis::RedisBackend<Fred>;

/// A builder for a [`RedisBackend`].
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_fred::RedisBackendBuilder;
/// use std::time::Duration;
///
/// let backend = RedisBackendBuilder::from_url("redis://:secret@cache:6379/2")?
///     .connect_timeout(Duration::from_secs(2))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
pub type RedisBackendBuilder = lock_redis::RedisBackendBuilder<Fred>;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
