//! Conversion of an existing redis-rs client.

use lock_core::LockError;
use lock_redis::{
    Address, Topology,
    client::{Credentials, Endpoint, Server, Tls},
};
use redis::{Client, ConnectionAddr};

/// Returns the server, the login, the database and the TLS settings.
pub(crate) fn address(client: &Client) -> Result<Address, LockError> {
    let info = client.get_connection_info();
    let tcp = |host: &str, port| Server::Tcp { host: host.to_owned(), port };
    let (server, tls) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (tcp(host, *port), None),
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None } => {
            (tcp(host, *port), Some(Tls::system()))
        }
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err(LockError::invalid_url("certificates are always verified: remove `#insecure`"));
        }
        ConnectionAddr::TcpTls { .. } => {
            return Err(LockError::invalid_url(
                "the certificates of a redis-rs client cannot be read: pass them to `RedisBackendBuilder::tls`",
            ));
        }
        ConnectionAddr::Unix(path) => (Server::Unix { path: path.clone() }, None),
        _ => return Err(LockError::invalid_url("unsupported address type")),
    };
    let login = info.redis_settings();
    let database = u8::try_from(login.db())
        .map_err(|_| LockError::invalid_url("the database must be a number from 0 to 255"))?;
    let credentials = Credentials {
        username: login.username().map(str::to_owned),
        password: login.password().map(str::to_owned),
    };
    let topology = Topology::Standalone(Endpoint { server, database: Some(database) });
    Ok(Address { topology, credentials, tls })
}
