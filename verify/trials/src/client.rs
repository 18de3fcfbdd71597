//! The client library of a process under test.

use clap::ValueEnum;
use lock_core::{LockError, Store, backend::Connector as _};
use lock_ledger::{LedgerConnector as _, RunLedger};
use std::sync::Arc;

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

    /// Connects a store for locks.
    ///
    /// # Errors
    /// The error of the connection.
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect(self, url: &str) -> Result<Store, LockError> {
        match self {
            Self::Fred => lock_fred::Redis.connect(url).await,
            Self::RedisRs => lock_redis_rs::Redis.connect(url).await,
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
        match self {
            Self::Fred => lock_fred::Redis.connect_with_ledger(url).await,
            Self::RedisRs => lock_redis_rs::Redis.connect_with_ledger(url).await,
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
