//! The renewal of the session, and its replacement after a change of the leader.

use crate::{
    client::Named as _,
    server::Server,
    session::Session,
    wire::{Target, get, is, put},
};
use futures_util::future::join_all;
use lock_core::{
    LockName,
    backend::{BackendError, LeaseId},
};
use std::time::Duration;

/// The locks that are moved at a time.
const AT_ONCE: usize = 100;

/// The time limit for the end of a session.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

impl Server {
    /// Renews the session until the store ends. Then ends it, unless a lease has to last longer.
    pub(crate) async fn keep(&self, store_ends: impl Future) {
        let length = self.sessions.length();
        let keeping = async {
            loop {
                tokio::time::sleep(length / 3).await;
                let Some(session) = self.sessions.now() else { continue };
                let renewing = async {
                    match self.sessions.renew(&session).await? {
                        Some(term) => self.follow(&session, term).await.map(drop),
                        None => Ok(()),
                    }
                };
                if let Ok(Err(error)) = tokio::time::timeout(length / 3, renewing).await {
                    tracing::debug!(%error, "failed to renew the session in etcd");
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
            drop(tokio::time::timeout(ENDS_WITHIN, self.sessions.revoke(session.id)).await);
        }
    }

    /// Returns `true` if the session began in this term. Otherwise moves its locks to a new one: a leader of an earlier term
    /// that hung, and comes back, may end the old one (etcd issues 15247, 12528), but it does not know the new one.
    pub(crate) async fn follow(&self, session: &Session, term: u64) -> Result<bool, BackendError> {
        if session.term == term {
            return Ok(true);
        }
        tracing::info!("etcd has a new leader: the locks are moved to a new session");
        let Some(new) = self.sessions.replace(session).await? else { return Ok(false) };
        let held = self.ends.held();
        for held in held.chunks(AT_ONCE) {
            let moves =
                held.iter().map(|(name, lease)| self.move_lock(name, *lease, session.id, &new.session));
            join_all(moves).await.into_iter().collect::<Result<(), BackendError>>()?;
        }
        drop(new);
        // Nothing is left in it.
        drop(tokio::time::timeout(ENDS_WITHIN, self.sessions.revoke(session.id)).await);
        Ok(false)
    }

    /// Moves a lock from another session, unless it is gone.
    pub(crate) async fn move_lock(
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
        if !moved.succeeded {
            return Ok(());
        }
        self.ends.moved(name, lease, moved.revision());
        if let Some(depth) = moved.kv(1) {
            let same = vec![is(&keys.depth, Target::Changed(depth.mod_revision))];
            let moved = vec![put(&keys.depth, depth.value.clone(), new.id)];
            self.sessions.transact(same, moved, vec![]).await.named("move the depth of a lock")?;
        }
        Ok(())
    }
}
