//! A single dial with the settings of the backend, within its time limit.

use super::{Dialled, Trust, answered};
use crate::{
    client::{Client, Command, DialError, DialErrorKind, Endpoint, Events, Listener, Login, Server},
    error,
    info::Info,
    liveness::Liveness,
    secret::Secrets,
    sentinel::Sentinels,
};
use futures_util::future::BoxFuture;
use lock_core::backend::{BackendError, BackendErrorKind};
use std::{future::pending, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, OnceCell, SetOnce},
    time::{Instant, timeout_at},
};

/// The settings of every dial.
pub(crate) struct Dialer<C: Client> {
    pub(crate) client: Arc<C>,
    pub(crate) target: Target<C>,
    pub(crate) login: Login,
    /// The time limit of each dial.
    pub(crate) limit: Duration,
    /// Notified when a connection is lost.
    pub(crate) lost: Option<Arc<Notify>>,
    /// The checks that the server must pass before it gets requests, if it was not checked before.
    pub(crate) admission: Option<Box<dyn Admission<C>>>,
}

/// The checks that a server must pass before it gets requests.
pub(crate) trait Admission<C: Client>: Send + Sync {
    fn check<'a>(&'a self, dialled: &'a Dialled<C::Connection>) -> BoxFuture<'a, Result<(), BackendError>>;
}

/// The longest time limit of a dial, a century: the clock of a process cannot count to every duration.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The server to dial. Each dial can lead to a different server.
pub(crate) enum Target<C> {
    /// Always this server.
    Fixed(Endpoint),
    /// The master that these sentinels name.
    Master(Arc<Sentinels<C>>),
    /// One of these sentinels.
    AnySentinel(Arc<Sentinels<C>>),
}

/// The purpose of a connection.
pub(crate) enum Purpose {
    /// Requests. Pings keep the connection alive while it is idle.
    Requests,
    /// Messages for this listener. The task that subscribes also sends the pings.
    Messages(Arc<dyn Listener>),
}

impl<C: Client> Dialer<C> {
    pub(super) async fn dial(&self, purpose: &Purpose) -> Result<Dialled<C::Connection>, BackendError> {
        let until = Instant::now() + self.limit.min(LONGEST);
        let endpoint = match &self.target {
            Target::Fixed(endpoint) => endpoint.clone(),
            Target::Master(sentinels) => Box::pin(sentinels.master()).await?,
            Target::AnySentinel(sentinels) => sentinels.some_sentinel(),
        };
        let end = Arc::new(SetOnce::new());
        let listener = match purpose {
            Purpose::Requests => None,
            Purpose::Messages(listener) => Some(listener.clone()),
        };
        let server = &endpoint.server;
        let asking = timeout_at(until, self.login.get(server)).await;
        let credentials = asking.map_err(|_| error::no_credentials(server, self.limit))??;
        let secrets = Secrets::of(&credentials);
        let dial = self.client.dial(&endpoint, &credentials, Events::new(end.clone(), listener));
        let superseded = async {
            match &self.target {
                Target::Master(sentinels) => sentinels.leave(server).await,
                Target::Fixed(_) | Target::AnySentinel(_) => pending().await,
            }
        };
        // Boxed, since the future may be large and a program may connect to many servers at once.
        let dial = timeout_at(until, Box::pin(dial));
        let dialled = tokio::select! {
            biased;
            dialled = dial => dialled,
            () = superseded => return Err(error::superseded(server)),
        };
        let connection = match dialled {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(self.failed(server, &secrets.hide_in_dial(error))),
            Err(_) => return Err(self.failed(server, &DialError::silent(self.limit))),
        };
        let (liveness, replaced) = (Liveness::default(), SetOnce::new());
        let (server, accepted) = (endpoint.server, OnceCell::new());
        let trust = Arc::new(Trust::new(end.clone()));
        let dialled = Dialled { connection, liveness, trust, end, replaced, secrets, server, accepted };
        let checks = async {
            if let Purpose::Requests = purpose {
                dialled.read_clock().await;
            }
            if let Target::Master(_) = &self.target {
                is_master(&dialled).await?;
            }
            match (&self.admission, purpose) {
                (Some(admission), Purpose::Requests) => admission.check(&dialled).await,
                _ => Ok(()),
            }
        };
        let checked = timeout_at(until, Box::pin(checks)).await;
        checked.map_err(|_| self.failed(&dialled.server, &DialError::silent(self.limit)))??;
        Ok(dialled)
    }

    /// Returns the error for a dial that got no reply within the time limit.
    pub(crate) fn nobody_answers(&self, server: Option<&Server>) -> BackendError {
        match (server, &self.target) {
            (Some(server), _) => self.failed(server, &DialError::silent(self.limit)),
            (None, Target::Fixed(endpoint)) => self.failed(&endpoint.server, &DialError::silent(self.limit)),
            (None, _) => error::not_connected("connect", &"the connection was lost").into(),
        }
    }

    fn failed(&self, server: &Server, error: &DialError) -> BackendError {
        error::connecting(server, self.client.is_secured(), error)
    }
}

/// Checks that the server is a master, because the sentinels' reply may be outdated.
async fn is_master<T: crate::client::Connection>(dialled: &Dialled<T>) -> Result<(), BackendError> {
    let question = Command::new("INFO", vec!["replication".into()]);
    match answered("read the server info", pin!(dialled.call(question))).await {
        Ok(reply) => match Info::read(reply.text().unwrap_or_default()).get("role") {
            "slave" => Err(error::not_promoted(&dialled.server)),
            _ => Ok(()),
        },
        // `INFO` is denied. A replica refuses every write anyway.
        Err(error) if error.kind() == BackendErrorKind::Denied => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl DialError {
    /// Creates the error for a dial that got no reply within this time.
    pub(crate) fn silent(limit: Duration) -> Self {
        Self::new(DialErrorKind::TimedOut, format!("no reply within {limit:?}"))
    }
}
