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
    /// The attempts under way, and of them those that were sent.
    open: u32,
    sent: u32,
    /// The attempts so far, and of them those whose outcome stayed unknown.
    attempts: u64,
    lost: u64,
    /// The lost ones of which nothing is left, since a later attempt was answered.
    settled: u64,
}

/// An attempt to acquire a lease. Dropped after it was sent and before it is settled, its outcome is unknown.
pub(crate) struct Attempt<'e> {
    ends: &'e Ends,
    key: Key,
    /// The lost attempts before this one.
    lost_before: u64,
    pub(crate) follows_a_lost_one: bool,
    is_sent: bool,
}

impl Ends {
    /// Notes an attempt.
    pub(crate) fn begin(&self, name: &LockName, lease: LeaseId, lasts: Duration) -> Attempt<'_> {
        let (at, key) = (Instant::now() + lasts, (name.clone(), lease));
        let mut leases = lock(&self.leases);
        let new = End { at, revision: None, open: 0, sent: 0, attempts: 0, lost: 0, settled: 0 };
        let end = leases.entry(key.clone()).or_insert(new);
        end.open += 1;
        end.attempts += 1;
        if end.revision.is_none() {
            end.at = end.at.max(at);
        }
        // One that is still under way was given up, or this one would not be sent.
        let follows_a_lost_one = end.lost > end.settled || end.sent > 0;
        Attempt { ends: self, key, lost_before: end.lost, follows_a_lost_one, is_sent: false }
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

    /// Returns the leases that were granted by this store.
    pub(crate) fn held(&self) -> Vec<Key> {
        lock(&self.leases)
            .iter()
            .filter(|(_, end)| end.revision.is_some())
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Notes that the lock of a lease was written again.
    pub(crate) fn moved(&self, name: &LockName, lease: LeaseId, revision: i64) {
        if let Some(end) = lock(&self.leases).get_mut(&(name.clone(), lease)) {
            end.revision = end.revision.map(|_| revision);
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
    /// From here on, the attempt may be executed.
    pub(crate) fn sent(&mut self) {
        self.is_sent = true;
        self.ends.change(&self.key, |end| end.sent += 1);
    }

    /// The attempt was not executed, and neither is any lost one before it.
    pub(crate) fn refused(mut self) {
        self.settle(|_| {});
    }

    /// The attempt was granted.
    pub(crate) fn granted(mut self, revision: i64, lasts: Duration) {
        let at = Instant::now() + lasts;
        self.settle(|end| {
            let before = end.revision.map_or(at, |_| end.at);
            (end.at, end.revision) = (before.max(at), Some(revision));
        });
    }

    fn settle(&mut self, change: impl FnOnce(&mut End)) {
        self.is_sent = false;
        let lost_before = self.lost_before;
        self.ends.change(&self.key, |end| {
            end.sent -= 1;
            end.settled = end.settled.max(lost_before);
            change(end);
        });
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let is_lost = u32::from(self.is_sent);
        self.ends.change(&self.key, |end| {
            end.open -= 1;
            end.sent -= is_lost;
            end.lost += u64::from(is_lost);
        });
        self.ends.changed.notify_one();
    }
}
