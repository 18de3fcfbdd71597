//! The fred client, also from an existing configuration. It dials one endpoint and never reconnects.

use crate::{connection::FredConnection, error};
use fred::types::{
    Builder, RespVersion,
    config::{Config, Server as FredServer, ServerConfig},
};
use lock_core::LockError;
use lock_redis::{
    Address, Configured, SentinelAddress, Topology,
    client::{Client, Credentials, DialError, Endpoint, Events, Server, TlsSupport},
};
use std::{fmt, time::Duration};

/// The maximum number of pending requests. Further requests are refused. A factory has at most one
/// per lock.
const REQUESTS: usize = 200_000;
/// The maximum number of unread messages. If more arrive, the waiters for all locks are woken. fred
/// allocates space for this many in each of its channels; eight times as many took 10 MB per
/// backend.
const MESSAGES: usize = 1_024;

/// The client library `fred`, as used by [`lock_redis`].
#[derive(Clone, Default)]
pub struct Fred {
    /// The base configuration of every dial: TLS and the other settings that the program supplied.
    template: Config,
}

impl Fred {
    #[cfg(feature = "__tls")]
    fn secure(&mut self, tls: &lock_redis::Tls) -> Result<(), lock_core::backend::BackendError> {
        let config = lock_redis::client::rustls_config(tls)?;
        self.template.tls = Some(fred::types::config::TlsConnector::from(config).into());
        Ok(())
    }

    fn builder(&self, endpoint: &Endpoint, credentials: &Credentials) -> Builder {
        let mut config = self.template.clone();
        config.server = self.server(&endpoint.server);
        config.database = endpoint.database;
        config.username.clone_from(&credentials.username);
        config.password.clone_from(&credentials.password);
        // Without HELLO, fred logs in with AUTH, which every server knows. A server that does not know HELLO would
        // quote the password in its error.
        config.version = RespVersion::RESP2;
        // Otherwise fred would apply a reconnection policy to its first attempt.
        config.fail_fast = true;
        let mut builder = Builder::from_config(config);
        builder
            .with_performance_config(|c| {
                // Each request already has a limit.
                c.default_command_timeout = Duration::ZERO;
                c.broadcast_channel_capacity = MESSAGES;
            })
            .with_connection_config(|c| {
                // A command that may have been executed is never sent again.
                c.max_command_attempts = 1;
                c.max_command_buffer_len = REQUESTS;
                // Each dial already has a limit.
                c.connection_timeout = Duration::ZERO;
                c.internal_command_timeout = Duration::ZERO;
                c.tcp.nodelay = Some(true);
            });
        builder
    }

    fn server(&self, server: &Server) -> ServerConfig {
        match server {
            Server::Unix { path } => ServerConfig::Unix { path: path.clone() },
            Server::Tcp { host, port } => {
                let mut server = FredServer::new(host.as_str(), *port);
                self.keep_tls_name(&mut server);
                ServerConfig::Centralized { server }
            }
        }
    }

    /// Keeps the TLS server name of a user-supplied configuration, since it may differ from the server's address.
    #[cfg(feature = "__tls")]
    fn keep_tls_name(&self, server: &mut FredServer) {
        if let ServerConfig::Centralized { server: own } = &self.template.server {
            server.tls_server_name.clone_from(&own.tls_server_name);
        }
    }

    #[cfg(not(feature = "__tls"))]
    fn keep_tls_name(&self, _: &mut FredServer) {}
}

impl Configured for Fred {
    type Config = Config;

    fn from_config(config: &Config) -> Result<(Self, Address), LockError> {
        Ok((Self { template: config.clone() }, address(config)))
    }
}

impl Client for Fred {
    type Connection = FredConnection;

    #[cfg(feature = "__tls")]
    const TLS: TlsSupport<Self> = TlsSupport::BuiltIn(Self::secure);
    #[cfg(not(feature = "__tls"))]
    const TLS: TlsSupport<Self> =
        TlsSupport::Missing("the feature `tls-ring` or `tls-aws-lc-rs` of distlock or lock-fred");

    #[cfg(feature = "__tls")]
    fn is_secured(&self) -> bool {
        self.template.tls.is_some()
    }

    #[cfg(not(feature = "__tls"))]
    fn is_secured(&self) -> bool {
        false
    }

    async fn dial(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
        events: Events,
    ) -> Result<FredConnection, DialError> {
        let opened =
            async { FredConnection::open(self.builder(endpoint, credentials).build()?, events).await };
        opened.await.map_err(|error| error::of_dial(&error))
    }
}

impl fmt::Debug for Fred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration is omitted because it may contain a password.
        f.debug_struct("Fred").finish_non_exhaustive()
    }
}

/// Returns the servers, the login and the database. The TLS settings stay in the configuration.
fn address(config: &Config) -> Address {
    let tcp = |server: &FredServer| Server::Tcp { host: server.host.to_string(), port: server.port };
    let topology = match &config.server {
        ServerConfig::Centralized { server } => {
            Topology::Standalone(Endpoint { server: tcp(server), database: config.database })
        }
        ServerConfig::Unix { path } => {
            let server = Server::Unix { path: path.clone() };
            Topology::Standalone(Endpoint { server, database: config.database })
        }
        ServerConfig::Sentinel { hosts, service_name, .. } => Topology::Sentinel(SentinelAddress {
            sentinels: hosts.iter().map(tcp).collect(),
            master: service_name.clone(),
            credentials: Credentials::default(),
            database: config.database,
        }),
        ServerConfig::Clustered { hosts, .. } => Topology::Cluster(hosts.iter().map(tcp).collect()),
    };
    let credentials = Credentials { username: config.username.clone(), password: config.password.clone() };
    Address { topology, credentials, tls: None }
}
