//! Lock factories created from a URL.

use lock_core::{Connectors, LockError, LockFactory};

#[cfg(feature = "fred")]
use lock_fred::Redis;
#[cfg(all(feature = "redis", not(feature = "fred")))]
use lock_redis_rs::Redis;

#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
use lock_ledger::{LedgerConnector, MemoryLedger, RunLedger};
#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
use std::sync::Arc;

/// Connects to a store and returns a lock factory with default options.
///
/// Accepts `redis://host`, `valkey://host`, `redis-sentinel://s1,s2,s3/name`,
/// `redis-cluster://h1,h2,h3`, `redlock://h1,h2,h3`, `postgres://host/database` (feature `postgres`),
/// `sqlite:path` for the processes of one machine (feature `sqlite`), and `memory:` for a single process. Call it once
/// per process, and clone the factory; clones share its connections. For other options, use
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
    check_scheme(url)?;
    Ok(LockFactory::new(connectors().connect(url).await?))
}

/// Returns a lock factory without waiting for the store, which it connects to in the background.
///
/// For programs that must start while the store is down: until the first connection is established, acquires fail as
/// [`Unavailable`](lock_core::LockErrorKind::Unavailable), or wait within their limits, and
/// [`LockFactory::health`] returns the reason. Attempts to connect continue for as long as the factory exists:
/// several a second while the server cannot be reached, and about one a second while it refuses the login or a
/// permission is missing.
///
/// PostgreSQL and SQLite are opened by the first request, and by each one until it succeeds; nothing is tried in the
/// background.
///
/// Accepts the URLs of [`connect`] except `redlock://`, and without `?migrate=true`.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), distlock::LockError> {
/// let locks = distlock::connect_lazy("redis://127.0.0.1:6379")?; // the server may be down
/// if !locks.health().await.is_healthy() {
///     println!("not ready yet");
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL or a file that it names cannot be
/// used, [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) for `redlock://`, since the nodes of a quorum
/// must be compared first, and [`LockErrorKind::NoRuntime`](lock_core::LockErrorKind::NoRuntime) if there is no runtime
/// for the connections. None contains secrets from the URL.
pub fn connect_lazy(url: &str) -> Result<LockFactory, LockError> {
    check_scheme(url)?;
    Ok(LockFactory::new(connectors().connect_lazy(url)?))
}

/// Refuses a URL whose store is not built in. Does not repeat any of it, since it may contain a password.
fn check_scheme(url: &str) -> Result<(), LockError> {
    if cfg!(not(feature = "sqlite")) && has_scheme(url, &["sqlite"]) {
        return Err(LockError::invalid_url(
            "SQLite is not built in: enable the feature `sqlite` of distlock",
        ));
    }
    if cfg!(not(feature = "postgres")) && has_scheme(url, &["postgres", "postgresql"]) {
        return Err(LockError::invalid_url(
            "PostgreSQL is not built in: enable the feature `postgres` of distlock",
        ));
    }
    let has_client = cfg!(any(feature = "fred", feature = "redis"));
    match has_client || !is_of_redis(url) {
        true => Ok(()),
        false => Err(LockError::invalid_url(
            "Redis is not built in: enable the feature `fred` or `redis` of distlock",
        )),
    }
}

/// Returns `true` for the schemes of lock-redis, such as `redis`, `rediss-sentinel` or `valkeys`.
fn is_of_redis(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    ["redis", "valkey", "redlock"].iter().any(|begin| scheme.starts_with(begin))
}

fn connectors() -> Connectors {
    let connectors = Connectors::default();
    #[cfg(any(feature = "fred", feature = "redis"))]
    let connectors = connectors.with(Redis);
    #[cfg(feature = "sqlite")]
    let connectors = connectors.with(lock_sqlx::Sqlite);
    #[cfg(feature = "postgres")]
    let connectors = connectors.with(lock_sqlx::Postgres);
    connectors
}

/// Connects to a store for locks and for a scheduler's run ledger. On Redis and in SQLite they share connections; in
/// PostgreSQL, the ledger opens up to 3 of its own.
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
#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
pub async fn connect_with_ledger(url: &str) -> Result<(LockFactory, Arc<dyn RunLedger>), LockError> {
    let Some(connector) = ledger_connector(url)? else { return in_memory(url) };
    let (store, ledger) = connector.connect_with_ledger(url).await?;
    Ok((LockFactory::new(store), ledger))
}

/// Returns a lock factory and a run ledger without waiting for the store, like [`connect_lazy`]. A scheduler that is
/// built on them starts its jobs when the store answers.
///
/// Accepts the URLs of [`connect_with_ledger`].
///
/// # Errors
/// Returns the errors of [`connect_lazy`], and rejects the URL of a store without a run ledger.
#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
pub fn connect_with_ledger_lazy(url: &str) -> Result<(LockFactory, Arc<dyn RunLedger>), LockError> {
    let Some(connector) = ledger_connector(url)? else { return in_memory(url) };
    let (store, ledger) = connector.connect_with_ledger_lazy(url)?;
    Ok((LockFactory::new(store), ledger))
}

/// Returns the connector of a URL; `None` for `memory:`.
#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
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

fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| schemes.iter().any(|s| s.eq_ignore_ascii_case(scheme)))
}

#[cfg(any(feature = "fred", feature = "redis", feature = "postgres", feature = "sqlite"))]
fn in_memory(url: &str) -> Result<(LockFactory, Arc<dyn RunLedger>), LockError> {
    match url.ends_with(':') {
        true => Ok((connect_lazy(url)?, Arc::new(MemoryLedger::new()))),
        false => Err(LockError::invalid_url(
            "a named in-memory store has no run ledger: use `memory:` without a name",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_that_is_not_built_in_names_the_feature() {
        for (url, is_built_in, feature) in [
            ("sqlite:/missing/locks.db", cfg!(feature = "sqlite"), "feature `sqlite` of distlock"),
            ("postgres://localhost:1/d", cfg!(feature = "postgres"), "feature `postgres` of distlock"),
        ] {
            let refused = connect_lazy(url);
            match is_built_in {
                true => assert!(refused.is_ok(), "it is opened by the first request"),
                false => assert!(refused.unwrap_err().to_string().contains(feature)),
            }
        }
    }

    #[test]
    fn schemes_of_redis_are_recognized_without_its_crates() {
        for scheme in lock_redis::SCHEMES {
            assert!(is_of_redis(&format!("{scheme}://host")), "{scheme}");
        }
        assert!(is_of_redis("Redis://host"));
        for other in ["memory:", "etcd://host", "redis", "user:redis@host", ""] {
            assert!(!is_of_redis(other), "{other}");
        }
    }
}
