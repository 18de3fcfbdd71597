//! fred as a client: it dials one endpoint and never reconnects.

use crate::{connection::FredConnection, error};
use fred::types::{
    Builder, RespVersion,
    config::{Config, Server as FredServer, ServerConfig},
};
use lock_redis::client::{Client, Credentials, DialError, Endpoint, Events, Server, TlsSupport};
use std::{fmt, time::Duration};

/// More requests than that under way are refused: a factory has one for each name at most.
const REQUESTS: usize = 200_000;
/// Wake-ups that may wait for their reader; those beyond count as "all names". fred makes room for as many in each of its
/// channels at once: eight times as many were 10 MB for each backend.
const MESSAGES: usize = 1_024;

/// The client library `fred`, as [`lock_redis`] uses it.
#[derive(Clone, Default)]
pub struct Fred {
    /// The beginning of every dial: TLS, and the rest of a configuration that the program gave.
    template: Config,
}

impl Fred {
    pub(crate) fn new(template: Config) -> Self {
        Self { template }
    }

    #[cfg(feature = "tls")]
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
        // It logs in with AUTH, which every server knows; one that does not know HELLO quotes the password.
        config.version = RespVersion::RESP2;
        // Without it, fred would want a policy for its first attempt.
        config.fail_fast = true;
        let mut builder = Builder::from_config(config);
        builder
            .with_performance_config(|c| {
                // Each request has a limit already.
                c.default_command_timeout = Duration::ZERO;
                c.broadcast_channel_capacity = MESSAGES;
            })
            .with_connection_config(|c| {
                // A command that may have run is never sent again behind our back.
                c.max_command_attempts = 1;
                c.max_command_buffer_len = REQUESTS;
                // Each dial has a limit already.
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

    /// A configuration of one's own may have another name for the certificate than for the address.
    #[cfg(feature = "tls")]
    fn keep_tls_name(&self, server: &mut FredServer) {
        if let ServerConfig::Centralized { server: own } = &self.template.server {
            server.tls_server_name.clone_from(&own.tls_server_name);
        }
    }

    #[cfg(not(feature = "tls"))]
    fn keep_tls_name(&self, _: &mut FredServer) {}
}

impl Client for Fred {
    type Connection = FredConnection;

    #[cfg(feature = "tls")]
    const TLS: TlsSupport<Self> = TlsSupport::BuiltIn(Self::secure);
    #[cfg(not(feature = "tls"))]
    const TLS: TlsSupport<Self> = TlsSupport::Missing("the feature `tls` of lock-fred");

    #[cfg(feature = "tls")]
    fn is_secured(&self) -> bool {
        self.template.tls.is_some()
    }

    #[cfg(not(feature = "tls"))]
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
        // Not the configuration: it may have a password.
        f.debug_struct("Fred").finish_non_exhaustive()
    }
}
