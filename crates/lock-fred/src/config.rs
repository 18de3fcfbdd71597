//! Conversion of an existing fred configuration.

use fred::types::config::{Config, Server as FredServer, ServerConfig};
use lock_redis::{
    Address, SentinelAddress, Topology,
    client::{Credentials, Endpoint, Server},
};

/// Returns the servers, the login and the database. The TLS settings stay in the configuration.
pub(crate) fn address(config: &Config) -> Address {
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
