//! The task that hears of releases by other processes: by NOTIFY, or by looking.

use super::{
    error::failed,
    leases::decode,
    server::{Server, statement},
};
use crate::{
    connections::{ANSWERS_WITHIN, ended, in_time},
    pools::stored_name,
};
use lock_core::{
    __private::lock,
    LockName, Worker,
    backend::{Applied, BackendError, BackendErrorKind, MissedWakes},
};
use sqlx::{
    FromRow as _, Row as _,
    postgres::{PgListener, PgPoolOptions, PgRow},
};
use std::{
    collections::{HashMap, HashSet},
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
    /// Nobody waits.
    Rests,
    /// Every release is reported from now on.
    Hears,
    Failed(BackendError),
}

impl Wakes {
    pub(super) fn new(server: Arc<Server>, keeper: Worker) -> Self {
        Self { server, keeper, task: Mutex::default() }
    }

    /// Waits until releases are heard of. The caller has subscribed to a name before.
    pub(super) async fn begin(&self) -> Result<(), BackendError> {
        let mut state = lock(&self.task).get_or_insert_with(|| self.start()).state.clone();
        self.server.subscribed.notify_one();
        let state = state.wait_for(|state| !matches!(state, State::Rests)).await.map_err(|_| ended())?;
        match &*state {
            State::Failed(error) => Err(error.clone()),
            State::Rests | State::Hears => Ok(()),
        }
    }

    fn start(&self) -> Task {
        let (ends, ended) = oneshot::channel();
        let (report, state) = watch::channel(State::Rests);
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
    /// Hears of releases while somebody waits, for ever.
    async fn hear(&self, report: &watch::Sender<State>) {
        let mut was_lost = false;
        loop {
            if self.names().is_empty() {
                self.subscribed.notified().await;
                continue;
            }
            let heard = match self.place.has_pooler {
                true => self.poll(report).await,
                false => self.listen(report, was_lost).await,
            };
            was_lost = heard.is_err();
            if let Err(error) = heard {
                tracing::debug!(%error, "lost the connection that listens to postgres");
                report.send_replace(State::Failed(error));
                sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Returns the names for which somebody waits, and forgets what is known of others.
    fn names(&self) -> Vec<LockName> {
        self.watchers.forget_gone();
        let names = self.watchers.names();
        let known: HashSet<_> = names.iter().collect();
        lock(&self.reported).retain(|name, _| known.contains(name));
        lock(&self.noted).retain(|name, _| known.contains(name));
        names
    }

    /// Returns `true` if nobody waits, and nobody learned meanwhile that releases are heard of.
    fn rests(&self, report: &watch::Sender<State>) -> bool {
        if !self.names().is_empty() {
            return false;
        }
        report.send_replace(State::Rests);
        let rests = self.names().is_empty();
        if !rests {
            report.send_replace(State::Hears);
        }
        rests
    }

    /// Listens until nobody waits, or the connection is lost.
    async fn listen(&self, report: &watch::Sender<State>, was_lost: bool) -> Result<(), BackendError> {
        let listened = self.try_listen(report, was_lost).await;
        listened.map_err(|error| failed("listen", error).with_applied(Applied::No))
    }

    async fn try_listen(&self, report: &watch::Sender<State>, was_lost: bool) -> Result<(), sqlx::Error> {
        // Its own pool: the end of a lost connection may take long.
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(ANSWERS_WITHIN);
        let pool = pool.idle_timeout(None).max_lifetime(None).connect_lazy_with(self.place.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        let channel = statement(&self.statements.channel).fetch_one(&mut listener);
        let channel: String = in_reach(channel).await?.try_get(0)?;
        in_reach(listener.listen(&channel)).await?;
        if was_lost {
            // Releases meanwhile were missed.
            self.refresh(&self.names()).await;
            self.watchers.wake_all(MissedWakes::Reconnected);
        }
        report.send_replace(State::Hears);
        let mut refreshed = Instant::now();
        loop {
            tokio::select! {
                notification = listener.try_recv() => match notification? {
                    Some(notification) => self.notified(notification.payload()),
                    None => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
                },
                () = sleep(REFRESH_EVERY.saturating_sub(refreshed.elapsed())) => {
                    if self.rests(report) {
                        return Ok(());
                    }
                    in_reach(sqlx::query("select").execute(&mut listener)).await?;
                    self.refresh(&self.names()).await;
                    refreshed = Instant::now();
                }
            }
        }
    }

    /// Reports a release by another client.
    fn notified(&self, payload: &str) {
        if let Some((client, name)) = payload.split_once(' ')
            && client != self.id
            && let Some(name) = stored_name(name)
        {
            self.watchers.released(&name);
        }
    }

    /// Looks for releases until nobody waits.
    async fn poll(&self, report: &watch::Sender<State>) -> Result<(), BackendError> {
        report.send_replace(State::Hears);
        let mut refreshed = Instant::now();
        while !self.rests(report) {
            if refreshed.elapsed() >= REFRESH_EVERY {
                self.refresh(&self.names()).await;
                refreshed = Instant::now();
            }
            if let Err(error) = in_time(self.look(&self.names())).await {
                tracing::debug!(%error, "failed to look for releases in postgres");
            }
            let idle = lock(&self.active).elapsed();
            sleep((idle / 16).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        }
        Ok(())
    }

    async fn look(&self, names: &[LockName]) -> Result<(), BackendError> {
        let (pools, locks): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.is_pool());
        if !locks.is_empty() {
            let query = statement(&self.statements.freed).bind(texts(&locks));
            for row in self.execute(&self.upkeep, "look for releases", query).await? {
                self.has_freed(&row);
            }
        }
        self.look_at_pools(&pools).await
    }

    async fn look_at_pools(&self, pools: &[&LockName]) -> Result<(), BackendError> {
        if pools.is_empty() {
            return Ok(());
        }
        let query = statement(&self.statements.freed_of_pools).bind(texts(pools));
        let rows = self.execute(&self.upkeep, "look for releases", query).await?;
        let freed: HashMap<String, i64> = rows.iter().map(decode).collect::<Result<_, _>>()?;
        for &name in pools {
            // A pool that nobody uses has no row.
            self.look_has_seen(name.clone(), freed.get(name.as_str()).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// Says again that this client waits: for all names together, or, if another transaction has a row, for each alone.
    async fn refresh(&self, names: &[LockName]) {
        if in_time(self.watch(names)).await.is_ok() {
            return;
        }
        for name in names {
            if let Err(error) = in_time(self.watch(std::slice::from_ref(name))).await {
                tracing::debug!(%error, "failed to refresh a subscription in postgres");
                if error.kind() == BackendErrorKind::Timeout {
                    break;
                }
            }
        }
    }

    /// Says that this client waits for locks. The row of a pool says so already, and its changes notify everybody.
    pub(super) async fn watch(&self, names: &[LockName]) -> Result<(), BackendError> {
        let begun = Instant::now();
        let (pools, names): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.is_pool());
        if self.place.has_pooler {
            self.look_at_pools(&pools).await?;
        }
        *lock(&self.active) = begun;
        if names.is_empty() {
            return Ok(());
        }
        let millis = i64::try_from(WATCHED_FOR.as_millis()).unwrap_or(i64::MAX);
        let query = statement(&self.statements.watch).bind(texts(&names)).bind(self.id.clone()).bind(millis);
        for row in self.execute(&self.upkeep, "subscribe", query).await? {
            self.has_freed(&row);
        }
        *lock(&self.active) = Instant::now();
        for &name in &names {
            let before = lock(&self.noted).insert(name.clone(), begun);
            // The note had lapsed, so nobody heard of releases meanwhile.
            if before.is_some_and(|before| before.elapsed() >= WATCHED_FOR) {
                self.watchers.released(name);
            }
        }
        Ok(())
    }

    /// Reports a release that was read, if it is looked for.
    fn has_freed(&self, row: &PgRow) {
        let Ok((name, freed)) = <(String, i64)>::from_row(row) else { return };
        let Some(name) = stored_name(&name).filter(|_| self.place.has_pooler) else { return };
        self.look_has_seen(name, freed);
    }

    /// Reports a release unless it was reported before.
    fn look_has_seen(&self, name: LockName, freed: i64) {
        let before = lock(&self.reported).insert(name.clone(), freed);
        // A row that was made again begins at 0.
        if before.is_some_and(|before| before != freed) {
            *lock(&self.active) = Instant::now();
            self.watchers.released(&name);
        }
    }

    /// Notes that a release by this client is reported, if it looks for them.
    pub(super) fn has_reported(&self, name: &LockName, freed: i64) {
        lock(&self.reported).entry(name.clone()).and_modify(|reported| *reported = freed);
    }
}

fn texts(names: &[&LockName]) -> Vec<String> {
    names.iter().map(|name| name.as_str().to_owned()).collect()
}

/// Limits the time of a statement of the listener.
async fn in_reach<T>(statement: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    timeout(ANSWERS_WITHIN, statement).await.map_err(io::Error::from)?
}
