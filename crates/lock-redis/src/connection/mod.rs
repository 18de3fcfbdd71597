//! A connection that is kept up: requests use the current connection, and a new one is dialled when that one ends or
//! must be replaced.

mod dial;
mod dialled;
mod home;

pub(crate) use dial::{Admission, Dialer, Pauses, Purpose, Stragglers, Target, between, jittered};
pub(crate) use dialled::{Delivered, Delivery, Dialled, NO_ANSWER_AFTER, ReplaceReason, answered};
pub(crate) use home::Home;

use crate::{
    client::{Client, Command, PubSub, Reply, Server},
    error::{self, RequestError},
};
use lock_core::{__private::lock, backend::BackendError};
use std::{
    convert::Infallible,
    fmt, future,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};

/// The time for which a request waits for a connection that is being dialled.
pub(crate) const GRACE: Duration = Duration::from_millis(300);

/// The bounds of the random pause between the end of a connection and the next dial, and between two failed dials. If a
/// server returns when a third of a short lease remains, it must be found in time for a renewal.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(150), Duration::from_millis(250));
/// The maximum pause after the server refuses a dial. A retry cannot succeed until the login or the server is changed.
const REFUSED_DIAL_PAUSE: Duration = Duration::from_secs(1);
/// The pauses between two replacements of open connections. The address may lead to a replica for a
/// long time. Requests still reach the replica between replacements, so holders notice if it is
/// promoted.
const REPLACEMENTS: Pauses = Pauses::new(Duration::from_millis(200), Duration::from_secs(2));
/// The interval of pings. NATs and firewalls silently forget quiet connections.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A connection that is dialled again when it ends. Requests fail while there is none; they are never sent twice.
///
/// Dropping it ends the dialling task.
pub(crate) struct ManagedConnection<C: Client> {
    current: watch::Receiver<Current<C>>,
    /// The reason why there is no current connection.
    outage: Arc<Outage>,
    home: Arc<Home>,
    supervisor: JoinHandle<()>,
}

/// The current connection, if there is one.
pub(crate) type Current<C> = Option<Arc<Dialled<<C as Client>::Connection>>>;

impl<C: Client> ManagedConnection<C> {
    /// Dials a connection.
    pub(crate) async fn open(dialer: Arc<Dialer<C>>, purpose: Purpose) -> Result<Self, BackendError> {
        let first = dialer.dial(&purpose).await?;
        Ok(Self::run(dialer, purpose, Some(Arc::new(first))))
    }

    /// Starts without a connection, and dials until there is one.
    pub(crate) fn begin(dialer: Arc<Dialer<C>>, purpose: Purpose) -> Self {
        Self::run(dialer, purpose, None)
    }

    fn run(dialer: Arc<Dialer<C>>, purpose: Purpose, first: Current<C>) -> Self {
        let (sender, current) = watch::channel(first.clone());
        let (outage, home) = (Arc::new(Outage::new()), dialer.home.clone());
        let supervisor = Supervisor { dialer, purpose, current: sender, outage: outage.clone() };
        let supervisor = home.keeper().spawn(supervisor.run(first));
        Self { current, outage, home, supervisor }
    }

    /// Returns the runtimes of this connection.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Sends one command at most once. If there is no connection, the call fails and the command is not sent.
    pub(crate) async fn call(&self, what: &str, command: Command) -> Result<Reply, RequestError> {
        let dialled = self.connected(what).await?;
        answered(what, pin!(dialled.call(command))).await
    }

    /// Subscribes and unsubscribes, and returns once the server has acknowledged both.
    pub(crate) async fn subscribe(
        &self,
        kind: PubSub,
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
    ) -> Result<(), RequestError> {
        let dialled = self.connected("subscribe").await?;
        answered("subscribe", pin!(dialled.subscribe(kind, subscribe, unsubscribe))).await
    }

    /// Pings the server.
    pub(crate) async fn ping(&self, what: &str) -> Result<(), RequestError> {
        self.call(what, Command::ping()).await.map(drop)
    }

    /// Replaces the current connection, if there is one.
    pub(crate) fn replace(&self, reason: ReplaceReason) {
        if let Some(dialled) = &*self.current.borrow() {
            dialled.replace(reason);
        }
    }

    /// Replaces the current connection if it leads to another server.
    pub(crate) fn follow(&self, master: &Server) {
        if let Some(dialled) = self.standing().filter(|dialled| dialled.server != *master) {
            dialled.replace(ReplaceReason::NotMaster);
        }
    }

    /// Returns the server of the current connection.
    pub(crate) fn server(&self) -> Option<Server> {
        self.current.borrow().as_ref().map(|dialled| dialled.server.clone())
    }

    pub(crate) fn is_up(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// Returns a receiver that is notified whenever the connection ends or is replaced by a new one.
    pub(crate) fn changes(&self) -> watch::Receiver<Current<C>> {
        self.current.clone()
    }

    /// Returns the current connection.
    pub(crate) fn standing(&self) -> Option<Arc<Dialled<C::Connection>>> {
        self.current.borrow().clone()
    }

    /// Returns the error for a request without a connection, with the reason.
    pub(crate) fn not_connected(&self, what: &str) -> RequestError {
        error::not_connected(what, &self.outage)
    }

    /// Returns the current connection, or waits a moment for the next one.
    pub(crate) async fn connected(&self, what: &str) -> Result<Arc<Dialled<C::Connection>>, RequestError> {
        let gone = |_| error::runtime_ended(what);
        self.current.has_changed().map_err(gone)?;
        match self.standing() {
            Some(dialled) => Ok(dialled),
            // Boxed: this is rare, and would increase the size of every request.
            None => Box::pin(self.connected_soon(what)).await,
        }
    }

    async fn connected_soon(&self, what: &str) -> Result<Arc<Dialled<C::Connection>>, RequestError> {
        let mut current = self.current.clone();
        let next = timeout(GRACE, current.wait_for(Option::is_some)).await;
        let next = next.map_err(|_| self.not_connected(what))?.map_err(|_| error::runtime_ended(what))?;
        next.clone().ok_or_else(|| self.not_connected(what))
    }
}

impl<C: Client> Drop for ManagedConnection<C> {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

/// Watches the current connection, and dials the next one, forever.
struct Supervisor<C: Client> {
    dialer: Arc<Dialer<C>>,
    purpose: Purpose,
    current: watch::Sender<Current<C>>,
    outage: Arc<Outage>,
}

/// The reason why a connection is given up.
enum Reason {
    Ended(String),
    Replaced(ReplaceReason),
    /// Its runtime has ended or is not driven.
    Moved,
}

impl<C: Client> Supervisor<C> {
    async fn run(self, first: Current<C>) {
        let mut dialled = match first {
            Some(first) => first,
            None => {
                let first = Arc::new(self.dial_until_connected().await);
                self.current.send_replace(Some(first.clone()));
                first
            }
        };
        let mut pauses = REPLACEMENTS;
        // The first replacement is immediate.
        let (mut replaced_at, mut replaceable_at) = (None::<Instant>, Instant::now());
        loop {
            let reason = self.watch(&dialled, replaceable_at).await;
            let asked_at = Instant::now();
            self.outage.begin(log(&reason));
            // From here on, requests wait for the next connection.
            self.current.send_replace(None);
            if let Some(lost) = &self.dialer.lost {
                lost.notify_one();
            }
            // A server that became a replica may still answer requests in progress during this
            // pause. For a connection that moves, the server is as it was.
            if !matches!(reason, Reason::Moved) {
                sleep(reconnect_pause()).await;
            }
            dialled.close("replaced by another connection");
            drop(dialled);
            dialled = Arc::new(self.dial_until_connected().await);
            if matches!(reason, Reason::Replaced(_)) {
                if !replaced_at.is_some_and(|before| pauses.belong_together(asked_at - before)) {
                    pauses.start_over();
                }
                let now = Instant::now();
                // Give the server behind the address some time to become a master.
                (replaced_at, replaceable_at) = (Some(now), now + pauses.next());
            }
            tracing::info!(server = %dialled.server, "reconnected to redis");
            self.current.send_replace(Some(dialled.clone()));
        }
    }

    /// Returns once the connection has ended, or must be replaced and may be.
    async fn watch(&self, dialled: &Dialled<C::Connection>, replaceable_at: Instant) -> Reason {
        let replaced = async {
            let reason = dialled.outlived().await;
            sleep_until(replaceable_at).await;
            reason
        };
        let home = &self.dialer.home;
        tokio::select! {
            biased;
            reason = dialled.ended() => Reason::Ended(reason),
            reason = replaced => Reason::Replaced(reason),
            () = home.moved(), if dialled.runtime != home.keeper().id() => Reason::Moved,
            never = self.keep_alive(dialled) => match never {},
        }
    }

    /// Pings at regular intervals. The reply does not matter, since `Liveness` detects a missing one.
    async fn keep_alive(&self, dialled: &Dialled<C::Connection>) -> Infallible {
        match self.purpose {
            Purpose::Requests => loop {
                sleep(KEEP_ALIVE).await;
                let _ = timeout(NO_ANSWER_AFTER, dialled.call(Command::ping())).await;
            },
            Purpose::Messages(_) => future::pending().await,
        }
    }

    /// Dials until a connection is open. A refused login may be corrected while the program is running.
    async fn dial_until_connected(&self) -> Dialled<C::Connection> {
        let mut failures = FailedDials::default();
        loop {
            match self.dialer.dial(&self.purpose).await {
                Ok(dialled) => return dialled,
                Err(error) => sleep(failures.add(&error, &self.outage)).await,
            }
        }
    }
}

/// The consecutive failures of a dial that is repeated.
#[derive(Default)]
pub(crate) struct FailedDials {
    logged: String,
}

impl FailedDials {
    /// Records a failure, and returns the pause before the next dial.
    pub(crate) fn add(&mut self, error: &BackendError, outage: &Outage) -> Duration {
        let text = error.to_string();
        outage.goes_on(text.clone());
        // Warn only if the error differs from the previous one, however long the outage lasts.
        if self.logged == text {
            tracing::debug!(%error, "still failing to connect to redis, retrying");
        } else {
            tracing::warn!(%error, "failed to connect to redis, retrying");
            self.logged = text;
        }
        if error.is_retryable() { reconnect_pause() } else { jittered(REFUSED_DIAL_PAUSE) }
    }
}

fn reconnect_pause() -> Duration {
    let (min, max) = RECONNECT_PAUSE;
    between(min, max)
}

/// Logs the end of a connection, and returns its reason.
fn log(reason: &Reason) -> String {
    match reason {
        Reason::Ended(reason) => {
            tracing::warn!(reason, "redis connection lost, reconnecting");
            format!("the connection was lost: {reason}")
        }
        Reason::Moved => "the runtime of the connection has ended or is not driven".to_owned(),
        Reason::Replaced(ReplaceReason::Unresponsive) => {
            tracing::warn!("redis connection unresponsive, reconnecting");
            "the server did not reply".to_owned()
        }
        Reason::Replaced(ReplaceReason::ReadOnly) => {
            tracing::warn!("redis server became read-only, reconnecting");
            "the server became read-only".to_owned()
        }
        Reason::Replaced(ReplaceReason::NotMaster) => {
            tracing::warn!("redis sentinels report a different master, reconnecting");
            "the sentinels report a different master".to_owned()
        }
        Reason::Replaced(ReplaceReason::SubscriptionFailed) => {
            tracing::warn!("redis subscription failed, reconnecting");
            "a subscription failed".to_owned()
        }
    }
}

/// The time since which there is no connection, and the latest reason. Outdated while there is one.
pub(crate) struct Outage(Mutex<OutageState>);

struct OutageState {
    since: Instant,
    reason: String,
}

impl Outage {
    /// Creates the outage of a connection that is dialled for the first time.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(OutageState { since: Instant::now(), reason: "still connecting".to_owned() }))
    }

    /// Records the end of a connection.
    pub(crate) fn begin(&self, reason: String) {
        *lock(&self.0) = OutageState { since: Instant::now(), reason };
    }

    /// Records the reason of the latest failed dial.
    pub(crate) fn goes_on(&self, reason: String) {
        lock(&self.0).reason = reason;
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutageState { since, reason } = &*lock(&self.0);
        write!(f, "{reason}; for {} s", since.elapsed().as_secs())
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
