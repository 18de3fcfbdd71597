//! Conversion of an existing redis-rs client.

use crate::{RedisBackendBuilder, client::RedisRs};
use lock_core::LockError;
use lock_redis::{
    Address, Topology,
    client::{Credentials, Endpoint, Server, Tls},
};
use redis::{Client, ConnectionAddr};

/// Creates a builder with the server, user, password and database of a redis-rs client.
///
/// The backend opens its own connections. The application's connections cannot be shared, because
/// locks need different rules for time limits and reconnection. `rediss://` trusts the system's
/// authorities.
///
/// # Errors
/// Returns [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the client does
/// not verify certificates, if its database number is above 255, or if it has custom certificates,
/// which redis-rs does not expose. In the last case, use [`from_url`](RedisBackendBuilder::from_url)
/// and [`tls`](RedisBackendBuilder::tls).
pub fn from_client(client: &Client) -> Result<RedisBackendBuilder, LockError> {
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
    Ok(RedisBackendBuilder::new(RedisRs::default(), Address { topology, credentials, tls }))
}
