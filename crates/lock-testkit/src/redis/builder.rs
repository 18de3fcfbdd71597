//! What a test can choose about its server.

use super::{RedisServer, TlsFiles, config::Settings, launch};
use crate::ClockShift;

/// A [`RedisServer`] to be. Without options it has one plain port and forgets everything when it stops.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct RedisServerBuilder {
    settings: Settings,
}

impl RedisServerBuilder {
    /// A directive of `redis.conf`, such as `("maxclients", "10")`; the value is quoted. Later ones win.
    ///
    /// A value of several words, as of `client-output-buffer-limit`, is taken apart by the server where the
    /// directive has several. Where it is not, see [`config_line`](RedisServerBuilder::config_line).
    pub fn config(mut self, directive: &str, value: &str) -> Self {
        self.settings.directive(directive, value);
        self
    }

    /// A line of `redis.conf` as it is, such as `rename-command KEYS ""`.
    pub fn config_line(mut self, line: &str) -> Self {
        self.settings.line(line);
        self
    }

    /// The password of the default user (`requirepass`).
    pub fn password(self, password: &str) -> Self {
        self.config("requirepass", password)
    }

    /// A user, as in an ACL file with or without the leading `user`: `app on >secret ~lock:* +@all`.
    ///
    /// There is always a user `testkit` besides, which [`RedisServer::raw`] is.
    pub fn user(self, rules: &str) -> Self {
        let rules = rules.strip_prefix("user ").unwrap_or(rules);
        self.config_line(&format!("user {rules}"))
    }

    /// Listens on a Unix socket as well.
    pub fn unix_socket(mut self) -> Self {
        self.settings.unix_socket = true;
        self
    }

    /// Keeps its data in a dump: written by `SAVE` and by [`RedisServer::shutdown`], read by
    /// [`RedisServer::restart`]. What came after the dump is lost when the server is killed.
    pub fn persistent(mut self) -> Self {
        self.settings.persistent = true;
        self
    }

    /// Listens for TLS as well, on a port of its own. The files must stay where they are as long as the server.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.settings.tls = Some(files);
        self
    }

    /// Follows this server, whose data it has when it has [started](RedisServerBuilder::start).
    pub fn replica_of(mut self, master: &RedisServer) -> Self {
        self.settings.master = Some(master.spoken_port());
        self
    }

    /// Is a sentinel that watches this master.
    pub(super) fn watches(mut self, master: &RedisServer) -> Self {
        self.settings.watched = Some(master.spoken_port());
        self
    }

    /// Has this wall clock.
    pub fn clock(mut self, clock: &ClockShift) -> Self {
        self.settings.clock = Some(clock.clone());
        self
    }

    /// Listens on this port, and not on one that is free.
    pub fn port(mut self, port: u16) -> Self {
        self.settings.port = Some(port);
        self
    }

    /// Starts it and waits until it answers, and has its master's data if it has a master.
    ///
    /// # Panics
    /// If there is no `redis-server`, with a sentence how to get it; or if it does not start, with its log.
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
