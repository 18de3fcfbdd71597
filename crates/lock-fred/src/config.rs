//! Conversion of an existing fred configuration.

use crate::{RedisBackendBuilder, client::Fred};
use fred::types::config::{Config, Server as FredServer, ServerConfig};
use lock_redis::{
    Address, SentinelAddress, Topology,
    client::{Credentials, Endpoint, Server},
};

/// Creates a builder with the server, user, password, database and TLS of a fred configuration.
///
/// The sentinel login is not used. If the sentinels need one, use a URL with [`Address`].
///
/// Policies for retries, timeouts and reconnection are ignored, because locks need different ones.
/// The application's client cannot be shared, because it may send a command twice.
pub fn from_config(config: Config) -> RedisBackendBuilder {
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
    RedisBackendBuilder::new(Fred::new(config), Address { topology, credentials, tls: None })
}
