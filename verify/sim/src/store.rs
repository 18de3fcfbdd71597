//! A store: the store rules of `lock-core` with its own clock, subscriptions, snapshots and planted bugs.

use crate::clock::StoreClock;
use lock_core::{
    LockName,
    backend::{
        AcquireRequest, Acquired, ForceReleaseRequest, ForceReleased, Inspected, LeaseId, NotifyWaiters,
        ReleaseRequest, Released, RenewRequest, Renewed, Reply,
    },
    quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, Vote},
};
use lock_testkit::planted::{BuggyStore, PlantedBug};
use std::{collections::BTreeSet, time::Duration};

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

pub(crate) fn stored_in(data: &BuggyStore, clock: &StoreClock, time: u64, name: &LockName) -> Option<Stored> {
    let (lease, _, remaining) = data.held(clock.at(time), name)?;
    Some(Stored { lease, until: clock.end_of_lease(time, remaining) })
}
