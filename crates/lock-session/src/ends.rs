//! The ends of leases. A session lasts as long as its process, so the process itself deletes the lock of a lease that was
//! neither renewed nor released in time, and what an acquire of unknown outcome may have left.

use crate::store::OwnLock;
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

/// The leases of a process that may be in the store.
#[derive(Debug)]
pub struct Ends<G> {
    leases: Mutex<HashMap<Key, End<G>>>,
    /// A lease may end earlier than the others.
    changed: Notify,
}

/// The end of a lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End<G> {
    at: Instant,
    /// The grant; `None` if it is not known whether the lease was granted.
    pub(crate) grant: Option<G>,
    /// The attempts that were sent, and of them those under way, and those whose outcome stayed unknown.
    attempts: u64,
    open: u32,
    lost: u64,
    /// The lost ones of which nothing is left, since a later attempt was answered.
    settled: u64,
}

/// An attempt to acquire a lease that is sent. Dropped before it is settled, its outcome is unknown.
pub(crate) struct Attempt<'e, G: Copy + PartialEq> {
    ends: &'e Ends<G>,
    key: Key,
    /// The lost attempts that the marker of this one refuses.
    lost_before: u64,
    is_settled: bool,
}

impl<G: Copy + PartialEq> Ends<G> {
    pub(crate) fn new() -> Self {
        Self { leases: Mutex::default(), changed: Notify::new() }
    }

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
    ) -> Attempt<'_, G> {
        let (at, key) = (Instant::now() + lasts, (name.clone(), lease));
        let mut leases = lock(&self.leases);
        let new = End { at, grant: None, attempts: 0, open: 0, lost: 0, settled: 0 };
        let end = leases.entry(key.clone()).or_insert(new);
        end.attempts += 1;
        end.open += 1;
        if end.grant.is_none() {
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

    /// Returns the grant of a lease by this store, and its end.
    fn granted(&self, name: &LockName, lease: LeaseId) -> Option<(G, Instant)> {
        let end = lock(&self.leases).get(&(name.clone(), lease)).copied()?;
        end.grant.map(|grant| (grant, end.at))
    }

    /// Returns the grant of a lease by this store, ended or not.
    pub(crate) fn grant(&self, name: &LockName, lease: LeaseId) -> Option<G> {
        self.granted(name, lease).map(|(grant, _)| grant)
    }

    /// Returns the grant of a lease by this store that has not ended.
    pub(crate) fn lasting(&self, name: &LockName, lease: LeaseId) -> Option<G> {
        self.granted(name, lease).filter(|(_, at)| *at > Instant::now()).map(|(grant, _)| grant)
    }

    /// Returns `true` if the lease was granted by this store and has ended.
    pub(crate) fn has_ended(&self, name: &LockName, lease: LeaseId) -> bool {
        self.granted(name, lease).is_some_and(|(_, at)| at <= Instant::now())
    }

    /// Returns the time left of a lease that was granted by this store.
    pub(crate) fn remaining(&self, name: &LockName, lease: LeaseId) -> Option<Duration> {
        self.granted(name, lease).map(|(_, at)| at.saturating_duration_since(Instant::now()))
    }

    /// Returns the locks that were granted by this store.
    pub fn held(&self) -> Vec<OwnLock<G>> {
        let held = |((name, lease), end): (&Key, &End<G>)| {
            end.grant.map(|grant| OwnLock { name: name.clone(), lease: *lease, grant })
        };
        lock(&self.leases).iter().filter_map(held).collect()
    }

    /// Notes that the grant of a lease has changed.
    pub fn changed(&self, name: &LockName, lease: LeaseId, grant: G) {
        if let Some(end) = lock(&self.leases).get_mut(&(name.clone(), lease)) {
            end.grant = end.grant.map(|_| grant);
        }
    }

    /// Notes that nothing of a lease is in the store.
    pub(crate) fn released(&self, name: &LockName, lease: LeaseId) {
        self.change(&(name.clone(), lease), |end| {
            end.grant = None;
            end.settled = end.lost;
        });
    }

    /// Notes that a lease was ended as it was seen, unless there were attempts since.
    pub(crate) fn ended(&self, name: &LockName, lease: LeaseId, seen: End<G>) {
        self.change(&(name.clone(), lease), |end| {
            if end.attempts == seen.attempts && end.grant == seen.grant {
                end.grant = None;
                end.settled = end.lost;
            }
        });
    }

    /// Returns `true` if there were no attempts since the end was seen, and the lease was not renewed.
    pub(crate) fn is_still(&self, name: &LockName, lease: LeaseId, seen: End<G>) -> bool {
        let now = lock(&self.leases).get(&(name.clone(), lease)).copied();
        now.is_some_and(|end| end.attempts == seen.attempts && end.at <= Instant::now())
    }

    /// Returns `true` if nothing of this process is in the store.
    pub fn is_empty(&self) -> bool {
        lock(&self.leases).is_empty()
    }

    /// Changes an entry, and removes it if nothing can be left of its lease.
    fn change(&self, key: &Key, change: impl FnOnce(&mut End<G>)) {
        let mut leases = lock(&self.leases);
        let Some(end) = leases.get_mut(key) else { return };
        change(end);
        if end.open == 0 && end.grant.is_none() && end.lost == end.settled {
            leases.remove(key);
        }
    }

    /// Waits for leases that have ended, without an attempt under way, and returns some of them.
    pub(crate) async fn next(&self) -> Vec<(LockName, LeaseId, End<G>)> {
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

impl<G: Copy + PartialEq> Attempt<'_, G> {
    /// The attempt was not executed, and neither is any lost one before it.
    pub(crate) fn refused(self) {
        self.settle(|_| {});
    }

    /// The attempt was granted.
    pub(crate) fn granted(self, grant: G, lasts: Duration) {
        let at = Instant::now() + lasts;
        self.settle(|end| {
            let before = end.grant.map_or(at, |_| end.at);
            (end.at, end.grant) = (before.max(at), Some(grant));
        });
    }

    fn settle(mut self, change: impl FnOnce(&mut End<G>)) {
        self.is_settled = true;
        self.ends.change(&self.key, |end| {
            end.settled = end.settled.max(self.lost_before);
            change(end);
        });
    }
}

impl<G: Copy + PartialEq> Drop for Attempt<'_, G> {
    fn drop(&mut self) {
        self.ends.change(&self.key, |end| {
            end.open -= 1;
            end.lost += u64::from(!self.is_settled);
        });
        self.ends.changed.notify_one();
    }
}
