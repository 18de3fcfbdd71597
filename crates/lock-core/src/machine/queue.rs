//! The waiters, in order of arrival, and the times at which they are refused.

use super::event::{Entry, OwnerId, WaitPolicy, WaiterId};
use crate::{fifo_map::FifoMap, ids::FencingToken, time::Moment};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Waiters by id; ids increase, so this is the order of arrival. Alarms are a separate index: with 10,000 waiters,
/// nothing here iterates over all of them except the beginning and the end of an outage. A single waiter without a
/// named owner is kept without an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    queued: FifoMap<WaiterId, Waiter>,
    /// The waiters that re-enter a hold. Few locks ever have any, so a tree, which is smaller while it is empty.
    reentrants: BTreeMap<WaiterId, Waiter>,
    /// Waits of equal length end in the order in which they began, so these keys increase as well.
    alarms: FifoMap<(Moment, WaiterId), ()>,
    /// Queued waiters with a named owner, by owner; only they can have siblings.
    owned: BTreeSet<(OwnerId, WaiterId)>,
    outage_since: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) entry: Entry,
    entered: Moment,
}

/// A waiter that was removed because its time has passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overdue {
    pub(super) waiter: WaiterId,
    pub(super) cause: Cause,
    pub(super) reenters: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The waiting time has passed.
    WaitOver,
    /// The backend has failed for longer than the caller tolerates.
    OutageBudget,
}

impl Waiter {
    fn alarm(&self, outage_since: Option<Moment>) -> Option<(Moment, Cause)> {
        let wait_over = match self.entry.wait_policy {
            WaitPolicy::Deadline(at) => Some((at, Cause::WaitOver)),
            WaitPolicy::NoWait | WaitPolicy::Unbounded => None,
        };
        let outage_over = outage_since
            .map(|since| (since.max(self.entered) + self.entry.terms.outage_budget, Cause::OutageBudget));
        wait_over.into_iter().chain(outage_over).min_by_key(|(at, _)| *at)
    }
}

impl Queue {
    pub(super) fn push_queued(&mut self, now: Moment, entry: Entry) {
        let id = entry.waiter;
        if entry.owned {
            self.owned.insert((entry.owner, id));
        }
        let waiter = self.alarmed(now, entry);
        self.queued.insert(id, waiter);
    }

    pub(super) fn push_reentrant(&mut self, now: Moment, entry: Entry) {
        let id = entry.waiter;
        let waiter = self.alarmed(now, entry);
        self.reentrants.insert(id, waiter);
    }

    fn alarmed(&mut self, now: Moment, entry: Entry) -> Waiter {
        let waiter = Waiter { entry, entered: now };
        if let Some((at, _)) = waiter.alarm(self.outage_since) {
            self.alarms.insert((at, waiter.entry.waiter), ());
        }
        waiter
    }

    /// Removes a waiter, if it is still there.
    pub(super) fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = match self.queued.remove(&id) {
            Some(waiter) => {
                if waiter.entry.owned {
                    self.owned.remove(&(waiter.entry.owner, id));
                }
                waiter
            }
            None => self.remove_reentrant(id)?,
        };
        if let Some((at, _)) = waiter.alarm(self.outage_since) {
            self.alarms.remove(&(at, id));
        }
        Some(waiter)
    }

    fn remove_reentrant(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = self.reentrants.remove(&id);
        if self.reentrants.is_empty() {
            // Otherwise it would keep a leaf of 1 KB for as long as the lock is held.
            self.reentrants = BTreeMap::new();
        }
        waiter
    }

    pub(super) fn front(&self) -> Option<&Entry> {
        self.queued.front().map(|(_, waiter)| &waiter.entry)
    }

    /// Returns the time since when the front waiter has been waiting, and its lease, if its wait has no limit.
    pub(super) fn waits_without_limit(&self) -> Option<(Moment, Duration)> {
        let (_, waiter) = self.queued.front()?;
        let is_unlimited = waiter.entry.wait_policy == WaitPolicy::Unbounded;
        is_unlimited.then_some((waiter.entered, waiter.entry.terms.lease))
    }

    pub(super) fn reentrants(&self) -> impl Iterator<Item = &Entry> {
        self.reentrants.values().map(|waiter| &waiter.entry)
    }

    pub(super) fn reentrant_count(&self) -> u32 {
        u32::try_from(self.reentrants.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn has_reentrants(&self) -> bool {
        !self.reentrants.is_empty()
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    pub(super) fn queued_len(&self) -> usize {
        self.queued.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.queued.len() + self.reentrants.len()
    }

    /// Moves the waiters of an owner that was just granted to the re-entries: they would otherwise wait for
    /// themselves. Removes and returns those whose floor is not exceeded by the token.
    pub(super) fn reenter_siblings(&mut self, owner: OwnerId, token: FencingToken) -> Vec<WaiterId> {
        let of_owner = (owner, WaiterId(0))..=(owner, WaiterId(u64::MAX));
        let siblings: Vec<_> = self.owned.range(of_owner).map(|(_, waiter)| *waiter).collect();
        let mut below_floor = Vec::new();
        for sibling in siblings {
            let allowed = self.queued.get(&sibling).is_some_and(|waiter| waiter.entry.terms.allow(token));
            if !allowed {
                self.remove(sibling);
                below_floor.push(sibling);
                continue;
            }
            self.owned.remove(&(owner, sibling));
            if let Some(waiter) = self.queued.remove(&sibling) {
                self.reentrants.insert(sibling, waiter);
            }
        }
        below_floor
    }

    /// Removes all waiters that want to re-enter.
    pub(super) fn drain_reentrants(&mut self) -> Vec<WaiterId> {
        let ids: Vec<_> = self.reentrants.keys().copied().collect();
        self.remove_all(&ids);
        ids
    }

    /// Removes all waiters, except those that want to re-enter.
    pub(super) fn drain_queued(&mut self) -> Vec<WaiterId> {
        let ids: Vec<_> = self.queued.iter().map(|(id, _)| *id).collect();
        self.remove_all(&ids);
        ids
    }

    /// Removes all waiters.
    pub(super) fn drain(&mut self) -> Vec<WaiterId> {
        let mut ids = self.drain_queued();
        ids.extend(self.drain_reentrants());
        ids
    }

    fn remove_all(&mut self, ids: &[WaiterId]) {
        for id in ids {
            self.remove(*id);
        }
    }

    pub(super) fn next_alarm(&self) -> Option<Moment> {
        self.alarms.front().map(|((at, _), ())| *at)
    }

    /// Removes a waiter whose time has passed.
    pub(super) fn pop_alarm(&mut self, now: Moment) -> Option<Overdue> {
        let (&(at, id), ()) = self.alarms.front()?;
        if at > now {
            return None;
        }
        let reenters = self.reentrants.contains_key(&id);
        let (_, cause) = self.remove(id)?.alarm(self.outage_since)?;
        Some(Overdue { waiter: id, cause, reenters })
    }

    pub(super) fn outage_since(&self) -> Option<Moment> {
        self.outage_since
    }

    pub(super) fn is_outage(&self) -> bool {
        self.outage_since.is_some()
    }

    /// Starts an outage of the backend: outage budgets begin to count.
    pub(super) fn outage_began(&mut self, at: Moment) {
        if self.outage_since.is_none() {
            self.set_outage(Some(at));
        }
    }

    /// Ends an outage: the backend answered, and budgets no longer count.
    pub(super) fn outage_over(&mut self) {
        if self.outage_since.is_some() {
            self.set_outage(None);
        }
    }

    fn set_outage(&mut self, since: Option<Moment>) {
        self.outage_since = since;
        let waiters = self.queued.iter().chain(self.reentrants.iter());
        self.alarms = waiters.filter_map(|(id, w)| w.alarm(since).map(|(at, _)| ((at, *id), ()))).collect();
    }
}
