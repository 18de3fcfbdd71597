//! The store rules for one lock and for all locks, also those of a quorum node, with a planted bug.

use super::{
    BuggyPool,
    PlantedBug::{
        self, AddsVotes, ConstantToken, CountsDepth, DeleteWithoutCompare, ForceWithoutCompare, GrantsEarly,
        HidesOtherHolder, IgnoresFloor, IgnoresNotAfter, LeaseEndsEarly, LeaseNeverEnds, ReentryCreates,
        ReentryNotExtended, RenewWithoutCompare, RenewalCreates, RepeatResetsDepth, ReusesLease,
        ShortensExpiry, TokensRestart, UnreservedRange,
    },
};
use lock_core::{
    FencingToken, LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, ForceReleaseRequest, ForceReleased, Inspected, LeaseId,
        LeaseNumber, ReleaseRequest, Released, RenewRequest, Renewed, Reply, StoredHold,
    },
    clock::UtcTime,
    model::Slot,
};
use lock_quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, Vote, model};
use std::{collections::BTreeMap, time::Duration};

const LATEST: UtcTime = UtcTime::from_micros(u64::MAX);
const NEW: AcquireMode = AcquireMode::New { reserve: 0, floor: None };

/// The store rules for one lock, optionally with a planted bug. The methods mirror those of
/// [`Slot`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuggySlot {
    bug: Option<PlantedBug>,
    rules: Slot,
    /// The number of tokens drawn by [`TokensRestart`].
    drawn: u64,
}

/// The store rules for all locks, optionally with a planted bug. Has no clock and no mutex.
#[derive(Debug, Clone)]
pub struct BuggyStore {
    bug: Option<PlantedBug>,
    retention: Option<Duration>,
    slots: BTreeMap<LockName, BuggySlot>,
    /// Their wake-ups follow releases only.
    pools: BTreeMap<LockName, BuggyPool>,
    answers: u32,
}

impl BuggySlot {
    /// Creates a lock without stored data.
    #[must_use]
    pub fn new(bug: Option<PlantedBug>) -> Self {
        Self { bug, rules: Slot::default(), drawn: 0 }
    }

    /// Removes all data.
    pub fn clear(&mut self) {
        *self = Self::new(self.bug);
    }

    /// Returns whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Takes the lock or increases its depth.
    pub fn acquire(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        mut duration: Duration,
        mut not_after: UtcTime,
        mut mode: AcquireMode,
        retention: Option<Duration>,
    ) -> Acquired {
        let held = self.rules.inspect(now);
        let own = held.filter(|(holder, ..)| *holder == lease);
        let in_time = now <= not_after;
        let mut unreserved = 0;
        match (self.bug, &mut mode) {
            (Some(IgnoresNotAfter), _) => not_after = LATEST,
            (Some(LeaseNeverEnds), _) => duration *= 1000,
            (Some(LeaseEndsEarly), _) => duration /= 2,
            (Some(ReentryNotExtended), AcquireMode::Reenter { .. }) => duration = Duration::ZERO,
            (Some(GrantsEarly), _) => {
                if let Some((holder, _, left)) = held
                    && holder != lease
                    && left < duration / 3
                {
                    self.rules.release(now, holder, 0);
                }
            }
            (Some(ReentryCreates), AcquireMode::Reenter { .. }) if held.is_none() && in_time => {
                self.create(now, lease, duration);
            }
            (Some(ShortensExpiry), AcquireMode::Reenter { depth }) if own.is_some() && in_time => {
                self.set(now, lease, duration / 2, *depth);
                duration = Duration::ZERO;
            }
            (Some(CountsDepth), AcquireMode::Reenter { depth }) => {
                *depth = own.map_or(*depth, |(_, stored, _)| stored + 1);
            }
            (Some(IgnoresFloor), AcquireMode::New { floor, .. }) => *floor = None,
            (Some(UnreservedRange), AcquireMode::New { reserve, .. }) => unreserved = std::mem::take(reserve),
            _ => {}
        }
        let mut acquired = self.rules.acquire(now, lease, duration, not_after, mode, retention);
        let Acquired::Granted { first, last } = &mut acquired else { return acquired };
        match self.bug {
            Some(ConstantToken) => (*first, *last) = (FencingToken::new(7), FencingToken::new(7)),
            Some(TokensRestart) => {
                self.drawn += 1;
                (*first, *last) = (FencingToken::new(self.drawn), FencingToken::new(self.drawn));
            }
            Some(UnreservedRange) => {
                *last = FencingToken::new(first.get() + u64::from(unreserved.min(1000)));
            }
            Some(CountsDepth) => {
                self.rules.release(now, lease, own.map_or(1, |(_, depth, _)| depth + 1));
            }
            Some(RepeatResetsDepth) => {
                self.rules.release(now, lease, 1);
            }
            _ => {}
        }
        acquired
    }

    /// Extends the lease if it exists.
    pub fn renew(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        mut duration: Duration,
        mut not_after: UtcTime,
    ) -> Renewed {
        let held = self.rules.inspect(now);
        let in_time = now <= not_after;
        let mut renewed = lease;
        match (self.bug, held) {
            (Some(IgnoresNotAfter), _) => not_after = LATEST,
            (Some(RenewalCreates), None) if in_time => self.create(now, lease, duration),
            (Some(RenewWithoutCompare), Some((holder, ..))) => renewed = holder,
            (Some(ShortensExpiry), Some((holder, depth, _))) if holder == lease && in_time => {
                self.set(now, lease, duration / 2, depth);
                duration = Duration::ZERO;
            }
            _ => {}
        }
        self.rules.renew(now, renewed, duration, not_after)
    }

    /// Sets the depth of the lease to `depth_left`; 0 frees the lock.
    pub fn release(&mut self, now: UtcTime, lease: LeaseId, depth_left: u32) -> Released {
        let (released, left) = match (self.bug, self.rules.inspect(now)) {
            (Some(DeleteWithoutCompare), Some((holder, ..))) => (holder, depth_left),
            (Some(CountsDepth), Some((holder, depth, _))) if holder == lease => (lease, depth - 1),
            _ => (lease, depth_left),
        };
        match self.rules.release(now, released, left) {
            Released::Gone { .. } if self.bug == Some(HidesOtherHolder) => {
                Released::Gone { held_by_other: false }
            }
            released => released,
        }
    }

    /// Frees the lock if `seen` still holds it.
    pub fn force_release(&mut self, now: UtcTime, seen: &str) -> ForceReleased {
        match (self.bug, self.rules.inspect(now)) {
            (Some(ForceWithoutCompare), Some((holder, ..))) => {
                self.rules.force_release(now, &holder.to_string())
            }
            _ => self.rules.force_release(now, seen),
        }
    }

    /// Returns the holder, the depth and the remaining time.
    pub fn inspect(&mut self, now: UtcTime) -> Option<(LeaseId, u32, Duration)> {
        self.rules.inspect(now)
    }

    fn create(&mut self, now: UtcTime, lease: LeaseId, duration: Duration) {
        // A free lock is always granted.
        self.rules.acquire(now, lease, duration, now, NEW, None);
    }

    /// Stores the lease with exactly this duration.
    fn set(&mut self, now: UtcTime, lease: LeaseId, duration: Duration, depth: u32) {
        self.rules.release(now, lease, 0);
        self.create(now, lease, duration);
        self.rules.release(now, lease, depth);
    }

    /// Votes on a proposal. `age` is the age of the node's data.
    pub fn propose(
        &mut self,
        now: UtcTime,
        age: Duration,
        p: &Proposal,
        retention: Option<Duration>,
    ) -> Vote {
        let holder = self.rules.inspect(now).map(|(holder, ..)| holder);
        match self.bug {
            // The node's vote for an earlier proposal of the round still counts.
            Some(AddsVotes) if holder == Some(p.lease) => Vote::Granted,
            _ => model::propose(&mut self.rules, now, age, p, retention),
        }
    }

    /// Extends an existing lease.
    pub fn extend(&mut self, now: UtcTime, e: &Extension) -> Extended {
        model::extend(&mut self.rules, now, e)
    }

    /// Restores a lease that the node lost.
    pub fn heal(&mut self, now: UtcTime, h: &Healing, retention: Option<Duration>) -> Healed {
        model::heal(&mut self.rules, now, h, retention)
    }
}

impl BuggyStore {
    /// Creates an empty store. `retention` is the time for which token counters are kept; `None`
    /// keeps them forever.
    #[must_use]
    pub fn new(bug: Option<PlantedBug>, retention: Option<Duration>) -> Self {
        Self { bug, retention, slots: BTreeMap::new(), pools: BTreeMap::new(), answers: 0 }
    }

    /// Returns whether this bug is planted in the store.
    #[must_use]
    pub fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// Removes all data.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.pools.clear();
    }

    /// Returns the holder, the depth and the remaining time.
    #[must_use]
    pub fn held(&self, now: UtcTime, name: &LockName) -> Option<(LeaseId, u32, Duration)> {
        self.slots.get(&self.key(name))?.clone().inspect(now)
    }

    /// Executes an acquire or a re-entry.
    pub fn acquire(&mut self, now: UtcTime, r: &AcquireRequest) -> Reply<Acquired> {
        let retention = self.retention;
        if let AcquireMode::Permit(request) = &r.mode {
            let pool = self.pools.entry(r.name.clone()).or_insert_with(|| BuggyPool::new(self.bug));
            let acquired = pool.acquire(now, r.lease, r.duration, r.not_after, **request, retention);
            return self.reply(now, acquired.outcome);
        }
        let acquired =
            self.slot(&r.name).acquire(now, r.lease, r.duration, r.not_after, r.mode.clone(), retention);
        self.reply(now, acquired)
    }

    /// Executes a renewal.
    pub fn renew(&mut self, now: UtcTime, item: &RenewRequest) -> Reply<Renewed> {
        if let Some(pool) = self.pools.get_mut(&item.name) {
            let renewed = pool.renew(now, item.lease, item.duration, item.not_after);
            return self.reply(now, renewed.outcome);
        }
        let outcome = self.slot(&item.name).renew(now, item.lease, item.duration, item.not_after);
        self.reply(now, outcome)
    }

    /// Executes a release.
    pub fn release(&mut self, now: UtcTime, r: &ReleaseRequest) -> Reply<Released> {
        if let Some(pool) = self.pools.get_mut(&r.name) {
            let released = pool.release(now, r.lease, r.depth_left);
            return self.reply(now, released.outcome);
        }
        let lease = self.stored_id(r.lease);
        let outcome = self.slot(&r.name).release(now, lease, r.depth_left);
        self.reply(now, outcome)
    }

    /// Executes an inspection.
    pub fn inspect(&mut self, now: UtcTime, name: &LockName) -> Reply<Inspected> {
        if let Some(pool) = self.pools.get_mut(name) {
            let stored = pool.inspect(now);
            return self.reply(now, Inspected::Pool(stored));
        }
        let outcome = self.held(now, name).map_or(Inspected::Free, |(lease, depth, remaining)| {
            Inspected::Held(StoredHold { lease: lease.to_string(), depth, remaining: Some(remaining) })
        });
        self.reply(now, outcome)
    }

    /// Executes a forced release.
    pub fn force_release(&mut self, now: UtcTime, r: &ForceReleaseRequest) -> Reply<ForceReleased> {
        if let Some(pool) = self.pools.get_mut(&r.name) {
            let forced = pool.force_release(now, &r.seen);
            return self.reply(now, forced.outcome);
        }
        let outcome = self.slot(&r.name).force_release(now, &r.seen);
        self.reply(now, outcome)
    }

    fn slot(&mut self, name: &LockName) -> &mut BuggySlot {
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

    /// Returns the id under which a lease is stored. It differs from the lease's own id only with
    /// [`ReusesLease`].
    #[must_use]
    pub fn stored_id(&self, lease: LeaseId) -> LeaseId {
        match self.has(ReusesLease) {
            true => LeaseId::new(lease.process(), LeaseNumber::new(0)),
            false => lease,
        }
    }

    /// Executes a proposal.
    pub fn propose(&mut self, now: UtcTime, age: Duration, p: &Proposal) -> NodeReply<Vote> {
        let retention = p.retention.unless(self.retention);
        let proposal = Proposal { lease: self.stored_id(p.lease), ..p.clone() };
        let outcome = self.slot(&p.name).propose(now, age, &proposal, retention);
        NodeReply { now, age, outcome }
    }

    /// Executes an extension.
    pub fn extend(&mut self, now: UtcTime, age: Duration, e: &Extension) -> NodeReply<Extended> {
        let extension = Extension { lease: self.stored_id(e.lease), ..e.clone() };
        NodeReply { now, age, outcome: self.slot(&e.name).extend(now, &extension) }
    }

    /// Executes a heal.
    pub fn heal(&mut self, now: UtcTime, age: Duration, h: &Healing) -> NodeReply<Healed> {
        let retention = h.retention.unless(self.retention);
        let healing = Healing { lease: self.stored_id(h.lease), ..h.clone() };
        NodeReply { now, age, outcome: self.slot(&h.name).heal(now, &healing, retention) }
    }
}
