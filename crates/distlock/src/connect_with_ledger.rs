//! Lock factories and run ledgers created from a URL.

use crate::connect::{check_scheme, connect_lazy, has_scheme};
use lock_core::{LockError, LockFactory};
use lock_ledger::{LedgerConnector, MemoryLedger, RunLedger};
use std::sync::Arc;

#[cfg(feature = "fred")]
use lock_fred::Redis;
#[cfg(all(feature = "redis", not(feature = "fred")))]
use lock_redis_rs::Redis;

/// Connects to a store for locks and for a scheduler's run ledger. On Redis and in SQLite they share connections; in
/// PostgreSQL, the ledger opens up to 3 of its own.
///
/// Accepts the URLs of [`connect`](super::connect()) except `redlock://`, since a quorum has no run ledger. With
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
/// Returns the errors of [`connect`](super::connect()), and rejects the URL of a store without a run ledger.
///
/// # Cancel safety
/// Cancel safe, like [`connect`](super::connect()).
pub async fn connect_with_ledger(url: &str) -> Result<(LockFactory, Arc<dyn RunLedger>), LockError> {
    let Some(connector) = ledger_connector(url)? else { return in_memory(url) };
    let (store, ledger) = connector.connect_with_ledger(url).await?;
    Ok((LockFactory::new(store), ledger))
}

/// Returns a lock factory and a run ledger without waiting for the store, like [`connect_lazy`](super::connect_lazy()). A scheduler that is
/// built on them starts its jobs when the store answers.
///
/// Accepts the URLs of [`connect_with_ledger`].
///
/// # Errors
/// Returns the errors of [`connect_lazy`](super::connect_lazy()), and rejects the URL of a store without a run ledger.
pub fn connect_with_ledger_lazy(url: &str) -> Result<(LockFactory, Arc<dyn RunLedger>), LockError> {
    let Some(connector) = ledger_connector(url)? else { return in_memory(url) };
    let (store, ledger) = connector.connect_with_ledger_lazy(url)?;
    Ok((LockFactory::new(store), ledger))
}

/// Returns the connector of a URL; `None` for `memory:`.
fn ledger_connector(url: &str) -> Result<Option<&'static dyn LedgerConnector>, LockError> {
    check_scheme(url)?;
    let connectors: [&'static dyn LedgerConnector; _] = [
        #[cfg(any(feature = "fred", feature = "redis"))]
        &Redis,
        #[cfg(feature = "postgres")]
        &lock_sqlx::Postgres,
        #[cfg(feature = "sqlite")]
        &lock_sqlx::Sqlite,
    ];
    if has_scheme(url, &["memory"]) {
        return Ok(None);
    }
    match connectors.into_iter().find(|connector| has_scheme(url, connector.schemes())) {
        Some(connector) => Ok(Some(connector)),
        None => Err(LockError::invalid_url(
            "no store with a run ledger has this scheme: use a URL of Redis, PostgreSQL, SQLite, or `memory:`",
        )),
    }
}

fn in_memory(url: &str) -> Result<(LockFactory, Arc<dyn RunLedger>), LockError> {
    match url.ends_with(':') {
        true => Ok((connect_lazy(url)?, Arc::new(MemoryLedger::new()))),
        false => Err(LockError::invalid_url(
            "a named in-memory store has no run ledger: use `memory:` without a name",
        )),
    }
}
