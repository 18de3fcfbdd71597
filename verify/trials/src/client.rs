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
    /// That of the environment variable `LOCK_CLIENT`, `fred` or `redis-rs`, by which a whole run of trials is made over one
    /// of them; without it, fred.
    ///
    /// # Panics
    /// If it is another word.
    #[must_use]
    pub fn of_this_run() -> Self {
        let Ok(name) = std::env::var("LOCK_CLIENT") else { return Self::Fred };
        Self::from_str(&name, false).unwrap_or_else(|why| panic!("LOCK_CLIENT: {why}"))
    }

    /// Its name, as the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fred => "fred",
            Self::RedisRs => "redis-rs",
        }
    }

    /// Connects locks.
    ///
    /// # Errors
    /// That of the connection.
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect(self, url: &str) -> Result<Store, LockError> {
        match self {
            Self::Fred => lock_fred::Redis.connect(url).await,
            Self::RedisRs => lock_redis_rs::Redis.connect(url).await,
        }
    }

    /// Connects locks and the run ledger.
    ///
    /// # Errors
    /// That of the connection.
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect_with_ledger(self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        match self {
            Self::Fred => lock_fred::Redis.connect_with_ledger(url).await,
            Self::RedisRs => lock_redis_rs::Redis.connect_with_ledger(url).await,
        }
    }

    /// Connects locks whose leases count only when this number of replicas has acknowledged them.
    ///
    /// # Errors
    /// That of the connection.
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
