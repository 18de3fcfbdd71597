//! Redis stores by URL, for programs with a configurable store.

use crate::{RedisBackend, RedisBackendBuilder};
use async_trait::async_trait;
use lock_core::{LockError, Store, backend::Connector};
use lock_ledger::{LedgerConnector, RunLedger};
use std::sync::Arc;

/// The connector for Redis: `Connectors::default().with(lock_redis_rs::Redis).connect("redis://…")`.
///
/// [`Address`](crate::Address) lists the accepted URLs. `rediss://` needs the feature `tls-ring` or `tls-aws-lc-rs`.
///
/// A [`Store`] exposes neither a ping nor its connection state. For health checks, create a
/// [`RedisBackend`] from the URL and keep a clone. A scheduler also needs the ledger, which uses
/// the same connections:
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::LockFactory;
/// use lock_ledger::LedgerConnector;
///
/// let (store, ledger) = lock_redis_rs::Redis.connect_with_ledger("redis://127.0.0.1:6379").await?;
/// let locks = LockFactory::new(store);
/// // let cron = lock_cron::Scheduler::builder(locks, ledger).build()?;
/// # drop((locks, ledger));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Redis;

#[async_trait]
impl Connector for Redis {
    fn schemes(&self) -> &[&'static str] {
        &lock_redis::SCHEMES
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        RedisBackendBuilder::from_url(url)?.connect_store().await
    }

    fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        Ok(RedisBackendBuilder::from_url(url)?.connect_lazy()?.into())
    }
}

#[async_trait]
impl LedgerConnector for Redis {
    async fn connect_with_ledger(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        let redis = RedisBackend::connect(url).await?;
        Ok((redis.clone().into(), Arc::new(redis)))
    }

    fn connect_with_ledger_lazy(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        let redis = RedisBackendBuilder::from_url(url)?.connect_lazy()?;
        Ok((redis.clone().into(), Arc::new(redis)))
    }
}
