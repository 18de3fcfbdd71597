//! The stores of a run, a single one or the nodes of a quorum, and the resource that the locks protect.
//!
//! Each store has the rules of `lock-core`, its own clock, subscriptions, snapshots and planted bugs.

use crate::clock::StoreClock;
use lock_core::{
    FencingToken, LockName,
    backend::{
        AcquireRequest, Acquired, ForceReleaseRequest, ForceReleased, Inspected, LeaseId, NotifyWaiters,
        ReleaseRequest, Released, RenewRequest, Renewed, Reply,
    },
    clock::UtcTime,
};
use lock_quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, Vote};
use lock_testkit::planted::{BuggyStore, PlantedBug};
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    ops::{Index, IndexMut},
    slice::Iter,
    time::Duration,
};

/// The age of a store that was never restarted.
const OLD: Duration = Duration::from_secs(3_600);
/// A bug that gives a wrong answer now and then does so once in this many requests.
const NOW_AND_THEN: u64 = 20;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: StoreClock,
    /// The data, which a crash may lose or keep.
    pub(crate) data: BuggyStore,
    pub(crate) snapshot: BuggyStore,
    /// The subscriptions, by link.
    pub(crate) watchers: BTreeSet<(LockName, usize)>,
    /// Executes nothing before this time.
    pub(crate) paused_until: u64,
    /// Answers nothing before this time, and has lost its connections.
    pub(crate) down_until: u64,
    /// The time of its last restart.
    pub(crate) restarted: Option<u64>,
    executed: u64,
}

/// The holder of a name, and the true time at which its lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) lease: LeaseId,
    pub(crate) until: u64,
}

impl Store {
    pub(crate) fn new(clock: StoreClock, empty: BuggyStore) -> Self {
        Self {
            clock,
            data: empty.clone(),
            snapshot: empty,
            watchers: BTreeSet::new(),
            paused_until: 0,
            down_until: 0,
            restarted: None,
            executed: 0,
        }
    }

    pub(crate) fn stored(&self, time: u64, name: &LockName) -> Option<Stored> {
        stored_in(&self.data, &self.clock, time, name)
    }

    pub(crate) fn acquire(&mut self, time: u64, r: &AcquireRequest) -> Reply<Acquired> {
        self.data.acquire(self.clock.at(time), r)
    }

    pub(crate) fn renew(&mut self, time: u64, item: &RenewRequest) -> Reply<Renewed> {
        let now = self.clock.at(time);
        if self.replica_answers(time, &item.name) {
            return Reply::new(now, Renewed::Gone);
        }
        let reply = self.data.renew(now, item);
        let lies = self.data.has(PlantedBug::FalseGone) && self.executed.is_multiple_of(NOW_AND_THEN);
        match reply.outcome {
            Renewed::Renewed if lies => Reply::new(now, Renewed::Gone),
            _ => reply,
        }
    }

    pub(crate) fn release(&mut self, time: u64, r: &ReleaseRequest) -> Reply<Released> {
        let now = self.clock.at(time);
        if self.replica_answers(time, &r.name) {
            return Reply::new(now, Released::Gone { held_by_other: false });
        }
        self.data.release(now, r)
    }

    /// Counts a request. Returns `true` if a stale replica answers it, which does not have the name.
    fn replica_answers(&mut self, time: u64, name: &LockName) -> bool {
        self.executed += 1;
        self.data.has(PlantedBug::StaleReplicaAnswers)
            && self.executed.is_multiple_of(NOW_AND_THEN)
            && stored_in(&self.snapshot, &self.clock, time, name).is_none()
    }

    /// Returns the links that are notified of this release.
    pub(crate) fn listeners(&self, name: &LockName, notify: NotifyWaiters) -> Vec<usize> {
        if notify == NotifyWaiters::No && !self.data.has(PlantedBug::UndoPublishes) {
            return Vec::new();
        }
        self.watchers.iter().filter(|(n, _)| n == name).map(|(_, link)| *link).collect()
    }

    pub(crate) fn watch(&mut self, link: usize, name: LockName) {
        self.watchers.insert((name, link));
    }

    pub(crate) fn unwatch(&mut self, link: usize, name: LockName) {
        if !self.data.has(PlantedBug::NeverUnsubscribes) {
            self.watchers.remove(&(name, link));
        }
    }

    pub(crate) fn inspect(&mut self, time: u64, name: &LockName) -> Reply<Inspected> {
        self.data.inspect(self.clock.at(time), name)
    }

    pub(crate) fn force(&mut self, time: u64, r: &ForceReleaseRequest) -> Reply<ForceReleased> {
        self.data.force_release(self.clock.at(time), r)
    }

    pub(crate) fn propose(&mut self, time: u64, p: &Proposal) -> NodeReply<Vote> {
        self.data.propose(self.clock.at(time), self.age(time), p)
    }

    pub(crate) fn extend(&mut self, time: u64, e: &Extension) -> NodeReply<Extended> {
        self.data.extend(self.clock.at(time), self.age(time), e)
    }

    pub(crate) fn heal(&mut self, time: u64, h: &Healing) -> NodeReply<Healed> {
        self.data.heal(self.clock.at(time), self.age(time), h)
    }

    /// Returns the time for which it has kept its data, by its own clock.
    pub(crate) fn age(&self, time: u64) -> Duration {
        let since = |restarted| self.clock.at(time).since(self.clock.at(restarted));
        self.restarted.map_or(OLD, since)
    }

    pub(crate) fn save(&mut self) {
        self.snapshot = self.data.clone();
    }
}

fn stored_in(data: &BuggyStore, clock: &StoreClock, time: u64, name: &LockName) -> Option<Stored> {
    let (lease, _, remaining) = data.held(clock.at(time), name)?;
    Some(Stored { lease, until: clock.end_of_lease(time, remaining) })
}

#[derive(Debug)]
pub(crate) struct Stores(Vec<Store>);

impl Stores {
    pub(crate) fn new(stores: impl IntoIterator<Item = Store>) -> Self {
        Self(stores.into_iter().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn majority(&self) -> usize {
        self.len() / 2 + 1
    }

    pub(crate) fn iter(&self) -> Iter<'_, Store> {
        self.0.iter()
    }

    /// Returns the lease that a majority has, and the true time until which the majority has it.
    pub(crate) fn stored(&self, time: u64, name: &LockName) -> Option<Stored> {
        let mut all: Vec<_> = self.iter().filter_map(|store| store.stored(time, name)).collect();
        all.sort_by_key(|stored| Reverse(stored.until));
        let votes = |upto: usize, of: &Stored| all[..=upto].iter().filter(|s| s.lease == of.lease).count();
        let decided = |(place, stored): &(usize, &Stored)| votes(*place, stored) >= self.majority();
        all.iter().enumerate().find(decided).map(|(_, stored)| *stored)
    }

    /// Returns the largest distance of a clock from its initial offset.
    pub(crate) fn farthest_step(&self) -> Duration {
        self.iter().map(|store| store.clock.farthest_step()).max().unwrap_or_default()
    }

    /// Returns the time according to a store.
    pub(crate) fn time_of(&self, number: usize, time: u64) -> UtcTime {
        let one_for_all = self[number].data.has(PlantedBug::OneClockForNodes);
        self[if one_for_all { 0 } else { number }].clock.at(time)
    }

    /// Returns all remaining leases of these names, each with the number of its store.
    pub(crate) fn left<'a>(
        &'a self,
        time: u64,
        names: impl IntoIterator<Item = &'a LockName>,
    ) -> Vec<(usize, Stored)> {
        let of_name = |name: &'a LockName| {
            let stored = move |(number, store): (usize, &Store)| Some((number, store.stored(time, name)?));
            self.iter().enumerate().filter_map(stored)
        };
        names.into_iter().flat_map(of_name).collect()
    }
}

impl Index<usize> for Stores {
    type Output = Store;

    fn index(&self, number: usize) -> &Store {
        &self.0[number]
    }
}

impl IndexMut<usize> for Stores {
    fn index_mut(&mut self, number: usize) -> &mut Store {
        &mut self.0[number]
    }
}

#[derive(Debug, Default)]
pub(crate) struct Resource {
    fence: u64,
    value: u64,
    /// The number of accepted writes.
    accepted: u64,
    /// The number of the grant of the newest holder that read.
    newest_reader: u64,
}

/// A write under way.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) link: usize,
    pub(crate) name: LockName,
    pub(crate) lease: LeaseId,
    pub(crate) token: FencingToken,
    pub(crate) value: u64,
}

impl Resource {
    /// Returns the value, unless a newer holder has read it. `order` is the store's number of the grant.
    pub(crate) fn read(&mut self, bug: Option<PlantedBug>, token: FencingToken, order: u64) -> Option<u64> {
        if token.get() < self.fence {
            return None;
        }
        if bug != Some(PlantedBug::UnfencedRead) {
            self.fence = token.get();
        }
        self.newest_reader = self.newest_reader.max(order);
        Some(self.value)
    }

    /// Returns `true` if the write is accepted: only the newest holder that has read may write.
    pub(crate) fn write(&mut self, bug: Option<PlantedBug>, write: &Write) -> bool {
        let token = write.token.get();
        let accepted = match bug {
            Some(PlantedBug::UnfencedWrite) => true,
            Some(PlantedBug::UnfencedRead) => token >= self.fence,
            _ => token == self.fence,
        };
        if accepted {
            if bug == Some(PlantedBug::UnfencedRead) {
                self.fence = token;
            }
            self.accepted += 1;
            self.value = write.value;
        }
        accepted
    }

    /// Returns `true` if the last accepted write lost nothing: it is from the newest reader and builds on every earlier
    /// write.
    pub(crate) fn is_fresh(&self, order: u64) -> bool {
        order >= self.newest_reader && self.value == self.accepted
    }
}
