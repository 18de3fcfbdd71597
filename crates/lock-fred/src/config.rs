//! A configuration of fred that a program has already.

use crate::{RedisBackendBuilder, client::Fred};
use fred::types::config::{Config, ServerConfig};
use lock_core::LockError;
use lock_redis::{
    Address,
    client::{Credentials, Endpoint, Server},
};

/// The settings of a backend whose server, user, password, database and TLS are those of a configuration of fred.
///
/// Policies for retries, timeouts and reconnection are not part of it; locks need their own: a client of yours cannot be
/// shared, since it may send a command twice.
///
/// # Errors
/// [`ErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) for a cluster and for sentinels.
pub fn from_config(config: Config) -> Result<RedisBackendBuilder, LockError> {
    let server = match &config.server {
        ServerConfig::Centralized { server } => {
            Server::Tcp { host: server.host.to_string(), port: server.port }
        }
        ServerConfig::Unix { path } => Server::Unix { path: path.clone() },
        ServerConfig::Clustered { .. } | ServerConfig::Sentinel { .. } => {
            return Err(LockError::invalid_url(
                "Sentinel and Cluster are not supported: give the address of one standalone server",
            ));
        }
    };
    let address = Address {
        endpoint: Endpoint { server, database: config.database },
        credentials: Credentials { username: config.username.clone(), password: config.password.clone() },
        tls: None,
    };
    Ok(RedisBackendBuilder::new(Fred::new(config), address))
}
