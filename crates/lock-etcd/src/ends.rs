//! The ends of leases. A session lasts as long as its process, so the process itself deletes the lock of a lease that was
//! neither renewed nor released in time.

use lock_core::{__private::lock, LockName, backend::LeaseId};
use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Ends {
    leases: Mutex<HashMap<(LockName, LeaseId), End>>,
    /// A lease may end earlier than the others.
    changed: Notify,
}

/// The end of a lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    at: Instant,
    /// The revision of the grant; `None` if it is not known whether the lease was granted.
    pub(crate) revision: Option<i64>,
}

impl Ends {
    /// Notes that a lease may be granted from now on.
    pub(crate) fn begun(&self, name: &LockName, lease: LeaseId, lasts: Duration) {
        let at = Instant::now() + lasts;
        lock(&self.leases).entry((name.clone(), lease)).or_insert(End { at, revision: None });
        self.changed.notify_one();
    }

    /// Notes a grant.
    pub(crate) fn granted(&self, name: &LockName, lease: LeaseId, revision: i64, lasts: Duration) {
        let at = Instant::now() + lasts;
        let mut leases = lock(&self.leases);
        let end = leases.entry((name.clone(), lease)).or_insert(End { at, revision: None });
        let before = end.revision.map_or(at, |_| end.at);
        *end = End { at: before.max(at), revision: Some(revision) };
        self.changed.notify_one();
    }

    /// Notes a renewal.
    pub(crate) fn renewed(&self, name: &LockName, lease: LeaseId, lasts: Duration) {
        let at = Instant::now() + lasts;
        if let Some(end) = lock(&self.leases).get_mut(&(name.clone(), lease)) {
            end.at = end.at.max(at);
        }
    }

    /// Returns `true` if the lease was granted by this store and has not ended.
    pub(crate) fn lasts(&self, name: &LockName, lease: LeaseId) -> bool {
        let is_granted = |end: &End| end.revision.is_some() && end.at > Instant::now();
        lock(&self.leases).get(&(name.clone(), lease)).is_some_and(is_granted)
    }

    /// Returns the time left of a lease that was granted by this store.
    pub(crate) fn remaining(&self, name: &LockName, lease: LeaseId) -> Option<Duration> {
        let end = lock(&self.leases).get(&(name.clone(), lease)).copied()?;
        end.revision.map(|_| end.at.saturating_duration_since(Instant::now()))
    }

    /// Returns `true` if the lease was granted by this store and has ended.
    pub(crate) fn has_ended(&self, name: &LockName, lease: LeaseId) -> bool {
        let has_ended = |end: &End| end.revision.is_some() && end.at <= Instant::now();
        lock(&self.leases).get(&(name.clone(), lease)).is_some_and(has_ended)
    }

    /// Forgets a lease that is not in the store.
    pub(crate) fn forget(&self, name: &LockName, lease: LeaseId) {
        lock(&self.leases).remove(&(name.clone(), lease));
    }

    /// Forgets a lease, unless it was granted again.
    pub(crate) fn forget_end(&self, name: &LockName, lease: LeaseId, end: End) {
        let mut leases = lock(&self.leases);
        let key = (name.clone(), lease);
        if leases.get(&key).is_some_and(|now| now.revision == end.revision) {
            leases.remove(&key);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.leases).is_empty()
    }

    /// Waits for leases that have ended, and returns them.
    pub(crate) async fn next(&self) -> Vec<(LockName, LeaseId, End)> {
        loop {
            let changed = self.changed.notified();
            let (ended, first) = {
                let (leases, now) = (lock(&self.leases), Instant::now());
                let ended: Vec<_> = leases
                    .iter()
                    .filter(|(_, end)| end.at <= now)
                    .map(|((name, lease), end)| (name.clone(), *lease, *end))
                    .collect();
                (ended, leases.values().map(|end| end.at).min())
            };
            if !ended.is_empty() {
                return ended;
            }
            match first {
                Some(first) => tokio::select! {
                    () = tokio::time::sleep_until(first.into()) => {}
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }
}
