//! A private Redis server that can be restarted without its data, and a plain connection for commands of the bench itself.

use distlock::fred::fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{Builder, ClusterHash, CustomCommand, FromValue, config::Config},
};
use lock_testkit::{RedisServer, TcpProxy};
use std::{
    env, fmt, io,
    process::{Command, Stdio},
    sync::Arc,
};
use tokio::task::{JoinError, spawn_blocking};

/// Number of keys that one `SCAN` examines.
const AT_ONCE: &str = "1000";

/// A private `redis-server`. It is stopped when the last clone of this value is dropped or this
/// process exits.
#[derive(Debug, Clone)]
pub struct PrivateRedis {
    server: Arc<RedisServer>,
}

/// An error while starting a private Redis server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateRedisError {
    /// The program is not installed.
    #[error(
        "redis-server was not found: install it (Debian: `apt-get install redis-server`, macOS: `brew install redis`), \
         or set --redis to the address of a running server"
    )]
    NotInstalled(#[source] io::Error),
    /// The server did not start.
    #[error("the private redis-server did not start: see its log above")]
    Start(#[source] JoinError),
}

impl PrivateRedis {
    /// Starts a server and waits until it responds.
    ///
    /// # Errors
    /// Returns [`PrivateRedisError`] with a remedy.
    ///
    /// # Cancel safety
    /// Dropping this stops the server as soon as it has started.
    pub async fn start() -> Result<Self, PrivateRedisError> {
        // Without this check, `RedisServer` would panic.
        let binary = env::var_os(RedisServer::VARIABLE).unwrap_or_else(|| "redis-server".into());
        let found =
            Command::new(binary).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.map_err(PrivateRedisError::NotInstalled)?;
        let server = spawn_blocking(RedisServer::start).await.map_err(PrivateRedisError::Start)?;
        Ok(Self { server: Arc::new(server) })
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Kills the server and starts it again without its data.
    ///
    /// # Errors
    /// Returns [`PrivateRedisError`] if the server does not start again.
    ///
    /// # Cancel safety
    /// If this is dropped, the restart continues.
    pub async fn restart_empty(&self) -> Result<(), PrivateRedisError> {
        let server = Arc::clone(&self.server);
        spawn_blocking(move || server.restart_empty()).await.map_err(PrivateRedisError::Start)
    }

    /// Starts a proxy to the server. The proxy can cut its connections.
    #[must_use]
    pub fn proxy(&self) -> TcpProxy {
        TcpProxy::start(self.server.address())
    }
}

/// A plain Redis connection. Clones share it.
#[derive(Clone)]
pub struct RedisConnection {
    client: Client,
}

impl RedisConnection {
    /// Connects to Redis.
    ///
    /// # Errors
    /// Returns fred's error, without the address.
    ///
    /// # Cancel safety
    /// Dropping this closes the connection.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let mut config = Config::from_url(url)?;
        config.fail_fast = true;
        let client = Builder::from_config(config).build()?;
        client.init().await?;
        Ok(Self { client })
    }

    /// Returns the server's version, such as `7.0.15`.
    ///
    /// # Errors
    /// Returns fred's error.
    pub async fn version(&self) -> Result<String, Error> {
        let info: String = self.command("INFO", vec!["server".to_owned()]).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("of unknown version").trim().to_owned())
    }

    /// Removes all keys whose names contain `part`.
    ///
    /// # Errors
    /// Returns fred's error.
    ///
    /// # Cancel safety
    /// If this is dropped, some of the keys may remain.
    pub async fn remove_keys(&self, part: &str) -> Result<(), Error> {
        let pattern = format!("*{part}*");
        let mut cursor = "0".to_owned();
        loop {
            let scan = [&cursor, "MATCH", &pattern, "COUNT", AT_ONCE].map(str::to_owned);
            let (next, keys): (String, Vec<String>) = self.command("SCAN", scan.to_vec()).await?;
            for key in keys {
                let _: i64 = self.command("UNLINK", vec![key]).await?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Sends a command.
    ///
    /// # Errors
    /// Returns fred's error.
    ///
    /// # Cancel safety
    /// If this is dropped, the server may still execute the command.
    pub async fn command<R: FromValue>(
        &self,
        name: &'static str,
        arguments: Vec<String>,
    ) -> Result<R, Error> {
        self.client.custom(CustomCommand::new_static(name, ClusterHash::FirstKey, false), arguments).await
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omit the client, because its configuration may contain a password.
        f.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}
