//! Lock factories created from a URL.

use lock_core::{Connectors, LockError, LockFactory};

#[cfg(feature = "fred")]
use lock_fred::Redis;
#[cfg(all(feature = "redis", not(feature = "fred")))]
use lock_redis_rs::Redis;

#[cfg(any(feature = "fred", feature = "redis"))]
use lock_ledger::{LedgerConnector, MemoryLedger, RunLedger};
#[cfg(any(feature = "fred", feature = "redis"))]
use std::sync::Arc;

/// Connects to a store and returns a lock factory with default options.
///
/// Accepts `redis://host`, `valkey://host`, `redis-sentinel://s1,s2,s3/name`,
/// `redis-cluster://h1,h2,h3`, `redlock://h1,h2,h3`, and `memory:` for a single process. Call it
/// once per process, and clone the factory; clones share its connections. For other options, use
/// `LockFactory::builder(backend)`.
///
/// Each `connect("memory:")` creates a store of its own, so the locks of two such factories do not exclude each other.
/// Factories that connect to `memory:name` share the store of that name within the process.
///
/// # Errors
/// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used, or
/// the connector's error if the store cannot be reached or rejects the login. Neither contains
/// secrets from the URL.
///
/// # Cancel safety
/// Cancel safe: dropping the future closes the connections that it opened.
pub async fn connect(url: &str) -> Result<LockFactory, LockError> {
    let connectors = Connectors::default();
    #[cfg(any(feature = "fred", feature = "redis"))]
    let connectors = connectors.with(Redis);
    Ok(LockFactory::new(connectors.connect(url).await?))
}

/// Connects to Redis for locks and for a scheduler's run ledger, over the same connections.
///
/// Accepts the URLs of [`connect`] except `redlock://`, since a quorum has no run ledger. With
/// `memory:`, the locks and the ledger are private to the returned values. A named in-memory store,
/// such as `memory:shop`, has no ledger.
///
/// ```no_run
/// # #[cfg(feature = "cron")]
/// # async fn jobs() -> Result<(), Box<dyn std::error::Error>> {
/// use distlock::cron::{RunContext, Schedule, Scheduler};
///
/// let (locks, ledger) = distlock::connect_with_ledger("redis://127.0.0.1:6379").await?;
/// let cron = Scheduler::builder(locks, ledger).group("billing").build()?;
/// cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns the errors of [`connect`], and rejects the URL of a store without a run ledger.
///
/// # Cancel safety
/// Cancel safe, like [`connect`].
#[cfg(any(feature = "fred", feature = "redis"))]
pub async fn connect_with_ledger(url: &str) -> Result<(LockFactory, Arc<dyn RunLedger>), LockError> {
    let in_memory = |scheme: &str| scheme.eq_ignore_ascii_case("memory");
    match url.split_once(':') {
        Some((scheme, "")) if in_memory(scheme) => Ok((connect(url).await?, Arc::new(MemoryLedger::new()))),
        Some((scheme, _)) if in_memory(scheme) => Err(LockError::invalid_url(
            "a named in-memory store has no run ledger: use `memory:` without a name",
        )),
        _ => {
            let (store, ledger) = Redis.connect_with_ledger(url).await?;
            Ok((LockFactory::new(store), ledger))
        }
    }
}
