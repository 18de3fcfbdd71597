//! The session of a store: a lease of etcd, which deletes everything of a process that has died, and a marker, which tells
//! late requests from others.
//!
//! Each acquire is a transaction that compares the revision of the marker. Once the marker is written again, no acquire that
//! was sent before can be executed any more. So an acquire whose outcome is unknown is followed by a new marker before the
//! next acquire, and before the answer to a release that finds nothing.

use crate::{
    client::{Client, Named as _},
    error::{failed, has_no_lease, misunderstood},
    wire::{
        LeaseGrantRequest, LeaseId, LeaseResponse, RequestOp, StatusRequest, StatusResponse, TxnRequest,
        TxnResponse, delete, get, put,
    },
};
use futures_util::stream;
use lock_core::{
    __private::lock,
    backend::{Applied, BackendError, BackendErrorKind},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{RwLock, RwLockReadGuard};
use tonic::Status;

pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";

/// A session that has not ended, as far as is known.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// The lease of etcd.
    pub(crate) id: i64,
    pub(crate) marker_key: Vec<u8>,
    /// The revision of the marker.
    pub(crate) marker: i64,
    /// The raft term in which it began. A leader of an earlier term knows when it would have ended without renewals, and may
    /// end it then although a later leader has renewed it.
    pub(crate) term: u64,
}

/// A session that is ready for an acquire.
pub(crate) struct Ready<'s> {
    pub(crate) session: Session,
    _kept: RwLockReadGuard<'s, ()>,
}

/// The sessions of a store, one after the other.
pub(crate) struct Sessions {
    client: Arc<Client>,
    prefix: String,
    length: Duration,
    now: Mutex<Option<Session>>,
    /// The sessions in whose place others are, until they have ended.
    replaced: Mutex<Vec<i64>>,
    /// Kept for reading by acquires, and for writing while a session is created or its marker is written.
    marker: RwLock<()>,
    /// An acquire has an unknown outcome, and no marker was written since.
    is_in_doubt: AtomicBool,
}

impl Sessions {
    pub(crate) fn new(client: Arc<Client>, prefix: &str, length: Duration) -> Self {
        Self {
            client,
            prefix: prefix.to_owned(),
            length,
            now: Mutex::default(),
            replaced: Mutex::default(),
            marker: RwLock::default(),
            is_in_doubt: AtomicBool::new(false),
        }
    }

    /// Returns the session, if there is one.
    pub(crate) fn now(&self) -> Option<Session> {
        lock(&self.now).clone()
    }

    /// Returns a session whose marker is newer than every acquire with an unknown outcome, and is not written while the
    /// result is kept.
    pub(crate) async fn ready(&self) -> Result<Ready<'_>, BackendError> {
        loop {
            let kept = self.marker.read().await;
            match self.now() {
                Some(session) if !self.is_in_doubt.load(Ordering::Acquire) => {
                    return Ok(Ready { session, _kept: kept });
                }
                _ => drop(kept),
            }
            let writing = self.marker.write().await;
            match self.now() {
                Some(session) if self.is_in_doubt.swap(false, Ordering::AcqRel) => {
                    self.mark(&session).await?
                }
                Some(_) => {}
                None => self.begin().await?,
            }
            drop(writing);
        }
    }

    /// Begins a new session in place of another one, unless that was done already. The old one keeps its locks until it is
    /// [revoked](Self::revoke_replaced), or ends for want of renewals.
    pub(crate) async fn replace(&self, old: &Session) -> Result<(), BackendError> {
        let _writing = self.marker.write().await;
        if self.now().is_some_and(|session| session.id == old.id) {
            tracing::info!("etcd has a new leader: the locks are moved to a new session");
            self.begin().await?;
            lock(&self.replaced).push(old.id);
        }
        Ok(())
    }

    /// Ends the sessions that were replaced, whose locks have moved.
    pub(crate) async fn revoke_replaced(&self) -> Result<(), BackendError> {
        let replaced = lock(&self.replaced).clone();
        for id in replaced {
            match self.revoke(id).await {
                Err(status) if !has_no_lease(&status) => return Err(failed("end a session", status)),
                _ => lock(&self.replaced).retain(|&other| other != id),
            }
        }
        Ok(())
    }

    pub(crate) async fn revoke(&self, id: i64) -> Result<LeaseResponse, Status> {
        self.client.call(REVOKE, LeaseId { id }).await
    }

    /// Writes the marker, unless it is newer than this revision of the store.
    pub(crate) async fn mark_after(&self, revision: i64) -> Result<(), BackendError> {
        let _writing = self.marker.write().await;
        match self.now() {
            Some(session) if session.marker <= revision => self.mark(&session).await,
            // The marker of an ended session is gone.
            _ => Ok(()),
        }
    }

    async fn mark(&self, session: &Session) -> Result<(), BackendError> {
        let doubt = Doubt(self);
        let marker = vec![put(&session.marker_key, "", session.id)];
        match self.transact(vec![], marker, vec![]).await {
            Ok(marked) => self.marked(session.id, marked.revision()),
            Err(status) if has_no_lease(&status) => self.ended(session.id),
            Err(status) => return Err(failed("write the marker of the session", status)),
        }
        doubt.settle();
        Ok(())
    }

    async fn begin(&self) -> Result<(), BackendError> {
        let grant = LeaseGrantRequest { ttl: i64::try_from(self.length.as_secs()).unwrap_or(i64::MAX) };
        let granted: LeaseResponse = self.client.call(GRANT, grant).await.named("begin a session")?;
        let id = granted.id;
        let marker_key = format!("{}session/{id:x}", self.prefix).into_bytes();
        let marked = self.transact(vec![], vec![put(&marker_key, "", id)], vec![]).await;
        let marked = marked.named("begin a session")?;
        self.is_in_doubt.store(false, Ordering::Release);
        // The earlier of the two: the leader may change in between.
        let term = granted.header.unwrap_or_default().raft_term.min(marked.term());
        *lock(&self.now) = Some(Session { id, marker_key, marker: marked.revision(), term });
        Ok(())
    }

    /// Renews a session. Returns the term of the leader that the answering server knew, or `None` if the session has ended.
    pub(crate) async fn renew(&self, session: &Session) -> Result<Option<u64>, BackendError> {
        let message = stream::iter([LeaseId { id: session.id }]);
        let renewed = async {
            let mut answers = self.client.stream::<_, LeaseResponse>(KEEP_ALIVE, message).await?;
            // A server that is cut off from its leader accepts the stream and does not answer.
            let turn = self.client.turn();
            let answer = answers.message().await;
            turn.keep();
            answer
        };
        let answer = renewed.await.named("renew the session")?.ok_or_else(misunderstood)?;
        if answer.ttl <= 0 {
            tracing::warn!("the session in etcd has ended: all holds of this store are lost");
            self.ended(session.id);
            return Ok(None);
        }
        Ok(Some(answer.header.unwrap_or_default().raft_term))
    }

    /// An acquire has an unknown outcome.
    pub(crate) fn doubts(&self) {
        self.is_in_doubt.store(true, Ordering::Release);
    }

    /// Begins an acquire. If its outcome stays unknown, the next one writes the marker first.
    pub(crate) fn doubt(&self) -> Doubt<'_> {
        Doubt(self)
    }

    /// Notes the revision of the marker.
    pub(crate) fn marked(&self, id: i64, revision: i64) {
        if let Some(session) = &mut *lock(&self.now)
            && session.id == id
        {
            session.marker = session.marker.max(revision);
        }
    }

    /// Notes that a session has ended.
    pub(crate) fn ended(&self, id: i64) {
        lock(&self.now).take_if(|session| session.id == id);
    }

    /// Executes a transaction.
    pub(crate) async fn transact(
        &self,
        compare: Vec<crate::wire::Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
    ) -> Result<TxnResponse, Status> {
        self.client.call(TXN, TxnRequest { compare, success, failure }).await
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

    /// Writes a key that ends with a session.
    pub(crate) async fn put(&self, key: &[u8], value: String, session: i64) -> Result<(), BackendError> {
        self.transact(vec![], vec![put(key, value, session)], vec![]).await.named("write a key").map(drop)
    }

    pub(crate) async fn delete(&self, key: &[u8]) -> Result<(), BackendError> {
        self.transact(vec![], vec![delete(key)], vec![]).await.named("delete a key").map(drop)
    }

    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        let read = self.transact(vec![], vec![get(key)], vec![]).await.named("read a key")?;
        Ok(read.kv(0).map(|kv| kv.value.clone()))
    }
}

/// An acquire whose outcome is not known yet.
pub(crate) struct Doubt<'s>(&'s Sessions);

impl Doubt<'_> {
    pub(crate) fn settle(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.0.doubts();
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

/// The session ended while the operation was executed.
pub(crate) fn lost_meanwhile() -> BackendError {
    let message = "the session in etcd ended, or its leader changed, while the operation was executed";
    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
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
