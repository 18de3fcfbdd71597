//! The renewal of the session, and its replacement after a change of the leader.
//!
//! A leader of an earlier term that hung, and comes back, may end sessions that began under it, although a later leader has
//! renewed them (etcd issues 15247, 12528). It does not know one that began after its term.

use crate::{
    client::Named as _,
    leases::Grant,
    server::{Server, Session},
    wire::{Target, get, is, put},
};
use futures_util::future::try_join_all;
use lock_core::backend::BackendError;
use lock_session::{OwnLock, SessionLocks, lost_meanwhile};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The locks that are moved at a time.
const AT_ONCE: usize = 100;

/// The time limit for the end of a session.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The pause before the next attempt to renew the session, or to move locks.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Renews the session until the store ends. Then ends it, unless a lease has to last longer.
pub(crate) async fn keep(locks: &SessionLocks<Server>, store_ends: impl Future) {
    let server = locks.store();
    // Between two renewals, a lease of up to 3/4 of the session needs none of its own.
    let (often, third) = (server.place.session / 8, server.place.session / 3);
    let keeping = async {
        loop {
            tokio::select! {
                () = sleep(often) => {}
                () = server.follows.notified() => {}
            }
            while let Err(error) =
                timeout(third, keep_once(locks)).await.unwrap_or_else(|_| Err(lost_meanwhile("etcd")))
            {
                tracing::debug!(%error, "failed to renew the session in etcd, or to move the locks to a new one");
                sleep(RETRY_AFTER).await;
            }
        }
    };
    tokio::select! {
        () = keeping => {}
        _ = store_ends => {}
    }
    if let Some(session) = locks.sessions().now()
        && locks.ends().is_empty()
    {
        drop(timeout(ENDS_WITHIN, server.end_session(session.id)).await);
    }
}

/// Renews the session. If its leader has changed, begins a new one, and moves the locks to it. May be dropped and repeated:
/// the next call moves those that are left.
async fn keep_once(locks: &SessionLocks<Server>) -> Result<(), BackendError> {
    let (server, sessions) = (locks.store(), locks.sessions());
    let Some(session) = sessions.now() else { return Ok(()) };
    match server.renew_session(session.id).await? {
        None => sessions.ended(session.id),
        Some(term) if session.detail != term => sessions.replace(session.id).await?,
        Some(_) => {}
    }
    let Some(session) = sessions.now() else { return Ok(()) };
    let mut outside = locks.ends().held();
    outside.retain(|lock| lock.grant.session != session.id);
    for outside in outside.chunks(AT_ONCE) {
        let moves = outside.iter().map(async |lock| {
            let grant = server.move_lock(lock, &session).await?;
            locks.ends().changed(&lock.name, lock.lease, grant);
            Ok(())
        });
        try_join_all(moves).await?;
    }
    server.end_replaced().await
}

impl Server {
    /// Returns `true` if the session began in this term. Otherwise a new one takes its place soon.
    pub(crate) fn began_in(&self, session: &Session, term: u64) -> bool {
        if session.detail != term {
            self.follows.notify_one();
        }
        session.detail == term
    }

    /// Moves a lock and its depth from another session, unless it is gone.
    async fn move_lock(&self, lock: &OwnLock<Grant>, new: &Session) -> Result<Grant, BackendError> {
        let (keys, own) = (self.keys(&lock.name), lock.lease.to_string().into_bytes());
        loop {
            let reads = vec![get(&keys.lock), get(&keys.depth)];
            let read = self.transact(vec![], reads, vec![]).await.named("move a lock")?;
            let there = match read.kv(0) {
                Some(kv) if kv.value == own && kv.lease != new.id => kv,
                Some(kv) if kv.value == own => {
                    return Ok(Grant { revision: kv.mod_revision, session: new.id });
                }
                _ => return Ok(Grant { session: new.id, ..lock.grant }),
            };
            let depth = read.kv(1);
            let same = vec![
                is(&keys.lock, Target::Changed(there.mod_revision)),
                is(&keys.depth, Target::Changed(depth.map_or(0, |kv| kv.mod_revision))),
            ];
            let mut moved = vec![put(&keys.lock, own.clone(), new.id)];
            moved.extend(depth.map(|kv| put(&keys.depth, kv.value.clone(), new.id)));
            let moved = self.transact(same, moved, vec![]).await.named("move a lock")?;
            if moved.succeeded {
                return Ok(Grant { revision: moved.revision(), session: new.id });
            }
        }
    }
}
