//! The redis-rs client, also from an existing one. It dials one endpoint and never reconnects.

use crate::{connection::RedisRsConnection, error};
use lock_core::LockError;
use lock_redis::{
    Address, Configured, Topology,
    client::{Client, Credentials, DialError, Endpoint, Events, Server, Tls, TlsSupport},
};
use redis::{ConnectionAddr, ProtocolVersion, RedisConnectionInfo};
use std::fmt;
use tokio::net::{TcpStream, UnixStream};

/// The client library `redis`, as used by [`lock_redis`].
#[derive(Clone, Default)]
pub struct RedisRs {
    #[cfg(feature = "__tls")]
    tls: Option<tokio_rustls::TlsConnector>,
}

impl RedisRs {
    #[cfg(feature = "__tls")]
    fn secure(&mut self, tls: &Tls) -> Result<(), lock_core::backend::BackendError> {
        let config = lock_redis::client::rustls_config(tls)?;
        self.tls = Some(std::sync::Arc::new(config).into());
        Ok(())
    }
}

impl Configured for RedisRs {
    type Config = redis::Client;

    fn from_config(client: &redis::Client) -> Result<(Self, Address), LockError> {
        Ok((Self::default(), address(client)?))
    }
}

impl Client for RedisRs {
    type Connection = RedisRsConnection;

    #[cfg(feature = "__tls")]
    const TLS: TlsSupport<Self> = TlsSupport::BuiltIn(Self::secure);
    #[cfg(not(feature = "__tls"))]
    const TLS: TlsSupport<Self> =
        TlsSupport::Missing("the feature `tls-ring` or `tls-aws-lc-rs` of distlock or lock-redis-rs");

    #[cfg(feature = "__tls")]
    fn is_secured(&self) -> bool {
        self.tls.is_some()
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
    ) -> Result<RedisRsConnection, DialError> {
        let login = login(endpoint, credentials);
        match &endpoint.server {
            Server::Unix { path } => {
                let stream = UnixStream::connect(path).await.map_err(|error| error::of_io(&error))?;
                RedisRsConnection::open(stream, &login, events).await
            }
            Server::Tcp { host, port } => {
                let tcp = tcp(host, *port).await.map_err(|error| error::of_io(&error))?;
                #[cfg(feature = "__tls")]
                if let Some(tls) = &self.tls {
                    let stream = secured(tls, host, tcp).await?;
                    return RedisRsConnection::open(stream, &login, events).await;
                }
                RedisRsConnection::open(tcp, &login, events).await
            }
        }
    }
}

impl fmt::Debug for RedisRs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The TLS settings are omitted because they may contain a key.
        f.debug_struct("RedisRs").finish_non_exhaustive()
    }
}

async fn tcp(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Performs the handshake and verifies that the peer is `host`.
#[cfg(feature = "__tls")]
async fn secured(
    tls: &tokio_rustls::TlsConnector,
    host: &str,
    tcp: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, DialError> {
    use lock_redis::client::DialErrorKind;

    let name = tokio_rustls::rustls::pki_types::ServerName::try_from(host.to_owned())
        .map_err(|error| DialError::new(DialErrorKind::Settings, error.to_string()))?;
    tls.connect(name, tcp).await.map_err(|error| error::of_io(&error))
}

fn login(endpoint: &Endpoint, credentials: &Credentials) -> RedisConnectionInfo {
    // Messages arrive as pushes, on the same connection as replies.
    let mut login = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        // The permission for this command is not among those that `docs/protocol.md` lists.
        .set_skip_set_lib_name()
        .set_db(endpoint.database.unwrap_or_default().into());
    if let Some(username) = &credentials.username {
        login = login.set_username(username);
    }
    if let Some(password) = &credentials.password {
        login = login.set_password(password);
    }
    login
}

/// Returns the server, the login, the database and the TLS settings.
fn address(client: &redis::Client) -> Result<Address, LockError> {
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
