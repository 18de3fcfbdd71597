//! A private `redis-server` for tests, with pauses, kills, and restarts with current, old or no data.

mod deployments;
mod launch;
mod raw;

pub use deployments::{RedisCluster, RedisQuorum, RedisSentinels};
pub use launch::TlsFiles;
pub use raw::{RawRedis, RawValue};

use crate::{
    ClockShift,
    process::{PATIENCE, Process},
};
use launch::{Home, OWN_USER, Ports, SOCKET, Settings};
use rustix::process::Signal;
use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
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
    fn spoken_port(&self) -> u16 {
        self.ports.tls.unwrap_or(self.ports.plain)
    }

    /// Returns the path of the socket, if the server was built with
    /// [`unix_socket`](RedisServerBuilder::unix_socket).
    #[must_use]
    pub fn unix_socket_path(&self) -> Option<PathBuf> {
        self.settings.unix_socket.then(|| self.home.path().join(SOCKET))
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
        let own = format!(" user={} ", OWN_USER);
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

    /// Copies all current data (`SAVE`).
    ///
    /// # Panics
    /// Panics if the server does not respond or cannot save.
    #[must_use]
    #[track_caller]
    pub fn dump(&self) -> Dump {
        let mut raw = self.raw();
        let begin = Instant::now();
        loop {
            let answer = raw.command(&["SAVE"]);
            if !answer.is_error() {
                break;
            }
            let busy = format!("{answer:?}").contains("in progress");
            assert!(busy && begin.elapsed() < PATIENCE, "redis-server cannot save its data: {answer:?}");
            sleep(Duration::from_millis(5));
        }
        let bytes = fs::read(self.home.dump_path()).expect("failed to read the dump");
        Dump { bytes }
    }

    /// Suspends the process (`SIGSTOP`). Connections stay open and new ones are accepted, but the
    /// server does not respond. Pausing twice has no further effect.
    ///
    /// # Panics
    /// Panics if the server is stopped.
    #[track_caller]
    pub fn pause(&self) {
        self.running(Process::pause);
    }

    /// Resumes the process (`SIGCONT`), which then replies to everything it was sent.
    ///
    /// # Panics
    /// Panics if the server is stopped.
    #[track_caller]
    pub fn resume(&self) {
        self.running(Process::resume);
    }

    /// Kills the process (`SIGKILL`) and waits until it has ended. A restart uses the same ports, which
    /// the kernel does not assign to other programs.
    pub fn stop(&self) {
        drop(self.with_process(Option::take));
    }

    /// Ends the process gracefully (`SIGTERM`). A
    /// [persistent](RedisServerBuilder::persistent) server dumps its data.
    pub fn shutdown(&self) {
        if let Some(mut process) = self.with_process(Option::take) {
            process.end(Signal::TERM);
        }
    }

    /// Kills the process if it is running and starts a new one. Returns once the server responds
    /// and has loaded its data.
    ///
    /// A [persistent](RedisServerBuilder::persistent) server loads its last dump. Any other
    /// server starts empty.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        if !self.settings.persistent {
            self.home.forget_data();
        }
        self.begin();
    }

    /// Restarts the server like [`restart`](RedisServer::restart), without any data.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.stop();
        self.home.forget_data();
        self.begin();
    }

    /// Restarts the server like [`restart`](RedisServer::restart), with the data of this dump. Keys
    /// that have since expired are not loaded.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart_from(&self, dump: &Dump) {
        self.stop();
        self.home.forget_data();
        fs::write(self.home.dump_path(), &dump.bytes).expect("failed to write to the temporary directory");
        self.begin();
    }

    #[track_caller]
    fn begin(&self) {
        let process = launch::again(self);
        // Kill a concurrently started process here, after the lock is released.
        drop(self.with_process(|current| current.replace(process)));
    }

    #[track_caller]
    fn running(&self, f: impl FnOnce(&mut Process)) {
        let running = self.with_process(|process| process.as_mut().map(f).is_some());
        assert!(running, "the redis-server at {} is stopped", self.address());
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

/// A builder for a [`RedisServer`]. By default, the server has one plain port and loses its data
/// when it stops.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct RedisServerBuilder {
    settings: Settings,
}

impl RedisServerBuilder {
    /// Adds a `redis.conf` directive, such as `("maxclients", "10")`. The value is quoted. Later
    /// directives override earlier ones.
    ///
    /// Some directives, such as `client-output-buffer-limit`, split a quoted value into several
    /// words. For other directives that take several words, use
    /// [`config_line`](RedisServerBuilder::config_line).
    pub fn config(mut self, directive: &str, value: &str) -> Self {
        self.settings.directive(directive, value);
        self
    }

    /// Adds a literal line to `redis.conf`, such as `rename-command KEYS ""`.
    pub fn config_line(mut self, line: &str) -> Self {
        self.settings.line(line);
        self
    }

    /// Sets the password of the default user (`requirepass`).
    pub fn password(self, password: &str) -> Self {
        self.config("requirepass", password)
    }

    /// Adds a user, as in an ACL file with or without the leading `user`: `app on >secret ~lock:* +@all`.
    ///
    /// The user `testkit` always exists. [`RedisServer::raw`] logs in as that user.
    pub fn user(self, rules: &str) -> Self {
        let rules = rules.strip_prefix("user ").unwrap_or(rules);
        self.config_line(&format!("user {rules}"))
    }

    /// Also listens on a Unix socket.
    pub fn unix_socket(mut self) -> Self {
        self.settings.unix_socket = true;
        self
    }

    /// Keeps the data in a dump, which is written by `SAVE` and by [`RedisServer::shutdown`] and
    /// loaded by [`RedisServer::restart`]. Writes after the dump are lost when the server is
    /// killed.
    pub fn persistent(mut self) -> Self {
        self.settings.persistent = true;
        self
    }

    /// Also listens for TLS, on a second port. The files must exist as long as the server runs.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.settings.tls = Some(files);
        self
    }

    /// Makes the server a replica of `master`. [`start`](RedisServerBuilder::start) waits until the
    /// data has been copied.
    pub fn replica_of(mut self, master: &RedisServer) -> Self {
        self.settings.master = Some(master.spoken_port());
        self
    }

    /// Makes the server a sentinel that monitors `master`.
    fn watches(mut self, master: &RedisServer) -> Self {
        self.settings.watched = Some(master.spoken_port());
        self
    }

    /// Runs the server with this wall clock.
    pub fn clock(mut self, clock: &ClockShift) -> Self {
        self.settings.clock = Some(clock.clone());
        self
    }

    /// Listens on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.settings.port = Some(port);
        self
    }

    /// Starts the server, and waits until it accepts commands. A replica has then copied its
    /// master's data.
    ///
    /// # Panics
    /// Panics if there is no `redis-server` or it does not start. The message contains the remedy
    /// or the server's log.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> RedisServer {
        let server = launch::first(self.settings);
        if server.settings.master.is_some() {
            launch::wait_for_master(&server);
        }
        server
    }
}

/// A copy of a server's data. See [`RedisServer::dump`] and [`RedisServer::restart_from`].
#[derive(Clone)]
pub struct Dump {
    bytes: Vec<u8>,
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dump").field("bytes", &self.bytes.len()).finish()
    }
}
