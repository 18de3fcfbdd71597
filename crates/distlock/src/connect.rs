//! Lock factories created from a URL.

use lock_core::{Connectors, LockError, LockFactory};

#[cfg(feature = "fred")]
use lock_fred::Redis;
#[cfg(all(feature = "redis", not(feature = "fred")))]
use lock_redis_rs::Redis;

/// Connects to a store and returns a lock factory with default options.
///
/// Accepts `redis://host`, `valkey://host`, `redis-sentinel://s1,s2,s3/name`,
/// `redis-cluster://h1,h2,h3`, `redlock://h1,h2,h3`, `postgres://host/database` (feature `postgres`),
/// `mysql://host/database` for MariaDB and MySQL (feature `mysql`), `etcd://h1,h2,h3` (feature `etcd`),
/// `zookeeper://h1,h2,h3/path` (feature `zookeeper`), `sqlite:path` for the processes of one machine (feature `sqlite`), and
/// `memory:` for a single process. Call it once per process, and clone the factory; clones share its connections. For other
/// options, use `LockFactory::builder(backend)`.
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
/// PostgreSQL, MySQL, etcd, ZooKeeper and SQLite are opened by the first request, and by each one until it succeeds; nothing is tried in the
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
pub(crate) fn check_scheme(url: &str) -> Result<(), LockError> {
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
    if cfg!(not(feature = "mysql")) && has_scheme(url, &["mysql", "mariadb"]) {
        return Err(LockError::invalid_url("MySQL is not built in: enable the feature `mysql` of distlock"));
    }
    if cfg!(not(feature = "etcd")) && has_scheme(url, &["etcd", "etcds"]) {
        return Err(LockError::invalid_url("etcd is not built in: enable the feature `etcd` of distlock"));
    }
    if cfg!(not(feature = "zookeeper")) && has_scheme(url, &["zookeeper", "zookeepers"]) {
        return Err(LockError::invalid_url(
            "ZooKeeper is not built in: enable the feature `zookeeper` of distlock",
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
    #[cfg(feature = "mysql")]
    let connectors = connectors.with(lock_sqlx::MySql);
    #[cfg(feature = "etcd")]
    let connectors = connectors.with(lock_etcd::Etcd);
    #[cfg(feature = "zookeeper")]
    let connectors = connectors.with(lock_zookeeper::ZooKeeper);
    connectors
}

pub(crate) fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| schemes.iter().any(|s| s.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_that_is_not_built_in_names_the_feature() {
        for (url, is_built_in, feature) in [
            ("sqlite:/missing/locks.db", cfg!(feature = "sqlite"), "feature `sqlite` of distlock"),
            ("etcd://localhost:1", cfg!(feature = "etcd"), "feature `etcd` of distlock"),
            ("zookeeper://localhost:1", cfg!(feature = "zookeeper"), "feature `zookeeper` of distlock"),
            ("mysql://localhost:1/d", cfg!(feature = "mysql"), "feature `mysql` of distlock"),
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
