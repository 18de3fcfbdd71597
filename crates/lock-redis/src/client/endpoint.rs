//! The server to dial, and the login of each dial: fixed, or obtained from the program.

use super::message::printable;
use futures_util::future::BoxFuture;
use lock_core::backend::{Applied, BackendError, BackendErrorKind};
use std::{error::Error, fmt, path::PathBuf, sync::Arc};

/// A server and one of its databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The server.
    pub server: Server,
    /// The database to select. With `None`, nothing is selected, so database 0 is used.
    pub database: Option<u8>,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Server {
    /// A host and a port.
    Tcp {
        /// A host name or an IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// The path of the socket.
        path: PathBuf,
    },
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Sentinels and cluster nodes name hosts.
            Self::Tcp { host, port } => write!(f, "{}:{port}", printable(host)),
            Self::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}

/// A user name and a password, which are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user name. `None` means the default user.
    pub username: Option<String>,
    /// The password. `None` means no login.
    pub password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// The source of the login.
#[derive(Clone)]
pub(crate) enum Login {
    Fixed(Credentials),
    /// Called for each dial, since the login may expire.
    Asked(Arc<Provider>),
}

/// A function of the program that returns the current login.
pub(crate) type Provider =
    dyn Fn() -> BoxFuture<'static, Result<Credentials, Box<dyn Error + Send + Sync>>> + Send + Sync;

impl Login {
    /// Returns the login for a dial to this server.
    pub(crate) async fn get(&self, server: &Server) -> Result<Credentials, BackendError> {
        match self {
            Self::Fixed(credentials) => Ok(credentials.clone()),
            Self::Asked(provider) => provider().await.map_err(|error| {
                let message = format!(
                    "failed to connect to redis at {server}: the program has no credentials: {error}"
                );
                BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
            }),
        }
    }
}
