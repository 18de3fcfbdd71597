//! The ends of leases. A session lasts as long as its process, so the process itself deletes the lock of a lease that was
//! neither renewed nor released in time, and what an acquire of unknown outcome may have left.

use lock_core::{__private::lock, LockName, backend::LeaseId};
use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// The leases that are ended at a time.
const AT_ONCE: usize = 100;

type Key = (LockName, LeaseId);

#[derive(Debug, Default)]
pub(crate) struct Ends {
    leases: Mutex<HashMap<Key, End>>,
    /// A lease may end earlier than the others.
    changed: Notify,
}

/// The end of a lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    at: Instant,
    /// The revision of the grant; `None` if it is not known whether the lease was granted.
    pub(crate) revision: Option<i64>,
    /// The session that has the lock.
    session: i64,
    /// The attempts that were sent, and of them those under way, and those whose outcome stayed unknown.
    attempts: u64,
    open: u32,
    lost: u64,
    /// The lost ones of which nothing is left, since a later attempt was answered.
    settled: u64,
}

/// An attempt to acquire a lease that is sent. Dropped before it is settled, its outcome is unknown.
pub(crate) struct Attempt<'e> {
    ends: &'e Ends,
    key: Key,
    /// The lost attempts that the marker of this one refuses.
    lost_before: u64,
    is_settled: bool,
}

impl Ends {
    /// Returns the number of lost attempts so far, and whether one of them, or one under way that was given up, may still be
    /// executed.
    pub(crate) fn lost(&self, name: &LockName, lease: LeaseId) -> (u64, bool) {
        let end = lock(&self.leases).get(&(name.clone(), lease)).copied();
        end.map_or((0, false), |end| (end.lost, end.lost > end.settled || end.open > 0))
    }

    /// Notes an attempt that is sent now.
    pub(crate) fn begin(
        &self,
        name: &LockName,
        lease: LeaseId,
        lasts: Duration,
        lost_before: u64,
    ) -> Attempt<'_> {
        let (at, key) = (Instant::now() + lasts, (name.clone(), lease));
        let mut leases = lock(&self.leases);
        let new = End { at, revision: None, session: 0, attempts: 0, open: 0, lost: 0, settled: 0 };
        let end = leases.entry(key.clone()).or_insert(new);
        end.attempts += 1;
        end.open += 1;
        if end.revision.is_none() {
            end.at = end.at.max(at);
        }
        Attempt { ends: self, key, lost_before, is_settled: false }
    }

    /// Notes a renewal.
    pub(crate) fn renewed(&self, name: &LockName, lease: LeaseId, lasts: Duration) {
        let at = Instant::now() + lasts;
        if let Some(end) = lock(&self.leases).get_mut(&(name.clone(), lease)) {
            end.at = end.at.max(at);
        }
    }

    fn granted(&self, name: &LockName, lease: LeaseId) -> Option<Instant> {
        let end = lock(&self.leases).get(&(name.clone(), lease)).copied()?;
        end.revision.map(|_| end.at)
    }

    /// Returns `true` if the lease was granted by this store and has not ended.
    pub(crate) fn lasts(&self, name: &LockName, lease: LeaseId) -> bool {
        self.granted(name, lease).is_some_and(|at| at > Instant::now())
    }

    /// Returns `true` if the lease was granted by this store and has ended.
    pub(crate) fn has_ended(&self, name: &LockName, lease: LeaseId) -> bool {
        self.granted(name, lease).is_some_and(|at| at <= Instant::now())
    }

    /// Returns the time left of a lease that was granted by this store.
    pub(crate) fn remaining(&self, name: &LockName, lease: LeaseId) -> Option<Duration> {
        self.granted(name, lease).map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Returns the leases that were granted by this store, and whose locks another session has, with that session.
    pub(crate) fn held_outside(&self, session: i64) -> Vec<(LockName, LeaseId, i64)> {
        let leases = lock(&self.leases);
        let outside = leases.iter().filter(|(_, end)| end.revision.is_some() && end.session != session);
        outside.map(|((name, lease), end)| (name.clone(), *lease, end.session)).collect()
    }

    /// Notes that the lock of a lease was moved to a session, or found gone there.
    pub(crate) fn moved(&self, name: &LockName, lease: LeaseId, revision: Option<i64>, session: i64) {
        if let Some(end) = lock(&self.leases).get_mut(&(name.clone(), lease))
            && end.revision.is_some()
        {
            (end.revision, end.session) = (revision.or(end.revision), session);
        }
    }

    /// Notes that nothing of a lease is in the store.
    pub(crate) fn released(&self, name: &LockName, lease: LeaseId) {
        self.change(&(name.clone(), lease), |end| {
            end.revision = None;
            end.settled = end.lost;
        });
    }

    /// Notes that a lease was ended as it was seen, unless there were attempts since.
    pub(crate) fn ended(&self, name: &LockName, lease: LeaseId, seen: End) {
        self.change(&(name.clone(), lease), |end| {
            if end.attempts == seen.attempts && end.revision == seen.revision {
                end.revision = None;
                end.settled = end.lost;
            }
        });
    }

    /// Returns `true` if there were no attempts since the end was seen, and the lease was not renewed.
    pub(crate) fn is_still(&self, name: &LockName, lease: LeaseId, seen: End) -> bool {
        let now = lock(&self.leases).get(&(name.clone(), lease)).copied();
        now.is_some_and(|end| end.attempts == seen.attempts && end.at <= Instant::now())
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.leases).is_empty()
    }

    /// Changes an entry, and removes it if nothing can be left of its lease.
    fn change(&self, key: &Key, change: impl FnOnce(&mut End)) {
        let mut leases = lock(&self.leases);
        let Some(end) = leases.get_mut(key) else { return };
        change(end);
        if end.open == 0 && end.revision.is_none() && end.lost == end.settled {
            leases.remove(key);
        }
    }

    /// Waits for leases that have ended, without an attempt under way, and returns some of them.
    pub(crate) async fn next(&self) -> Vec<(LockName, LeaseId, End)> {
        loop {
            let changed = self.changed.notified();
            let (ended, first) = {
                let (leases, now) = (lock(&self.leases), Instant::now());
                let quiet = || leases.iter().filter(|(_, end)| end.open == 0);
                let ended: Vec<_> = quiet()
                    .filter(|(_, end)| end.at <= now)
                    .take(AT_ONCE)
                    .map(|((name, lease), end)| (name.clone(), *lease, *end))
                    .collect();
                (ended, quiet().map(|(_, end)| end.at).min())
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

impl Attempt<'_> {
    /// The attempt was not executed, and neither is any lost one before it.
    pub(crate) fn refused(self) {
        self.settle(|_| {});
    }

    /// The attempt was granted.
    pub(crate) fn granted(self, revision: i64, session: i64, lasts: Duration) {
        let at = Instant::now() + lasts;
        self.settle(|end| {
            let before = end.revision.map_or(at, |_| end.at);
            (end.at, end.revision, end.session) = (before.max(at), Some(revision), session);
        });
    }

    fn settle(mut self, change: impl FnOnce(&mut End)) {
        self.is_settled = true;
        self.ends.change(&self.key, |end| {
            end.settled = end.settled.max(self.lost_before);
            change(end);
        });
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.ends.change(&self.key, |end| {
            end.open -= 1;
            end.lost += u64::from(!self.is_settled);
        });
        self.ends.changed.notify_one();
    }
}
