//! TLS over a TCP connection.

use crate::error;
use lock_redis::client::{DialError, DialErrorKind};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

/// Performs the handshake and verifies that the peer is `host`.
pub(crate) async fn secured(
    tls: &TlsConnector,
    host: &str,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, DialError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| DialError::new(DialErrorKind::Settings, error.to_string()))?;
    tls.connect(name, tcp).await.map_err(|error| error::of_io(&error))
}
