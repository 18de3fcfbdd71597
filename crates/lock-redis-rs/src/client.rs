//! The redis-rs client. It receives an open stream and does not dial.

use crate::{config::address, connection::RedisRsConnection, error};
use lock_core::LockError;
use lock_redis::{
    Address, Configured,
    client::{Client, Credentials, DialError, Endpoint, Events, Server, TlsSupport},
};
use redis::{ProtocolVersion, RedisConnectionInfo};
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
    fn secure(&mut self, tls: &lock_redis::Tls) -> Result<(), lock_core::backend::BackendError> {
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
                    let stream = crate::tls::secured(tls, host, tcp).await?;
                    return RedisRsConnection::open(stream, &login, events).await;
                }
                RedisRsConnection::open(tcp, &login, events).await
            }
        }
    }
}

async fn tcp(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
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

impl fmt::Debug for RedisRs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The TLS settings are omitted because they may contain a key.
        f.debug_struct("RedisRs").finish_non_exhaustive()
    }
}
