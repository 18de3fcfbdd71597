//! The builder for a test server.

use super::{RedisServer, TlsFiles, config::Settings, launch};
use crate::ClockShift;

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
    pub(super) fn watches(mut self, master: &RedisServer) -> Self {
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
