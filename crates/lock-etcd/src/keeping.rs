//! The renewal of the session, and its replacement after a change of the leader.
//!
//! A leader of an earlier term that hung, and comes back, may end sessions that began under it, although a later leader has
//! renewed them (etcd issues 15247, 12528). It does not know one that began after its term.

use crate::{
    client::Named as _,
    server::Server,
    session::{Session, lost_meanwhile},
    wire::{Target, get, is, put},
};
use futures_util::future::try_join_all;
use lock_core::{
    LockName,
    backend::{BackendError, LeaseId},
};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The locks that are moved at a time.
const AT_ONCE: usize = 100;

/// The time limit for the end of a session.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The pause before the next attempt to renew the session, or to move locks.
const RETRY_AFTER: Duration = Duration::from_millis(250);

impl Server {
    /// Renews the session until the store ends. Then ends it, unless a lease has to last longer.
    pub(crate) async fn keep(&self, store_ends: impl Future) {
        let third = self.place.session / 3;
        let keeping = async {
            loop {
                tokio::select! {
                    () = sleep(third) => {}
                    () = self.follows.notified() => {}
                }
                while let Err(error) = self.keep_in(third).await {
                    tracing::debug!(%error, "failed to renew the session in etcd, or to move the locks to a new one");
                    sleep(RETRY_AFTER).await;
                }
            }
        };
        tokio::select! {
            () = keeping => {}
            _ = store_ends => {}
        }
        if let Some(session) = self.sessions.now()
            && self.ends.is_empty()
        {
            drop(timeout(ENDS_WITHIN, self.sessions.revoke(session.id)).await);
        }
    }

    async fn keep_in(&self, time: Duration) -> Result<(), BackendError> {
        timeout(time, self.keep_once()).await.unwrap_or_else(|_| Err(lost_meanwhile()))
    }

    /// Renews the session. If its leader has changed, begins a new one, and moves the locks to it. May be dropped and
    /// repeated: the next call moves those that are left.
    async fn keep_once(&self) -> Result<(), BackendError> {
        let Some(session) = self.sessions.now() else { return Ok(()) };
        if let Some(term) = self.sessions.renew(&session).await?
            && !self.began_in(&session, term)
        {
            self.sessions.replace(&session).await?;
        }
        let Some(session) = self.sessions.now() else { return Ok(()) };
        for held in self.ends.held_outside(session.id).chunks(AT_ONCE) {
            let moves = held.iter().map(|(name, lease, old)| self.move_lock(name, *lease, *old, &session));
            try_join_all(moves).await?;
        }
        self.sessions.revoke_replaced().await
    }

    /// Returns `true` if the session began in this term. Otherwise a new one takes its place soon.
    pub(crate) fn began_in(&self, session: &Session, term: u64) -> bool {
        if session.term != term {
            self.follows.notify_one();
        }
        session.term == term
    }

    /// Moves a lock from another session, unless it is gone.
    async fn move_lock(
        &self,
        name: &LockName,
        lease: LeaseId,
        old: i64,
        new: &Session,
    ) -> Result<(), BackendError> {
        let (keys, own) = (self.keys(name), lease.to_string().into_bytes());
        let there = vec![is(&keys.lock, Target::Value(own.clone())), is(&keys.lock, Target::Lease(old))];
        let moved = vec![put(&keys.lock, own, new.id), get(&keys.depth)];
        let moved = self.sessions.transact(there, moved, vec![]).await.named("move a lock")?;
        self.ends.moved(name, lease, moved.succeeded.then(|| moved.revision()), new.id);
        if let Some(depth) = moved.kv(1) {
            let same = vec![is(&keys.depth, Target::Changed(depth.mod_revision))];
            let moved = vec![put(&keys.depth, depth.value.clone(), new.id)];
            self.sessions.transact(same, moved, vec![]).await.named("move the depth of a lock")?;
        }
        Ok(())
    }
}
