//! The addresses of databases and lock stores. Their text never contains a user or a password; only `reveal` does.

use distlock::{
    LockError, LockFactory, LockFactoryBuilder, MemoryBackend, cron::RunLedger, fred::RedisBackendBuilder,
    ledger::MemoryLedger,
};
use std::{fmt, path::Path, str::FromStr, sync::Arc, time::Duration};
use url::Url;

/// Time for which Redis keeps an unused fencing counter. Tokens keep increasing even after it has expired.
const RETENTION: Duration = Duration::from_secs(60);

/// The address of a database, SQLite or PostgreSQL.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(Url);

/// The text is not the address of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid database address: use `sqlite:///path/to/shop.sqlite` or `postgres://user:password@host/database`"
)]
pub struct InvalidDatabase;

impl DatabaseUrl {
    /// Returns the address of the SQLite database in `file`.
    ///
    /// # Errors
    /// Returns [`InvalidDatabase`] for a path that is not absolute.
    pub fn sqlite(file: &Path) -> Result<Self, InvalidDatabase> {
        let url = Url::from_file_path(file).map_err(|()| InvalidDatabase)?;
        format!("sqlite://{}", url.path()).parse()
    }

    /// Returns `true` for PostgreSQL.
    #[must_use]
    pub fn is_postgres(&self) -> bool {
        self.0.scheme() != "sqlite"
    }

    /// Returns the address with its password.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for DatabaseUrl {
    type Err = InvalidDatabase;

    fn from_str(text: &str) -> Result<Self, InvalidDatabase> {
        let url = Url::parse(text).map_err(|_| InvalidDatabase)?;
        let is_valid = match url.scheme() {
            "sqlite" => url.path().len() > 1,
            "postgres" | "postgresql" => url.has_host() || url.query().is_some(),
            _ => false,
        };
        is_valid.then_some(Self(url)).ok_or(InvalidDatabase)
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = &self.0;
        if self.is_postgres() {
            write!(f, "PostgreSQL at {}:{}", url.host_str().unwrap_or("a socket"), url.port().unwrap_or(5432))
        } else {
            write!(f, "SQLite at {}", url.path())
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

/// The two databases of a sale: that of the shops, and that of the payment provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Databases {
    /// The shops' database.
    pub shop: DatabaseUrl,
    /// The provider's database.
    pub payments: DatabaseUrl,
}

impl Databases {
    /// Returns two SQLite files in this directory.
    ///
    /// # Errors
    /// Returns [`InvalidDatabase`] for a path that is not absolute.
    pub fn in_directory(directory: &Path) -> Result<Self, InvalidDatabase> {
        let file = |name: &str| DatabaseUrl::sqlite(&directory.join(name));
        Ok(Self { shop: file("shop.sqlite")?, payments: file("payments.sqlite")? })
    }
}

/// The address of a lock store: `memory`, or the URL of a Redis server.
#[derive(Clone, PartialEq, Eq)]
pub struct LocksUrl(Option<Url>);

impl LocksUrl {
    /// The memory of this process.
    pub const MEMORY: Self = Self(None);

    /// Returns the URL of the Redis server with its password; `None` for the memory of this process.
    #[must_use]
    pub fn reveal(&self) -> Option<&str> {
        self.0.as_ref().map(Url::as_str)
    }

    /// Connects to the store. Returns a builder for its lock factory, and the run ledger of the same store.
    ///
    /// # Errors
    /// Returns [`LockError`] with a remedy and without secrets.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections.
    pub async fn connect(&self) -> Result<(LockFactoryBuilder, Arc<dyn RunLedger>), LockError> {
        let Some(url) = self.reveal() else {
            return Ok((LockFactory::builder(MemoryBackend::new()), Arc::new(MemoryLedger::new())));
        };
        let redis = RedisBackendBuilder::from_url(url)?.retention(Some(RETENTION)).connect().await?;
        Ok((LockFactory::builder(redis.clone()), Arc::new(redis)))
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
        Ok(Self(Some(Url::parse(text).map_err(|_| LockError::invalid_url("it is not a URL"))?)))
    }
}

impl fmt::Display for LocksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("the memory of this process"),
            Some(url) => match url.host() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_database_shows_its_place_without_secrets() {
        for (text, place) in [
            ("sqlite:///var/lib/shop.sqlite", "SQLite at /var/lib/shop.sqlite"),
            ("postgres://shop:s3cret@db/shop", "PostgreSQL at db:5432"),
            ("postgresql://shop:s3cret@10.0.0.7:6000/shop", "PostgreSQL at 10.0.0.7:6000"),
        ] {
            let url: DatabaseUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), place);
            assert!(!format!("{url:?}").contains("s3cret"));
            assert_eq!(url.reveal(), text);
        }
        for text in ["", "shop.sqlite", "mysql://db/shop", "sqlite://", "postgres:"] {
            assert_eq!(text.parse::<DatabaseUrl>(), Err(InvalidDatabase), "{text}");
        }
    }

    #[test]
    fn text_of_a_lock_store_shows_its_place_without_secrets() {
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
