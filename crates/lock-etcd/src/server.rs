//! A cluster: its connections, its sessions, and its keys.

use crate::{
    client::{Client, Named as _},
    error::{has_no_lease, misunderstood},
    place::Place,
    wakes::Wakes,
    wire::{
        Compare, LeaseGrantRequest, LeaseId, LeaseResponse, RequestOp, StatusRequest, StatusResponse,
        TxnRequest, TxnResponse, get, put,
    },
};
use futures_util::stream;
use lock_core::{
    __private::lock,
    LockError, LockName,
    backend::{BackendError, ProcessId},
    clock::{BootClock, Clock as _, Moment},
};
use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;
use tonic::Status;

const TXN: &str = "/etcdserverpb.KV/Txn";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";

/// A session is a lease of etcd. Its detail is the raft term in which it began: a leader of an earlier term knows when it would
/// have ended without renewals, and may end it then although a later leader has renewed it.
pub(crate) type Session = lock_session::Session<u64>;

pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) client: Arc<Client>,
    pub(crate) wakes: Wakes,
    /// The session is to follow a new leader.
    pub(crate) follows: Notify,
    /// The sessions in whose place others are, until they have ended.
    pub(crate) replaced: Mutex<Vec<i64>>,
    /// The newest renewal of the session that was answered.
    renewed: Mutex<Option<Renewal>>,
    /// Runs on while the machine is suspended, as the servers' clocks do.
    clock: BootClock,
}

#[derive(Clone, Copy)]
struct Renewal {
    session: i64,
    sent: Moment,
    /// The term of the leader that the answering server knew.
    term: u64,
}

/// The keys of a lock.
pub(crate) struct Keys {
    /// Its value is the lease.
    pub(crate) lock: Vec<u8>,
    /// Its value is the depth, if it was entered again.
    pub(crate) depth: Vec<u8>,
}

impl Server {
    /// Must be called in the runtime of its connections.
    pub(crate) fn new(place: Place) -> Result<Self, LockError> {
        let client = Arc::new(Client::new(&place)?);
        Ok(Self {
            wakes: Wakes::new(client.clone(), &place.prefix),
            client,
            follows: Notify::new(),
            replaced: Mutex::default(),
            renewed: Mutex::default(),
            clock: BootClock::new(),
            place,
        })
    }

    pub(crate) fn keys_of(&self, kind: &str) -> String {
        format!("{}{kind}/", self.place.prefix)
    }

    pub(crate) fn keys(&self, name: &LockName) -> Keys {
        let key = |kind| (self.keys_of(kind) + name.as_str()).into_bytes();
        Keys { lock: key("lock"), depth: key("depth") }
    }

    /// The key whose value is added to all tokens.
    pub(crate) fn offset_key(&self) -> Vec<u8> {
        format!("{}offset", self.place.prefix).into_bytes()
    }

    pub(crate) fn marker_key(&self, session: i64) -> Vec<u8> {
        format!("{}{session:x}", self.keys_of("session")).into_bytes()
    }

    pub(crate) fn card_key(&self, process: ProcessId) -> Vec<u8> {
        format!("{}{process}", self.keys_of("card")).into_bytes()
    }

    /// Executes a transaction.
    pub(crate) async fn transact(
        &self,
        compare: Vec<Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
    ) -> Result<TxnResponse, Status> {
        self.client.call(TXN, TxnRequest { compare, success, failure }).await
    }

    pub(crate) async fn get(&self, key: &[u8]) -> Result<TxnResponse, BackendError> {
        self.transact(vec![], vec![get(key)], vec![]).await.named("read a key")
    }

    pub(crate) async fn begin_session(&self) -> Result<Session, BackendError> {
        let ttl = i64::try_from(self.place.session.as_secs()).unwrap_or(i64::MAX);
        let sent = self.clock.now();
        let granted = self.client.call(GRANT, LeaseGrantRequest { ttl }).await;
        let granted: LeaseResponse = granted.named("begin a session")?;
        let id = granted.id;
        let marked = self.transact(vec![], vec![put(&self.marker_key(id), "", id)], vec![]).await;
        let marked = marked.named("begin a session")?;
        // The earlier of the two: the leader may change in between.
        let term = granted.header.unwrap_or_default().raft_term.min(marked.term());
        *lock(&self.renewed) = Some(Renewal { session: id, sent, term });
        Ok(Session { id, marker: marked.revision(), detail: term })
    }

    /// Renews a session. Returns the term of the leader that the answering server knew, or `None` if the session has ended.
    pub(crate) async fn renew_session(&self, id: i64) -> Result<Option<u64>, BackendError> {
        let sent = self.clock.now();
        let renewed = async {
            let message = stream::iter([LeaseId { id }]);
            let mut answers = self.client.stream::<_, LeaseResponse>(KEEP_ALIVE, message).await?;
            // A server that is cut off from its leader accepts the stream and does not answer.
            let turn = self.client.turn();
            let answer = answers.message().await;
            turn.keep();
            answer
        };
        let answer = renewed.await.named("renew the session")?.ok_or_else(misunderstood)?;
        if answer.ttl <= 0 {
            return Ok(None);
        }
        let term = answer.header.unwrap_or_default().raft_term;
        *lock(&self.renewed) = Some(Renewal { session: id, sent, term });
        Ok(Some(term))
    }

    /// Renews a session, unless it lasts for a time from now on since its newest renewal, if the leader has not changed.
    /// Returns the same as [`renew_session`](Self::renew_session).
    pub(crate) async fn ensure_session(&self, id: i64, lasts: Duration) -> Result<Option<u64>, BackendError> {
        let (renewed, now) = (*lock(&self.renewed), self.clock.now());
        match renewed {
            Some(renewal)
                if renewal.session == id && now.since(renewal.sent) + lasts <= self.place.session =>
            {
                Ok(Some(renewal.term))
            }
            _ => self.renew_session(id).await,
        }
    }

    /// Ends a session, if it has not ended yet.
    pub(crate) async fn end_session(&self, id: i64) -> Result<(), BackendError> {
        match self.client.call::<_, LeaseResponse>(REVOKE, LeaseId { id }).await {
            Err(status) if !has_no_lease(&status) => Err(status).named("end a session"),
            _ => Ok(()),
        }
    }

    /// Ends the sessions that were replaced, whose locks have moved.
    pub(crate) async fn end_replaced(&self) -> Result<(), BackendError> {
        let replaced = lock(&self.replaced).clone();
        for id in replaced {
            self.end_session(id).await?;
            lock(&self.replaced).retain(|&other| other != id);
        }
        Ok(())
    }

    /// Warns of a version whose former leaders end sessions that were renewed.
    pub(crate) async fn check_version(&self) {
        let status = self.client.call::<_, StatusResponse>(STATUS, StatusRequest {}).await;
        if let Ok(StatusResponse { version }) = status
            && is_too_old(&version)
        {
            tracing::warn!(
                version,
                "a leader of this etcd that hangs and comes back may end sessions that its successor has renewed: update \
                 to 3.4.31, 3.5.13 or later"
            );
        }
    }
}

/// Source: etcd issues 15247 and 12528.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    match (number(), number(), number()) {
        (3, 4, patch) => patch < 31,
        (3, 5, patch) => patch < 13,
        (major, minor, _) => (major, minor) < (3, 4),
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("servers", &self.place.servers)
            .field("prefix", &self.place.prefix)
            .field("session", &self.place.session)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared() {
        for (version, old) in [
            ("3.3.9", true),
            ("3.4.23", true),
            ("3.4.31", false),
            ("3.5.12", true),
            ("3.5.13", false),
            ("3.6.0", false),
        ] {
            assert_eq!(is_too_old(version), old, "{version}");
        }
    }
}
