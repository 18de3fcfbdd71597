//! A private `redis-server` for tests.

mod builder;
mod cluster;
mod config;
mod dump;
mod home;
mod launch;
mod life;
mod quorum;
mod raw;
mod sentinels;
mod value;

pub use builder::RedisServerBuilder;
pub use cluster::RedisCluster;
pub use config::TlsFiles;
pub use dump::Dump;
pub use quorum::RedisQuorum;
pub use raw::RawRedis;
pub use sentinels::RedisSentinels;
pub use value::RawValue;

use crate::process::Process;
use config::{Ports, Settings};
use home::Home;
use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A running `redis-server` on a port of 127.0.0.1, in a temporary directory, by default without
/// persistence.
///
/// Dropping the value kills the process and removes the directory, even if a test panics. If the
/// test process is killed, or exits with the server in a `static`, a watchdog does both.
///
/// The binary is the `redis-server` in the `PATH` (Debian: `apt-get install redis-server`), or the
/// one named by the environment variable `REDIS_SERVER`.
///
/// All methods block, including the runtime of an async test.
pub struct RedisServer {
    process: Mutex<Option<Process>>,
    home: Home,
    settings: Settings,
    ports: Ports,
    version: String,
}

impl RedisServer {
    /// The environment variable that names the binary.
    pub const VARIABLE: &str = "REDIS_SERVER";

    /// Starts a server and waits until it responds.
    ///
    /// # Panics
    /// Panics if there is no `redis-server` or it does not start. The message contains the remedy
    /// or the server's log.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Returns a builder for a server with options.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    /// Returns the server's URL, `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the address of the plain port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.plain).into()
    }

    /// Returns the plain port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.plain
    }

    /// Returns the TLS port, if the server was built with [`tls`](RedisServerBuilder::tls).
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.ports.tls
    }

    /// Returns the port that servers announce to one another.
    pub(in crate::redis) fn spoken_port(&self) -> u16 {
        self.ports.tls.unwrap_or(self.ports.plain)
    }

    /// Returns the path of the socket, if the server was built with
    /// [`unix_socket`](RedisServerBuilder::unix_socket).
    #[must_use]
    pub fn unix_socket_path(&self) -> Option<PathBuf> {
        self.settings.unix_socket.then(|| self.home.path().join(config::SOCKET))
    }

    /// Returns the server's directory, which contains the configuration, the log and the dump.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    /// Returns everything that the server's processes have logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.home.log()
    }

    /// Returns the process id, or `None` if the server is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.with_process(|process| process.as_ref().map(Process::id))
    }

    /// Returns the Redis version, such as `7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Opens a connection with full permissions. It logs in as the testkit's own user, regardless of
    /// the configured passwords and users.
    ///
    /// # Panics
    /// Panics if the server does not respond.
    #[must_use]
    #[track_caller]
    pub fn raw(&self) -> RawRedis {
        match launch::log_in(self.address(), raw::TIMEOUT) {
            Ok(raw) => raw,
            Err(error) => panic!("the redis-server at {} does not respond: {error}", self.address()),
        }
    }

    /// Sends one command on a new connection from [`raw`](RedisServer::raw), and returns the reply.
    ///
    /// # Panics
    /// Panics if the server does not respond.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, words: &[A]) -> RawValue {
        self.raw().command(words)
    }

    /// Returns the number of connections, excluding those of [`raw`](RedisServer::raw) and of the
    /// testkit's replicas.
    ///
    /// # Panics
    /// Panics if the server does not respond.
    #[must_use]
    #[track_caller]
    pub fn clients(&self) -> usize {
        let answer = self.command(&["CLIENT", "LIST"]);
        // Filter by user rather than by address: a recently dropped connection may still be listed.
        let own = format!(" user={} ", config::OWN_USER);
        answer.text().lines().filter(|line| !line.is_empty() && !line.contains(&own)).count()
    }

    /// Returns the number of channels with subscribers.
    ///
    /// # Panics
    /// Panics if the server does not respond.
    #[must_use]
    #[track_caller]
    pub fn subscriptions(&self) -> usize {
        self.command(&["PUBSUB", "CHANNELS"]).list().len()
    }

    /// Returns all keys of the first database, sorted. Process cards are excluded, because they
    /// live as long as their factories.
    ///
    /// # Panics
    /// Panics if the server does not respond.
    #[must_use]
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let answer = self.command(&["KEYS", "*"]);
        let keys = answer.list().iter().map(|key| key.text().to_owned());
        let mut keys: Vec<String> = keys.filter(|key| !key.starts_with("distlock:process:")).collect();
        keys.sort();
        keys
    }

    fn with_process<R>(&self, f: impl FnOnce(&mut Option<Process>) -> R) -> R {
        f(&mut self.process.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer")
            .field("address", &self.address())
            .field("pid", &self.pid())
            .field("directory", &self.directory())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
