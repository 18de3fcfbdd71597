//! A `redis-server` of one's own: which one it is, and how it is looked at.

mod builder;
mod cluster;
mod config;
mod dump;
mod home;
mod launch;
mod life;
mod process;
mod quorum;
mod raw;
mod sentinels;
mod value;
mod watchdog;

pub use builder::RedisServerBuilder;
pub use cluster::RedisCluster;
pub use config::TlsFiles;
pub use dump::Dump;
pub use quorum::RedisQuorum;
pub use raw::RawRedis;
pub use sentinels::RedisSentinels;
pub use value::RawValue;

use config::{Ports, Settings};
use home::Home;
use process::Process;
use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// A running `redis-server` on a port of 127.0.0.1, in a temporary directory of its own, without persistence.
///
/// Dropping it kills the process and removes the directory, also when a test panics. If the test process itself is
/// killed, or exits with the server in a `static`, a watchdog does the same.
///
/// The binary is the `redis-server` in the path (Debian: `apt-get install redis-server`), or the one that the
/// environment variable `REDIS_SERVER` names.
///
/// Every method blocks: an async test holds up its own runtime meanwhile, not the server.
pub struct RedisServer {
    process: Mutex<Option<Process>>,
    home: Arc<Home>,
    settings: Settings,
    ports: Ports,
    version: String,
}

impl RedisServer {
    /// The environment variable that names the binary.
    pub const VARIABLE: &str = "REDIS_SERVER";

    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If there is no `redis-server`, with a sentence how to get it; or if it does not start, with its log.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with options.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    /// The address, as `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The address of the plain port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.plain).into()
    }

    /// The plain port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.plain
    }

    /// The TLS port, if it was built with [`tls`](RedisServerBuilder::tls).
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.ports.tls
    }

    /// The port that servers name to one another.
    pub(in crate::redis) fn spoken_port(&self) -> u16 {
        self.ports.tls.unwrap_or(self.ports.plain)
    }

    /// The socket, if it was built with [`unix_socket`](RedisServerBuilder::unix_socket).
    #[must_use]
    pub fn unix_socket_path(&self) -> Option<PathBuf> {
        self.settings.unix_socket.then(|| self.home.path().join(config::SOCKET))
    }

    /// Its directory: configuration, log and dump.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    /// What all its processes have logged until now.
    #[must_use]
    pub fn log(&self) -> String {
        self.home.log()
    }

    /// The process, unless it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.with_process(|process| process.as_ref().map(Process::id))
    }

    /// The version of Redis, such as `7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// A connection that may do everything, whatever passwords and users there are: it logs in as a user of the
    /// testkit's own.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn raw(&self) -> RawRedis {
        match launch::log_in(self.address(), raw::TIMEOUT) {
            Ok(raw) => raw,
            Err(error) => panic!("the redis-server at {} does not answer: {error}", self.address()),
        }
    }

    /// Sends one command on a fresh connection, as [`raw`](RedisServer::raw) makes it, and returns the answer.
    ///
    /// # Panics
    /// If the server does not answer.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, words: &[A]) -> RawValue {
        self.raw().command(words)
    }

    /// How many connections there are, without those of [`raw`](RedisServer::raw) and of replicas of the testkit.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn clients(&self) -> usize {
        let answer = self.command(&["CLIENT", "LIST"]);
        // By user and not by address: a connection that was dropped just now may still be listed.
        let own = format!(" user={} ", config::OWN_USER);
        answer.text().lines().filter(|line| !line.is_empty() && !line.contains(&own)).count()
    }

    /// How many channels have subscribers.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn subscriptions(&self) -> usize {
        self.command(&["PUBSUB", "CHANNELS"]).list().len()
    }

    /// All keys of the first database, sorted.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let answer = self.command(&["KEYS", "*"]);
        let mut keys: Vec<String> = answer.list().iter().map(|key| key.text().to_owned()).collect();
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
