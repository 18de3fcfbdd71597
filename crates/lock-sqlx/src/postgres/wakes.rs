//! The task that hears of releases by other processes: by NOTIFY, or by looking.

use super::{
    error::failed,
    server::{Server, statement},
};
use lock_core::{
    __private::lock,
    LockName, Worker,
    backend::{Applied, BackendError, BackendErrorKind, MissedWakes},
};
use sqlx::{
    FromRow as _,
    postgres::{PgListener, PgPoolOptions, PgRow},
};
use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};

/// The time for which a row says that a client waits, and the time after which that is said again.
const WATCHED_FOR: Duration = Duration::from_secs(30);
const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// The pauses between two looks: a sixteenth of the time since something happened, within these limits.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause before the next attempt to listen.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// A connection that does not answer for this long is lost.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// The task of a store. The first subscription starts it, and it ends with the store.
pub(super) struct Wakes {
    server: Arc<Server>,
    keeper: Worker,
    task: Mutex<Option<Task>>,
}

struct Task {
    state: watch::Receiver<State>,
    _ends: oneshot::Sender<Infallible>,
}

/// The latest deed of the task.
enum State {
    Begins,
    /// Every release is reported from now on.
    Hears,
    Failed(BackendError),
}

impl Wakes {
    pub(super) fn new(server: Arc<Server>, keeper: Worker) -> Self {
        Self { server, keeper, task: Mutex::default() }
    }

    /// Starts the task unless it runs, and waits until it hears of releases.
    pub(super) async fn begin(&self) -> Result<(), BackendError> {
        let mut state = lock(&self.task).get_or_insert_with(|| self.start()).state.clone();
        let ended = || {
            let message = "the thread of the postgres store has ended: create a new store";
            BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
        };
        let state = state.wait_for(|state| !matches!(state, State::Begins)).await.map_err(|_| ended())?;
        match &*state {
            State::Failed(error) => Err(error.clone()),
            State::Begins | State::Hears => Ok(()),
        }
    }

    fn start(&self) -> Task {
        let (ends, ended) = oneshot::channel();
        let (report, state) = watch::channel(State::Begins);
        let server = self.server.clone();
        self.keeper.handle().spawn(async move {
            tokio::select! {
                () = server.hear(&report) => {}
                _ = ended => {}
            }
        });
        Task { state, _ends: ends }
    }
}

impl Server {
    /// Hears of releases, for ever.
    async fn hear(&self, report: &watch::Sender<State>) {
        if self.place.has_pooler {
            report.send_replace(State::Hears);
            return self.poll().await;
        }
        loop {
            let lost = self.listen(report).await;
            tracing::debug!(error = %lost, "lost the connection that listens to postgres");
            report.send_replace(State::Failed(lost));
            sleep(RETRY_AFTER).await;
        }
    }

    /// Listens until the connection is lost.
    async fn listen(&self, report: &watch::Sender<State>) -> BackendError {
        let error = match self.try_listen(report).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        failed("listen", error).with_applied(Applied::No)
    }

    async fn try_listen(&self, report: &watch::Sender<State>) -> Result<Infallible, sqlx::Error> {
        // Its own pool: the end of a lost connection may take long.
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(ANSWERS_WITHIN);
        let pool = pool.idle_timeout(None).max_lifetime(None).connect_lazy_with(self.place.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(&self.place.channel()).await?;
        let names = self.watchers.names();
        // What was released before now was missed.
        report.send_replace(State::Hears);
        if !names.is_empty() {
            self.refresh(&names).await;
            self.watchers.wake_all(MissedWakes::Reconnected);
        }
        let mut refreshed = Instant::now();
        loop {
            tokio::select! {
                notification = listener.try_recv() => match notification? {
                    Some(notification) => self.notified(notification.payload()),
                    None => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
                },
                () = sleep(REFRESH_EVERY.saturating_sub(refreshed.elapsed())) => {
                    refreshed = Instant::now();
                    let names = self.watchers.names();
                    if !names.is_empty() {
                        self.refresh(&names).await;
                        let answer = sqlx::query("select").execute(&mut listener);
                        timeout(ANSWERS_WITHIN, answer).await.map_err(io::Error::from)??;
                    }
                }
            }
        }
    }

    /// Reports a release by another client.
    fn notified(&self, payload: &str) {
        if let Some((client, name)) = payload.split_once(' ')
            && client != self.id
            && let Ok(name) = LockName::new(name)
        {
            self.watchers.released(&name);
        }
    }

    /// Looks for releases while somebody waits.
    async fn poll(&self) {
        let mut refreshed = Instant::now();
        loop {
            let names = self.watchers.names();
            if names.is_empty() {
                lock(&self.reported).clear();
                self.subscribed.notified().await;
                continue;
            }
            if refreshed.elapsed() >= REFRESH_EVERY {
                refreshed = Instant::now();
                self.refresh(&names).await;
            }
            let looked = self.look(&names).await;
            if let Err(error) = looked {
                tracing::debug!(%error, "failed to look for releases in postgres");
            }
            let idle = lock(&self.active).elapsed();
            sleep((idle / 16).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        }
    }

    async fn look(&self, names: &[LockName]) -> Result<(), BackendError> {
        let names: Vec<_> = names.iter().map(|name| name.as_str().to_owned()).collect();
        let query = statement(&self.statements.freed).bind(names);
        for row in self.execute(&self.upkeep, "look for releases", query).await? {
            self.has_freed(&row);
        }
        Ok(())
    }

    /// Says again that this client waits. If that fails, it is said with the next refresh.
    async fn refresh(&self, names: &[LockName]) {
        if let Err(error) = self.watch(names).await {
            tracing::debug!(%error, "failed to refresh subscriptions in postgres");
        }
    }

    /// Says that this client waits for locks.
    pub(super) async fn watch(&self, names: &[LockName]) -> Result<(), BackendError> {
        let names: Vec<_> = names.iter().map(|name| name.as_str().to_owned()).collect();
        let millis = i64::try_from(WATCHED_FOR.as_millis()).unwrap_or(i64::MAX);
        let query = statement(&self.statements.watch).bind(names).bind(self.id.clone()).bind(millis);
        for row in self.execute(&self.upkeep, "subscribe", query).await? {
            self.has_freed(&row);
        }
        *lock(&self.active) = Instant::now();
        self.subscribed.notify_one();
        Ok(())
    }

    /// Reports a release that was read, unless it was reported before.
    fn has_freed(&self, row: &PgRow) {
        if self.place.has_pooler
            && let Ok((name, freed)) = <(String, i64)>::from_row(row)
            && let Ok(name) = LockName::new(name)
            && self.has_reported(&name, freed)
        {
            *lock(&self.active) = Instant::now();
            self.watchers.released(&name);
        }
    }

    /// Notes that the releases of a lock are reported. Returns `true` if some were not.
    pub(super) fn has_reported(&self, name: &LockName, freed: i64) -> bool {
        let mut reported = lock(&self.reported);
        match reported.get_mut(name) {
            Some(before) => std::mem::replace(before, freed.max(*before)) < freed,
            None => {
                reported.insert(name.clone(), freed);
                false
            }
        }
    }
}
