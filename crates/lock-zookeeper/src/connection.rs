//! The connection to an ensemble, and the paths of nodes.
//!
//! Each connection has a client, and a thread, of its own; the session continues from one to the next. The client would connect
//! again by itself, but with pauses that grow to the length of the outage, and without end or pause if there is no route to a
//! server. So it is ended with its thread as soon as its connection is lost, which does not close the session.

use crate::{dial::Dial, error::failed, place::Place};
use lock_core::{
    __private::lock,
    LockError, LockName, Worker,
    backend::{
        Applied, BackendError, BackendErrorKind, LeaseId, MissedWakes, ProcessId, SubscriptionRegistry,
    },
};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, SessionInfo, SessionState};

/// The wait of a request for a server that is reached. It is not sent without one.
const CONNECTED_WITHIN: Duration = Duration::from_millis(300);

/// The pause before the next attempt to connect.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// The time limit for the end of a session.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The characters that a node cannot contain, and `%`. A dot at the beginning is escaped as well.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'/').add(b'%');

#[derive(Debug, Clone)]
pub(crate) enum Stage {
    /// There is no session, or it has ended.
    Unconnected,
    /// The connection of this session is lost.
    Lost,
    Connected(Client),
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) place: Place,
    dial: Dial,
    stage: watch::Sender<Stage>,
    /// The thread of the client that is connected.
    thread: Mutex<Option<Worker>>,
    /// The time of the last attempt to begin a session, if it has failed.
    connecting: tokio::sync::Mutex<Option<Instant>>,
    pub(crate) watchers: Arc<SubscriptionRegistry>,
}

impl Connection {
    pub(crate) fn new(place: Place) -> Result<Self, LockError> {
        Ok(Self {
            dial: Dial::new(&place)?,
            place,
            stage: watch::Sender::new(Stage::Unconnected),
            thread: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            watchers: Arc::default(),
        })
    }

    /// Tells when the client is another one, or none.
    pub(crate) fn stages(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// Returns the client, which reaches a server as far as is known. Without a session, begins one.
    pub(crate) async fn client(&self) -> Result<Client, BackendError> {
        let mut stages = self.stages();
        let reached = timeout(CONNECTED_WITHIN, stages.wait_for(|stage| !matches!(stage, Stage::Lost)));
        let stage = match reached.await {
            Ok(Ok(stage)) => stage.clone(),
            _ => return Err(self.unreached("")),
        };
        if let Stage::Connected(client) = stage {
            return Ok(client);
        }
        let mut failed = self.connecting.lock().await;
        let stage = self.stage.borrow().clone();
        match stage {
            Stage::Connected(client) => Ok(client),
            Stage::Lost => Err(self.unreached("")),
            Stage::Unconnected => {
                // Many may ask at the same time.
                if failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER) {
                    return Err(self.unreached(""));
                }
                let begun = self.connect(None).await;
                *failed = begun.is_err().then(Instant::now);
                let begun = begun?;
                begun.ok_or_else(|| self.unreached(""))
            }
        }
    }

    /// Connects, with a new session or this one. Returns `None` if it has ended.
    async fn connect(&self, session: Option<SessionInfo>) -> Result<Option<Client>, BackendError> {
        let thread = Worker::thread().map_err(|error| {
            let message = "failed to start the thread of a connection to ZooKeeper";
            BackendError::new(BackendErrorKind::Unavailable, Applied::No, message).with_source(error)
        })?;
        let (dial, is_new) = (self.dial.clone(), session.is_none());
        let connected = thread.run(async move { dial.connect(session).await }).await;
        let connected = connected.unwrap_or(Err(Error::ConnectionLoss));
        let client = match connected {
            Ok(client) => client,
            Err(Error::SessionExpired) => return Ok(None),
            Err(error @ (Error::NoHosts | Error::Timeout | Error::ConnectionLoss)) => {
                let reason = if is_new { self.dial.reason().await } else { String::new() };
                return Err(self.unreached(&reason).with_source(error));
            }
            Err(error) => return Err(failed("begin a session", error)),
        };
        let granted = client.session_timeout();
        if granted < self.place.session {
            // One that continues has locks, and other servers may grant it.
            if is_new {
                self.close(client.session().clone()).await;
            }
            let message = format!(
                "a server grants a session of at most {} s: write `?session={}s`, or raise `maxSessionTimeout` on all servers",
                granted.as_secs(),
                granted.as_secs()
            );
            return Err(BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message));
        }
        if granted > self.place.session && is_new {
            tracing::warn!(
                seconds = granted.as_secs(),
                "the servers of ZooKeeper have made the session longer (`minSessionTimeout`): the locks of a process that \
                 died are free after that time"
            );
        }
        *lock(&self.thread) = Some(thread);
        self.stage.send_replace(Stage::Connected(client.clone()));
        Ok(Some(client))
    }

    /// Connects again with the same session when a connection is lost, until the store ends. Then ends the session, unless a
    /// lease has to last longer.
    pub(crate) async fn keep(&self, store_ends: impl Future, has_leases: impl Fn() -> bool) {
        let mut stages = self.stages();
        let keeping = async {
            loop {
                let connected = stages.wait_for(|stage| matches!(stage, Stage::Connected(_))).await;
                let Ok(Stage::Connected(client)) = connected.map(|stage| stage.clone()) else { return };
                self.outlive(client).await;
            }
        };
        tokio::select! {
            () = keeping => {}
            _ = store_ends => {}
        }
        let last = self.stage.send_replace(Stage::Unconnected);
        drop(lock(&self.thread).take());
        if let Stage::Connected(client) = last
            && !has_leases()
        {
            self.close(client.session().clone()).await;
        }
    }

    async fn close(&self, session: SessionInfo) {
        let dial = self.dial.clone();
        if let Ok(thread) = Worker::thread() {
            drop(timeout(ENDS_WITHIN, thread.run(async move { dial.close(session).await })).await);
        }
    }

    /// Waits until a client has lost its connection, and connects again until the session has ended.
    async fn outlive(&self, client: Client) {
        let begun = Instant::now();
        let mut states = client.state_watcher();
        let mut state = client.state();
        while state == SessionState::SyncConnected {
            state = states.changed().await;
        }
        let session = client.session().clone();
        // In this order: nobody uses a client whose thread has ended.
        self.stage.send_replace(match state.is_terminated() {
            true => Stage::Unconnected,
            false => Stage::Lost,
        });
        drop(lock(&self.thread).take());
        tracing::warn!("the connection to ZooKeeper is lost, connecting again");
        let lost = Instant::now();
        if begun.elapsed() < RETRY_AFTER {
            sleep(RETRY_AFTER).await;
        }
        while matches!(*self.stage.borrow(), Stage::Lost) {
            match self.connect(Some(session.clone())).await {
                Ok(Some(_)) => {}
                Ok(None) => drop(self.stage.send_replace(Stage::Unconnected)),
                // All servers grant less than before. Nothing is held any more.
                Err(error)
                    if error.kind() == BackendErrorKind::Misconfigured
                        && lost.elapsed() > self.place.session =>
                {
                    self.close(session.clone()).await;
                    self.stage.send_replace(Stage::Unconnected);
                }
                Err(error) => {
                    match error.kind() {
                        BackendErrorKind::Unavailable => tracing::debug!(%error, "failed to connect again"),
                        _ => tracing::warn!(%error, "failed to connect again"),
                    }
                    sleep(RETRY_AFTER).await;
                }
            }
        }
        self.watchers.wake_all(MissedWakes::Reconnected);
    }

    fn unreached(&self, reason: &str) -> BackendError {
        let message = format!("no server of {} answers as ZooKeeper{reason}", self.place.servers.join(","));
        BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
    }

    /// Returns how nodes are created: only this login may read and change them.
    pub(crate) fn options(&self, mode: CreateMode) -> CreateOptions<'static> {
        mode.with_acls(match self.place.login {
            Some(_) => Acls::creator_all(),
            None => Acls::anyone_all(),
        })
    }

    pub(crate) fn folder(&self, kind: &str) -> String {
        format!("{}/{kind}", self.place.root)
    }

    pub(crate) fn marker(&self, session: i64) -> String {
        format!("{}/session/{session:x}", self.place.root)
    }

    pub(crate) fn card(&self, process: ProcessId) -> String {
        format!("{}/card/{process}", self.place.root)
    }

    /// The node of a lock. Its data is the lease of the last grant, and its version counts the grants.
    pub(crate) fn lock(&self, name: &LockName) -> String {
        let name = utf8_percent_encode(name.as_str(), ESCAPED).to_string();
        match name.strip_prefix('.') {
            Some(rest) => format!("{}/lock/%2E{rest}", self.place.root),
            None => format!("{}/lock/{name}", self.place.root),
        }
    }

    /// The ephemeral node that each grant has beside the [owner](Self::owner). While it is there, the node of the lock is not
    /// deleted, so its version does not come back.
    pub(crate) fn grant(&self, name: &LockName, lease: LeaseId) -> String {
        format!("{}/{lease}", self.lock(name))
    }

    /// The ephemeral node that is there while the lock is held. Its data is the depth.
    pub(crate) fn owner(&self, name: &LockName) -> String {
        format!("{}/owner", self.lock(name))
    }
}

/// Returns the name of the lock of a node.
pub(crate) fn name_of(node: &str) -> Option<String> {
    percent_decode_str(node).decode_utf8().ok().map(Into::into)
}
