//! The store rules for all locks, with a planted bug.

use super::{BuggySlot, PlantedBug};
use lock_core::{
    LockName,
    backend::{
        AcquireRequest, Acquired, ForceReleaseRequest, ForceReleased, Inspected, LeaseId, ReleaseRequest,
        Released, RenewRequest, Renewed, Reply, StoredHold,
    },
    clock::UtcTime,
};
use std::{collections::BTreeMap, time::Duration};

/// The store rules for all locks, optionally with a planted bug. Has no clock and no mutex.
#[derive(Debug, Clone)]
pub struct BuggyStore {
    bug: Option<PlantedBug>,
    pub(super) retention: Option<Duration>,
    slots: BTreeMap<LockName, BuggySlot>,
    answers: u32,
}

impl BuggyStore {
    /// Creates an empty store. `retention` is the time for which token counters are kept; `None`
    /// keeps them forever.
    #[must_use]
    pub fn new(bug: Option<PlantedBug>, retention: Option<Duration>) -> Self {
        Self { bug, retention, slots: BTreeMap::new(), answers: 0 }
    }

    /// Returns whether this bug is planted in the store.
    #[must_use]
    pub fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// Removes all data.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// Returns the holder, the depth and the remaining time.
    #[must_use]
    pub fn held(&self, now: UtcTime, name: &LockName) -> Option<(LeaseId, u32, Duration)> {
        self.slots.get(&self.key(name))?.clone().inspect(now)
    }

    /// Executes an acquire or a re-entry.
    pub fn acquire(&mut self, now: UtcTime, r: &AcquireRequest) -> Reply<Acquired> {
        let retention = self.retention;
        let acquired = self.slot(&r.name).acquire(now, r.lease, r.duration, r.not_after, r.mode, retention);
        self.reply(now, acquired)
    }

    /// Executes a renewal.
    pub fn renew(&mut self, now: UtcTime, item: &RenewRequest) -> Reply<Renewed> {
        let outcome = self.slot(&item.name).renew(now, item.lease, item.duration, item.not_after);
        self.reply(now, outcome)
    }

    /// Executes a release.
    pub fn release(&mut self, now: UtcTime, r: &ReleaseRequest) -> Reply<Released> {
        let lease = self.stored_id(r.lease);
        let outcome = self.slot(&r.name).release(now, lease, r.depth_left);
        self.reply(now, outcome)
    }

    /// Executes an inspection.
    pub fn inspect(&mut self, now: UtcTime, name: &LockName) -> Reply<Inspected> {
        let outcome = self.held(now, name).map_or(Inspected::Free, |(lease, depth, remaining)| {
            Inspected::Held(StoredHold { lease: lease.to_string(), depth, remaining: Some(remaining) })
        });
        self.reply(now, outcome)
    }

    /// Executes a forced release.
    pub fn force_release(&mut self, now: UtcTime, r: &ForceReleaseRequest) -> Reply<ForceReleased> {
        let outcome = self.slot(&r.name).force_release(now, &r.seen);
        self.reply(now, outcome)
    }

    pub(super) fn slot(&mut self, name: &LockName) -> &mut BuggySlot {
        let (key, bug) = (self.key(name), self.bug);
        self.slots.entry(key).or_insert_with(|| BuggySlot::new(bug))
    }

    fn key(&self, name: &LockName) -> LockName {
        let text = name.as_str();
        let key = match self.bug {
            Some(PlantedBug::IgnoresCase) => Some(text.to_lowercase()),
            Some(PlantedBug::CutsNames) => text.split_once('}').map(|(tag, _)| format!("{tag}}}")),
            _ => None,
        };
        key.map_or_else(|| name.clone(), |key| LockName::new(key).expect("part of a name is a name"))
    }

    fn reply<T>(&mut self, now: UtcTime, outcome: T) -> Reply<T> {
        if self.has(PlantedBug::ServerTimeFalls) {
            self.answers += 1;
            return Reply::new(now - Duration::from_millis(5) * self.answers, outcome);
        }
        Reply::new(now, outcome)
    }
}
