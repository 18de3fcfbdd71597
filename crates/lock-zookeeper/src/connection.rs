//! The connection to an ensemble, and the paths of nodes. The client has one session, and keeps it over its connections.

use crate::{error::failed, place::Place};
use lock_core::{
    __private::lock,
    LockError, LockName,
    backend::{Applied, BackendError, BackendErrorKind, MissedWakes, ProcessId, SubscriptionRegistry},
};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, Connector, CreateMode, CreateOptions, Error, SessionState};

/// The wait of a request for a server that is reached. It is not sent without one.
const CONNECTED_WITHIN: Duration = Duration::from_millis(300);

/// The characters that a node cannot contain, and `%`. A dot at the beginning is escaped as well.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'/').add(b'%');

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) place: Place,
    connector: Connector,
    client: Mutex<Option<Client>>,
    connecting: tokio::sync::Mutex<()>,
    pub(crate) watchers: Arc<SubscriptionRegistry>,
}

impl Connection {
    pub(crate) fn new(place: Place) -> Result<Self, LockError> {
        let connector = Client::connector()
            .with_session_timeout(place.session)
            .with_connection_timeout(place.answers_within())
            .with_fail_eagerly()
            // A lease may last longer than its process.
            .with_detached();
        let connector = match &place.login {
            Some((user, password)) => connector.with_auth("digest", format!("{user}:{password}").as_bytes()),
            None => connector,
        };
        Ok(Self {
            connector: match &place.ca {
                Some(ca) => with_tls(connector, ca)?,
                None => connector,
            },
            place,
            client: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            watchers: Arc::default(),
        })
    }

    /// Returns a client whose session has not ended, and that reaches a server as far as is known.
    pub(crate) async fn client(&self) -> Result<Client, BackendError> {
        let client = match self.current() {
            Some(client) => client,
            None => {
                let _connecting = self.connecting.lock().await;
                match self.current() {
                    Some(client) => client,
                    None => self.connect().await?,
                }
            }
        };
        self.reached(&client).await?;
        Ok(client)
    }

    /// Waits for a short time until the client reaches a server. Without one, a request would be sent with the next connection,
    /// however late.
    pub(crate) async fn reached(&self, client: &Client) -> Result<(), BackendError> {
        let mut states = client.state_watcher();
        let mut state = client.state();
        let reached = timeout(CONNECTED_WITHIN, async {
            while state == SessionState::Disconnected {
                state = states.changed().await;
            }
        });
        reached.await.map_err(|_| self.unreached(None))
    }

    fn current(&self) -> Option<Client> {
        lock(&self.client).clone().filter(|client| !client.state().is_terminated())
    }

    async fn connect(&self) -> Result<Client, BackendError> {
        let place = &self.place;
        let connected = self.connector.clone().connect(&place.servers).await;
        let client = connected.map_err(|error| match error {
            Error::NoHosts | Error::Timeout | Error::ConnectionLoss => self.unreached(Some(error)),
            error => failed("begin a session", error),
        })?;
        let granted = client.session_timeout();
        if granted < place.session {
            let message = format!(
                "the servers grant a session of at most {} s: write `?session={}s`, or raise `maxSessionTimeout`",
                granted.as_secs(),
                granted.as_secs()
            );
            return Err(BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message));
        }
        self.wake_after_outages(&client);
        *lock(&self.client) = Some(client.clone());
        Ok(client)
    }

    fn unreached(&self, error: Option<Error>) -> BackendError {
        let message = format!("no server of {} answers as a part of a majority", self.place.servers);
        let unreached = BackendError::new(BackendErrorKind::Unavailable, Applied::No, message);
        match error {
            Some(error) => unreached.with_source(error),
            None => unreached,
        }
    }

    /// Wakes all waiters when a server is reached again.
    fn wake_after_outages(&self, client: &Client) {
        let (mut states, watchers) = (client.state_watcher(), self.watchers.clone());
        tokio::spawn(async move {
            loop {
                match states.changed().await {
                    SessionState::Disconnected => {}
                    state => {
                        watchers.wake_all(MissedWakes::Reconnected);
                        if state.is_terminated() {
                            return;
                        }
                    }
                }
            }
        });
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

    /// The ephemeral node that is there while the lock is held. Its data is the depth.
    pub(crate) fn owner(&self, name: &LockName) -> String {
        format!("{}/owner", self.lock(name))
    }
}

#[cfg(feature = "tls-aws-lc-rs")]
fn with_tls(connector: Connector, ca: &Path) -> Result<Connector, LockError> {
    // The client takes the default provider of the process, and panics if it has none and two are built in.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let pem = std::fs::read_to_string(ca)
        .map_err(|error| LockError::invalid_url(format!("the file of `ca` cannot be read: {error}")))?;
    let tls = zookeeper_client::TlsOptions::new().with_pem_ca(&pem);
    let tls = tls.map_err(|_| LockError::invalid_url("the file of `ca` is no certificate in PEM"))?;
    Ok(connector.with_tls(tls))
}

#[cfg(not(feature = "tls-aws-lc-rs"))]
fn with_tls(_: Connector, _: &Path) -> Result<Connector, LockError> {
    Err(LockError::invalid_url("TLS is not built in: enable the feature `tls-aws-lc-rs`"))
}

/// Returns the name of the lock of a node.
pub(crate) fn name_of(node: &str) -> Option<String> {
    percent_decode_str(node).decode_utf8().ok().map(Into::into)
}
