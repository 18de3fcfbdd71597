//! Dialling: one dial with the settings of the backend and within its time limit, several servers at once, and the
//! pauses between two attempts.

use super::{
    dialled::{Dialled, answered},
    home::Home,
};
use crate::{
    client::{
        Client, Command, Connection, DialError, Endpoint, Events, Info, Listener, Login, Secrets, Server,
    },
    error,
    sentinel::Sentinels,
};
use futures_util::future::BoxFuture;
use lock_core::backend::{BackendError, BackendErrorKind};
use std::{
    future::pending,
    hash::{BuildHasher, RandomState},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, SetOnce, watch},
    time::{Instant, sleep, timeout_at},
};

/// Time limit for the remaining servers after enough have answered.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// The settings of every dial.
pub(crate) struct Dialer<C: Client> {
    pub(crate) client: Arc<C>,
    pub(crate) target: Target<C>,
    pub(crate) login: Login,
    /// The time limit of each dial.
    pub(crate) limit: Duration,
    pub(crate) home: Arc<Home>,
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
#[derive(Clone)]
pub(crate) enum Purpose {
    /// Requests. Pings keep the connection alive while it is idle.
    Requests,
    /// Messages for this listener. The task that subscribes also sends the pings.
    Messages(Arc<dyn Listener>),
}

impl<C: Client> Dialer<C> {
    /// Dials a connection in the runtime of the connections.
    pub(super) async fn dial(
        self: &Arc<Self>,
        purpose: &Purpose,
    ) -> Result<Dialled<C::Connection>, BackendError> {
        let dial = || {
            let (dialer, purpose) = (self.clone(), purpose.clone());
            async move { dialer.dial_here(&purpose).await }
        };
        self.home.run(dial).await.unwrap_or_else(|_| Err(error::runtime_ended("connect").into()))
    }

    async fn dial_here(&self, purpose: &Purpose) -> Result<Dialled<C::Connection>, BackendError> {
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
        let dialled = Dialled::new(connection, end, secrets, endpoint.server);
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
async fn is_master<T: Connection>(dialled: &Dialled<T>) -> Result<(), BackendError> {
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

/// The time limit of servers that are opened together.
pub(crate) struct Stragglers {
    answered: watch::Sender<usize>,
    enough: usize,
}

impl Stragglers {
    pub(crate) fn after(enough: usize) -> Self {
        Self { answered: watch::Sender::new(0), enough }
    }

    /// Opens one server. Fails with `late` if enough others answered a while ago.
    pub(crate) async fn limit<T>(
        &self,
        opening: impl Future<Output = Result<T, BackendError>>,
        late: impl FnOnce() -> BackendError,
    ) -> Result<T, BackendError> {
        let too_late = async {
            let _ = self.answered.subscribe().wait_for(|answered| *answered >= self.enough).await.map(drop);
            sleep(STRAGGLERS).await;
        };
        tokio::select! {
            biased;
            opened = Box::pin(opening) => {
                if opened.is_ok() {
                    self.answered.send_modify(|answered| *answered += 1);
                }
                opened
            }
            () = too_late => Err(late()),
        }
    }
}

/// Pauses between attempts, which double up to a limit. They are random within bounds, so processes that lost their
/// server do not all return to it at the same time.
#[derive(Debug, Clone)]
pub(crate) struct Pauses {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Pauses {
    pub(crate) const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first }
    }

    /// Returns the next pause, with jitter.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (2 * pause).min(self.max);
        jittered(pause)
    }

    pub(crate) fn start_over(&mut self) {
        self.next = self.first;
    }

    /// Returns `true` if two attempts this far apart belong to the same outage.
    pub(crate) fn belong_together(&self, apart: Duration) -> bool {
        apart < 2 * self.max
    }
}

/// Returns a random duration between half of `pause` and `pause`.
pub(crate) fn jittered(pause: Duration) -> Duration {
    between(pause / 2, pause)
}

/// Returns a random duration within these bounds.
pub(crate) fn between(min: Duration, max: Duration) -> Duration {
    let random = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or(u32::MAX);
    min + (max - min).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pauses_double_up_to_their_limit() {
        let (first, max) = (Duration::from_millis(200), Duration::from_secs(2));
        let mut pauses = Pauses::new(first, max);
        for whole in [200, 400, 800, 1_600, 2_000, 2_000].map(Duration::from_millis) {
            let pause = pauses.next();
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?} of {whole:?}");
        }
        pauses.start_over();
        assert!(pauses.next() <= first);
    }

    #[test]
    fn pauses_differ_between_processes() {
        let pauses: BTreeSet<_> = (0..100).map(|_| jittered(Duration::from_secs(1))).collect();
        assert!(pauses.len() > 90, "{pauses:?}");
    }
}
