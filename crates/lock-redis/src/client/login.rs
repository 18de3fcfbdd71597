//! The login of each dial: fixed, or obtained from the program.

use super::{Credentials, Server};
use futures_util::future::BoxFuture;
use lock_core::backend::{Applied, BackendError, BackendErrorKind};
use std::{error::Error, sync::Arc};

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
