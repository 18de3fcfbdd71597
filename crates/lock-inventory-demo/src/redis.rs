//! The Redis that keeps the locks of a run: somebody's, by its address, or a private one that goes with the run.
//!
//! Names of locks get a prefix of the run, `demo:<id>:stock:<sku>`: two runs on one Redis have nothing to do with one
//! another, nor with an application that locks `stock:<sku>` in earnest, and nobody waits for the leases of a run that
//! was killed. The fencing counters of a run are of no use after it, and end within a minute.

use lock_core::{LockError, Store, backend::ProcessId};
use lock_fred::RedisBackendBuilder;
use lock_testkit::RedisServer;
use std::{
    env, fmt, io,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::task::{JoinError, spawn_blocking};
use url::Url;

/// How long Redis keeps an unused fencing counter. Tokens grow also over the end of a counter.
const RETENTION: Duration = Duration::from_secs(60);

/// An address that was checked. Its texts never have the user and the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    url: Url,
}

impl RedisUrl {
    /// Checks `text`, of one of the forms of [`lock_fred::Redis`].
    ///
    /// # Errors
    /// [`LockError`] that says what is wrong with it, without repeating it.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        // The backend judges; this keeps what it accepts.
        let _judged = RedisBackendBuilder::from_url(text)?;
        let url = Url::parse(text).map_err(|_| LockError::invalid_url("it is no URL"))?;
        Ok(Self { url })
    }

    /// All of it, for another process of this run: for a private pipe, not for people or command lines.
    pub(crate) fn with_secrets(&self) -> &str {
        self.url.as_str()
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.url.host() {
            Some(host) => write!(f, "{host}:{}", self.url.port().unwrap_or(6379)),
            None => f.write_str(self.url.path()),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

/// A Redis, and how the locks of this run are named there. Cloning shares the connection.
#[derive(Debug, Clone)]
pub struct Redis {
    url: RedisUrl,
    prefix: String,
    locks: Store,
    // The last field: the server goes when nobody is connected any more.
    server: Option<Arc<RedisServer>>,
}

impl Redis {
    /// Begins a run on the Redis at `url`.
    ///
    /// # Errors
    /// [`RedisError`] when it does not let us in.
    ///
    /// # Cancel safety
    /// Dropping this closes the connection.
    pub async fn at(url: RedisUrl) -> Result<Self, RedisError> {
        let prefix = format!("demo:{}:", ProcessId::random());
        Self::join(url, prefix).await.map_err(RedisError::Connect)
    }

    /// Begins a run on a private server that ends with the last clone of this.
    ///
    /// # Errors
    /// [`RedisError`] when there is no `redis-server`, or it does not start.
    ///
    /// # Cancel safety
    /// Dropping this ends the server, as soon as it has started.
    pub async fn private() -> Result<Self, RedisError> {
        // The server's own start would panic without it.
        let binary = env::var_os(RedisServer::VARIABLE).unwrap_or_else(|| "redis-server".into());
        let found =
            Command::new(binary).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.map_err(RedisError::NoServer)?;
        // It waits for the first answer of the server without giving way to other tasks.
        let server = spawn_blocking(RedisServer::start).await.map_err(RedisError::Start)?;
        let url = RedisUrl::parse(&server.url()).map_err(RedisError::Connect)?;
        let redis = Self::at(url).await?;
        Ok(Self { server: Some(Arc::new(server)), ..redis })
    }

    /// Takes part in a run that another process has begun.
    pub(crate) async fn join(url: RedisUrl, prefix: String) -> Result<Self, LockError> {
        let backend = RedisBackendBuilder::from_url(url.with_secrets())?.retention(Some(RETENTION));
        Ok(Self { url, prefix, locks: backend.connect().await?.into(), server: None })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &RedisUrl {
        &self.url
    }

    /// What the names of all locks of this run begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The locks, over the connection of this process.
    #[must_use]
    pub fn locks(&self) -> Store {
        self.locks.clone()
    }
}

/// Where it is, for people: `a private redis-server`, or `the Redis at host:port`.
impl fmt::Display for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server {
            Some(_) => write!(f, "a private redis-server"),
            None => write!(f, "the Redis at {}", self.url),
        }
    }
}

/// Why there is no Redis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// There is no `redis-server` to start.
    #[error(
        "there is no redis-server for --with-redis: install it (Debian: `apt-get install redis-server`, macOS: \
         `brew install redis`), or give the address of a running one to --redis"
    )]
    NoServer(#[source] io::Error),
    /// The private server did not start.
    #[error("the private redis-server did not start: its log is above")]
    Start(#[source] JoinError),
    /// Redis did not let us in.
    #[error("could not keep locks on Redis")]
    Connect(#[source] LockError),
}

#[cfg(test)]
mod tests {
    use super::RedisUrl;

    #[test]
    fn an_address_shows_where_it_is_and_no_secret() {
        for (url, place) in [
            ("redis://user:s3cret@cache", "cache:6379"),
            ("redis://:s3cret@10.0.0.7:7000/2", "10.0.0.7:7000"),
            ("redis://:s3cret@[::1]:7000", "[::1]:7000"),
            ("redis+unix:///run/redis.sock?user=user&pass=s3cret", "/run/redis.sock"),
        ] {
            let url = RedisUrl::parse(url).unwrap();
            assert_eq!(url.to_string(), place);
            assert!(!format!("{url:?}").contains("s3cret"));
            assert_eq!(
                RedisUrl::parse(url.with_secrets()).unwrap(),
                url,
                "it survives the way to another process"
            );
        }
    }
}
