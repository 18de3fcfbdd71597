//! The store for locks and job runs, in this process's memory or on Redis.

use lock_core::{LockError, MemoryBackend, Store};
use lock_cron::{MemoryLedger, RunLedger};
use lock_fred::RedisBackendBuilder;
use std::{fmt, str::FromStr, sync::Arc, time::Duration};
use url::Url;

/// Time for which Redis keeps an unused fencing counter. Tokens keep increasing even after it has
/// expired.
const RETENTION: Duration = Duration::from_secs(60);

/// The lock store's address: `memory`, or the URL of a Redis server. `Display` and `Debug`
/// omit the user and the password.
#[derive(Clone, PartialEq, Eq)]
pub struct LocksUrl(Address);

#[derive(Clone, PartialEq, Eq)]
enum Address {
    Memory,
    Redis(Url),
}

impl LocksUrl {
    /// The memory of this process.
    pub const MEMORY: Self = Self(Address::Memory);

    /// Returns the URL of the Redis server with its password, for a child process. Pass the URL in
    /// the environment, because other users can see command lines.
    #[must_use]
    pub fn reveal(&self) -> Option<&str> {
        match &self.0 {
            Address::Memory => None,
            Address::Redis(url) => Some(url.as_str()),
        }
    }
}

impl FromStr for LocksUrl {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        if text == "memory" {
            return Ok(Self::MEMORY);
        }
        // The backend validates the URL.
        let _judged = RedisBackendBuilder::from_url(text)?;
        let url = Url::parse(text).map_err(|_| LockError::invalid_url("it is not a URL"))?;
        Ok(Self(Address::Redis(url)))
    }
}

impl fmt::Display for LocksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Memory => f.write_str("the memory of this process"),
            Address::Redis(url) => match url.host() {
                Some(host) => write!(f, "Redis at {host}:{}", url.port().unwrap_or(6379)),
                None => write!(f, "Redis at {}", url.path()),
            },
        }
    }
}

impl fmt::Debug for LocksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocksUrl({self})")
    }
}

/// The locks and the run ledger at one address. Clones share the connections.
#[derive(Debug, Clone)]
pub struct Locks {
    store: Store,
    ledger: Arc<dyn RunLedger>,
}

impl Locks {
    /// Creates a lock store in this process's memory. Only shops that share clones of this value
    /// exclude each other.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { store: MemoryBackend::new().into(), ledger: Arc::new(MemoryLedger::new()) }
    }

    /// Connects to the store.
    ///
    /// # Errors
    /// Returns [`LockError`] with a remedy and without secrets.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections.
    pub async fn connect(url: &LocksUrl) -> Result<Self, LockError> {
        let Some(url) = url.reveal() else { return Ok(Self::in_memory()) };
        let redis = RedisBackendBuilder::from_url(url)?.retention(Some(RETENTION)).connect().await?;
        Ok(Self { store: redis.clone().into(), ledger: Arc::new(redis) })
    }

    /// Returns the lock store.
    #[must_use]
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Returns the run ledger for the jobs.
    #[must_use]
    pub fn ledger(&self) -> Arc<dyn RunLedger> {
        self.ledger.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_shows_the_location_without_secrets() {
        for (text, place) in [
            ("memory", "the memory of this process"),
            ("redis://user:s3cret@cache", "Redis at cache:6379"),
            ("redis://:s3cret@[::1]:7000", "Redis at [::1]:7000"),
            ("redis+unix:///run/redis.sock?user=user&pass=s3cret", "Redis at /run/redis.sock"),
        ] {
            let url: LocksUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), place);
            assert!(!format!("{url:?}").contains("s3cret"));
        }
        for text in ["", "cache", "http://:s3cret@cache", "redis://:s3cret@cache/x"] {
            let error = format!("{:#}", text.parse::<LocksUrl>().unwrap_err());
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
