//! The store: the store rules of `lock-core` behind a clock of its own, with subscriptions, snapshots and planted bugs.

use crate::{clock::StoreClock, plant::Plant};
use lock_core::{
    FencingToken, LeaseId, LockName, ServerTime,
    backend::{
        AcquireRequest, Acquired, ForceRelease, Forced, Inspected, Publish, ReleaseRequest, Released,
        RenewItem, Renewed, Reply, StoredHold,
    },
    model::Slot,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What it loses in a crash, or keeps.
pub(crate) type Shelf = BTreeMap<LockName, Slot>;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: StoreClock,
    pub(crate) shelf: Shelf,
    pub(crate) snapshot: Shelf,
    /// Who watches what, by link.
    pub(crate) watchers: BTreeSet<(LockName, usize)>,
    /// Executes nothing before.
    pub(crate) paused_until: u64,
    /// Answers nothing before, and has lost its connections.
    pub(crate) down_until: u64,
    retention: Option<Duration>,
    plant: Plant,
    /// For planted bugs.
    counters: BTreeMap<LockName, u64>,
    executed: u64,
}

/// Who holds a name, and until which true time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) lease: LeaseId,
    pub(crate) until: u64,
}

impl Store {
    pub(crate) fn new(clock: StoreClock, retention: Option<Duration>, plant: Plant) -> Self {
        Self {
            clock,
            shelf: Shelf::new(),
            snapshot: Shelf::new(),
            watchers: BTreeSet::new(),
            paused_until: 0,
            down_until: 0,
            retention,
            plant,
            counters: BTreeMap::new(),
            executed: 0,
        }
    }

    pub(crate) fn stored(&self, time: u64, name: &LockName) -> Option<Stored> {
        stored_in(&self.shelf, &self.clock, time, name)
    }

    pub(crate) fn acquire(&mut self, time: u64, r: &AcquireRequest) -> Reply<Acquired> {
        let now = self.clock.at(time);
        let slot = self.shelf.entry(r.name.clone()).or_default();
        let not_after = match self.plant {
            Plant::IgnoresNotAfter => ServerTime::from_micros(u64::MAX),
            _ => r.not_after,
        };
        if let (Plant::GrantsEarly, Some((lease, _, left))) = (self.plant, slot.inspect(now))
            && lease != r.lease
            && left < r.duration / 3
        {
            slot.release(now, lease, 0);
        }
        let duration = match (self.plant, r.wish) {
            (Plant::ForgetsReentries, lock_core::backend::Wish::Keep { .. }) => Duration::ZERO,
            _ => r.duration,
        };
        let acquired = slot.acquire(now, r.lease, duration, not_after, r.wish, self.retention);
        let mut outcome = acquired.unwrap_or(Acquired::Gone);
        if let Acquired::Granted { first, last } = &mut outcome {
            match self.plant {
                Plant::RestartsTokens => {
                    let counter = self.counters.entry(r.name.clone()).or_default();
                    *counter += 1;
                    (*first, *last) = (FencingToken::new(*counter), FencingToken::new(*counter));
                }
                Plant::ConstantToken => (*first, *last) = (FencingToken::new(1), FencingToken::new(1)),
                _ => {}
            }
        }
        Reply::new(now, outcome)
    }

    pub(crate) fn renew(&mut self, time: u64, item: &RenewItem) -> Reply<Renewed> {
        let now = self.clock.at(time);
        if self.replica_answers(time, &item.name) {
            return Reply::new(now, Renewed::Gone);
        }
        let Some(slot) = self.shelf.get_mut(&item.name) else {
            let not_there = if now > item.not_after { Renewed::Late } else { Renewed::Gone };
            return Reply::new(now, not_there);
        };
        let not_after = match self.plant {
            Plant::IgnoresNotAfter => ServerTime::from_micros(u64::MAX),
            _ => item.not_after,
        };
        let outcome = slot.renew(now, item.lease, item.duration, not_after);
        let wish = lock_core::backend::Wish::Next { reserve: 0, floor: None };
        let outcome = match (self.plant, outcome) {
            (Plant::RenewsWhatIsGone, Renewed::Gone) => {
                let _ = slot.acquire(now, item.lease, item.duration, item.not_after, wish, self.retention);
                Renewed::Renewed
            }
            (Plant::LowersExpiry, Renewed::Renewed) => {
                slot.release(now, item.lease, 0);
                let short = item.duration / 2;
                let _ = slot.acquire(now, item.lease, short, item.not_after, wish, self.retention);
                Renewed::Renewed
            }
            (Plant::FalseGone, Renewed::Renewed) if self.executed.is_multiple_of(20) => Renewed::Gone,
            (_, outcome) => outcome,
        };
        Reply::new(now, outcome)
    }

    pub(crate) fn release(&mut self, time: u64, r: &ReleaseRequest) -> Reply<Released> {
        let now = self.clock.at(time);
        if self.replica_answers(time, &r.name) {
            return Reply::new(now, Released::Gone { held_by_other: false });
        }
        let Some(slot) = self.shelf.get_mut(&r.name) else {
            return Reply::new(now, Released::Gone { held_by_other: false });
        };
        let lease = match (self.plant, slot.inspect(now)) {
            (Plant::FreesStrangers, Some((lease, ..))) => lease,
            _ => r.lease,
        };
        let outcome = slot.release(now, lease, r.depth_left);
        Reply::new(now, outcome)
    }

    /// Counts a request, and says whether a stale replica answers it, which does not have the name: a planted bug.
    fn replica_answers(&mut self, time: u64, name: &LockName) -> bool {
        self.executed += 1;
        self.plant == Plant::ReplicaSaysGone
            && self.executed.is_multiple_of(20)
            && stored_in(&self.snapshot, &self.clock, time, name).is_none()
    }

    /// The links that are told of this release.
    pub(crate) fn listeners(&self, name: &LockName, publish: Publish) -> Vec<usize> {
        match publish {
            Publish::Yes => self.watchers.iter().filter(|(n, _)| n == name).map(|(_, link)| *link).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn watch(&mut self, link: usize, name: LockName) {
        self.watchers.insert((name, link));
    }

    pub(crate) fn unwatch(&mut self, link: usize, name: LockName) {
        if self.plant != Plant::KeepsWatchers {
            self.watchers.remove(&(name, link));
        }
    }

    pub(crate) fn inspect(&mut self, time: u64, name: &LockName) -> Reply<Inspected> {
        let now = self.clock.at(time);
        let held = self.shelf.get_mut(name).and_then(|slot| slot.inspect(now));
        let outcome = held.map_or(Inspected::Free, |(lease, depth, remaining)| {
            Inspected::Held(StoredHold { lease: lease.to_string(), depth, remaining: Some(remaining) })
        });
        Reply::new(now, outcome)
    }

    pub(crate) fn force(&mut self, time: u64, r: &ForceRelease) -> Reply<Forced> {
        let now = self.clock.at(time);
        let forced = self.shelf.get_mut(&r.name).map(|slot| slot.force_release(now, &r.seen));
        Reply::new(now, forced.unwrap_or(Forced::Changed))
    }

    /// Goes on with other data than it had.
    pub(crate) fn replace(&mut self, shelf: Shelf) {
        self.shelf = shelf;
        self.counters.clear();
    }

    pub(crate) fn save(&mut self) {
        self.snapshot = self.shelf.clone();
    }
}

pub(crate) fn stored_in(shelf: &Shelf, clock: &StoreClock, time: u64, name: &LockName) -> Option<Stored> {
    let (lease, _, remaining) = shelf.get(name)?.clone().inspect(clock.at(time))?;
    Some(Stored { lease, until: clock.end_of_lease(time, remaining) })
}
