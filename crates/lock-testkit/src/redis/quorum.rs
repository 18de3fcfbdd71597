//! Independent masters that serve as quorum nodes.

use super::{RedisServer, RedisServerBuilder};

/// Independent servers, each of which is a separate [`RedisServer`] process.
#[derive(Debug)]
pub struct RedisQuorum {
    servers: Vec<RedisServer>,
}

impl RedisQuorum {
    /// Starts this many servers.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn start(nodes: usize) -> Self {
        Self::with(nodes, |server| server)
    }

    /// Starts the servers like [`start`](Self::start), with custom settings for each.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn with(nodes: usize, server: impl Fn(RedisServerBuilder) -> RedisServerBuilder) -> Self {
        Self { servers: (0..nodes).map(|_| server(RedisServer::builder()).start()).collect() }
    }

    /// Returns the quorum's URL, `redlock://127.0.0.1:port,…`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("redlock", RedisServer::port)
    }

    /// Returns the TLS URL, `redlocks://…`, for servers that were built with TLS.
    #[must_use]
    pub fn tls_url(&self) -> String {
        self.url_of("redlocks", RedisServer::spoken_port)
    }

    fn url_of(&self, scheme: &str, port: fn(&RedisServer) -> u16) -> String {
        let addresses = self.servers.iter().map(|server| format!("127.0.0.1:{}", port(server)));
        format!("{scheme}://{}", addresses.collect::<Vec<_>>().join(","))
    }

    /// Returns the servers, in the order in which the URL lists them.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }
}
