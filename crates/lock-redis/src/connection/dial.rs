//! One dial: with the settings of the backend, and within its time limit.

use super::Dialled;
use crate::{
    client::{Client, Credentials, DialError, DialErrorKind, Endpoint, Events, Listener},
    error,
    liveness::Liveness,
    secret::Secrets,
};
use lock_core::backend::BackendError;
use std::{sync::Arc, time::Duration};
use tokio::{sync::SetOnce, time::timeout};

/// The settings of every dial.
pub(crate) struct Dialer<C> {
    pub(crate) client: C,
    pub(crate) endpoint: Endpoint,
    pub(crate) credentials: Credentials,
    /// For each dial.
    pub(crate) limit: Duration,
}

/// The use of a connection.
pub(crate) enum Purpose {
    /// Requests. Pings keep it alive while it is quiet.
    Requests,
    /// Messages for this listener. The task that subscribes also sends the pings.
    Messages(Arc<dyn Listener>),
}

impl<C: Client> Dialer<C> {
    pub(super) async fn dial(&self, purpose: &Purpose) -> Result<Dialled<C::Connection>, BackendError> {
        let (end, secrets) = (Arc::new(SetOnce::new()), Secrets::of(&self.credentials));
        let listener = match purpose {
            Purpose::Requests => None,
            Purpose::Messages(listener) => Some(listener.clone()),
        };
        let dial = self.client.dial(&self.endpoint, &self.credentials, Events::new(end.clone(), listener));
        // On the heap, since it may be large: a program that connects to many servers at once has room for it.
        let connection = match timeout(self.limit, Box::pin(dial)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(self.failed(&secrets.hide_in_dial(error))),
            Err(_) => return Err(self.nobody_answers()),
        };
        let (liveness, replaced) = (Liveness::default(), SetOnce::new());
        Ok(Dialled { connection, liveness, end, replaced, secrets })
    }

    /// Nobody answered within the limit.
    pub(crate) fn nobody_answers(&self) -> BackendError {
        let message = format!("no answer within {:?}", self.limit);
        self.failed(&DialError::new(DialErrorKind::TimedOut, message))
    }

    fn failed(&self, error: &DialError) -> BackendError {
        error::connecting(&self.endpoint.server, self.client.is_secured(), error)
    }
}
