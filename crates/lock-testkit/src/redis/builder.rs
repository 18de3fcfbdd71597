//! The settings of a test server.

use super::{RedisServer, TlsFiles, config::Settings, launch};
use crate::ClockShift;

/// A builder for a [`RedisServer`]. By default it has one plain port, and loses its data when it stops.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct RedisServerBuilder {
    settings: Settings,
}

impl RedisServerBuilder {
    /// Adds a directive of `redis.conf`, such as `("maxclients", "10")`. The value is quoted. Later directives win.
    ///
    /// The server splits a value of several words, as in `client-output-buffer-limit`, if the directive takes
    /// several. Otherwise use [`config_line`](RedisServerBuilder::config_line).
    pub fn config(mut self, directive: &str, value: &str) -> Self {
        self.settings.directive(directive, value);
        self
    }

    /// Adds a literal line of `redis.conf`, such as `rename-command KEYS ""`.
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
    /// A user `testkit` always exists as well. [`RedisServer::raw`] logs in as that user.
    pub fn user(self, rules: &str) -> Self {
        let rules = rules.strip_prefix("user ").unwrap_or(rules);
        self.config_line(&format!("user {rules}"))
    }

    /// Also listens on a Unix socket.
    pub fn unix_socket(mut self) -> Self {
        self.settings.unix_socket = true;
        self
    }

    /// Keeps its data in a dump, written by `SAVE` and by [`RedisServer::shutdown`] and read by
    /// [`RedisServer::restart`]. Writes after the dump are lost when the server is killed.
    pub fn persistent(mut self) -> Self {
        self.settings.persistent = true;
        self
    }

    /// Also listens for TLS, on another port. The files must stay in place as long as the server runs.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.settings.tls = Some(files);
        self
    }

    /// Follows this server. [`start`](RedisServerBuilder::start) waits until its data has been copied.
    pub fn replica_of(mut self, master: &RedisServer) -> Self {
        self.settings.master = Some(master.spoken_port());
        self
    }

    /// Makes it a sentinel that monitors this master.
    pub(super) fn watches(mut self, master: &RedisServer) -> Self {
        self.settings.watched = Some(master.spoken_port());
        self
    }

    /// Gives it this wall clock.
    pub fn clock(mut self, clock: &ClockShift) -> Self {
        self.settings.clock = Some(clock.clone());
        self
    }

    /// Listens on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.settings.port = Some(port);
        self
    }

    /// Starts the server, and waits until it answers and, if it has a master, has copied its data.
    ///
    /// # Panics
    /// Panics if there is no `redis-server`, with a hint on how to install it. If it does not start, with its log.
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
