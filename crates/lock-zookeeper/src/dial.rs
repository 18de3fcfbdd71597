//! Connections to the servers of an ensemble, one server after the other.

use crate::place::Place;
use lock_core::{LockError, backend::ProcessId};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use zookeeper_client::{Client, Connector, Error, SessionInfo};

/// The time limit for a connection that is only tried.
const PROBES_WITHIN: Duration = Duration::from_secs(1);

/// The time limit for closing a session.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct Dial {
    connector: Connector,
    servers: Arc<[String]>,
    /// The number of the next server, modulo their number: the one after that which was used last, since that may hang.
    next: Arc<AtomicUsize>,
}

impl Dial {
    pub(crate) fn new(place: &Place) -> Result<Self, LockError> {
        let connector = Client::connector()
            .with_session_timeout(place.session)
            .with_connection_timeout(place.answers_within())
            .with_fail_eagerly();
        let connector = match &place.login {
            Some((user, password)) => connector.with_auth("digest", format!("{user}:{password}").as_bytes()),
            None => connector,
        };
        let connector = match &place.ca {
            Some(ca) => with_tls(connector, ca)?,
            None => connector,
        };
        // Processes begin with different servers.
        let (random, _) = ProcessId::random().as_uuid().as_u64_pair();
        let next = usize::try_from(random % (1 << 16)).unwrap_or(0);
        Ok(Self {
            connector,
            servers: place.servers.as_slice().into(),
            next: Arc::new(AtomicUsize::new(next)),
        })
    }

    /// Connects to the first server that answers, with a new session or this one, which outlives the client. The tasks of the
    /// client run where this does.
    pub(crate) async fn connect(&self, session: Option<SessionInfo>) -> Result<Client, Error> {
        self.connect_with(&self.connector.clone().with_detached(), session).await
    }

    /// Ends a session. A failed attempt leaves it to the servers.
    pub(crate) async fn close(&self, session: SessionInfo) {
        if let Ok(client) = self.connect_with(&self.connector, Some(session)).await {
            let mut states = client.state_watcher();
            // It closes its session when it has no clones.
            drop(client);
            let closed = async { while !states.changed().await.is_terminated() {} };
            drop(timeout(CLOSES_WITHIN, closed).await);
        }
    }

    async fn connect_with(
        &self,
        connector: &Connector,
        session: Option<SessionInfo>,
    ) -> Result<Client, Error> {
        let mut last = Error::NoHosts;
        for _ in 0..self.servers.len() {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let server = &self.servers[next % self.servers.len()];
            let connector = match &session {
                Some(session) => connector.clone().with_session(session.clone()),
                None => connector.clone(),
            };
            match connector.connect(server).await {
                Err(error) if !matches!(error, Error::SessionExpired | Error::AuthFailed) => last = error,
                answered => return answered,
            }
        }
        Err(last)
    }

    /// Says why one of the servers is not connected to, since the client does not.
    pub(crate) async fn reason(&self) -> String {
        let next = self.next.load(Ordering::Relaxed);
        let server = self.servers[next % self.servers.len()].trim_start_matches("tcp+tls://");
        match timeout(PROBES_WITHIN, TcpStream::connect(server)).await {
            Ok(Ok(_)) => format!(": {server} accepts connections, and does not answer, or has no majority"),
            Ok(Err(error)) => format!(": {server}: {error}"),
            Err(_) => format!(": {server} does not answer"),
        }
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
