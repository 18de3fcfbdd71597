//! The rules of pools: the replies of a store to requests for permits, as pure functions of its record of one pool.
//!
//! A pool has holders, whose weights together do not exceed the limit, and a queue. A release never grants: it wakes the
//! waiters, and each process asks again for its first one. So a waiter that has ended keeps others waiting for at most
//! its patience, not for a lease.
//!
//! Invariants, besides those of locks:
//! - a request is granted if its weight, that of all holders, and that of all waiters ahead of it fit into its limit: so
//!   nobody is delayed by one who came later, and the first waiters that fit together are granted in any order;
//! - a release ends the lease or the place with its id;
//! - an end, of a lease or of a patience, never decreases, and a weight never rises.
//!
//! Each request is judged by its own limit, as nothing is stored that two versions of a program could dispute.

use super::{Counter, draw, expiry};
use crate::{
    backend::{
        AcquireMode, Acquired, ForceReleased, NotifyWaiters, Operation, Outcome, PermitRequest, Released,
        Renewed, Share, StoredPermit, StoredPool,
    },
    ids::LeaseId,
    time::UtcTime,
};
use std::{collections::BTreeMap, time::Duration};

/// The maximum number of waiters in the store, so that a pool whose holders hang does not fill it.
const MAX_QUEUE: usize = 10_000;

/// The record of one pool in a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Pool {
    /// The permits that are held.
    pub holders: BTreeMap<LeaseId, Permit>,
    /// The places of the waiters, in the order of arrival.
    pub queue: Vec<(LeaseId, Permit)>,
    /// The fencing counter; `None` if it has expired.
    pub counter: Option<Counter>,
}

/// A permit that is held or waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Permit {
    /// Its part of the limit.
    pub weight: u32,
    /// The millisecond since the epoch after which the lease, or the patience of the waiter, has ended.
    pub ends_ms: u64,
}

/// A reply, and `true` if waiters must be woken: there is more room for them than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling<T> {
    /// The reply.
    pub outcome: T,
    /// `true` if waiters must be woken.
    pub wakes: bool,
}

impl Pool {
    /// Drops what has ended. Every operation calls this first. Returns `true` if a permit or a place was dropped.
    pub fn expire(&mut self, now: UtcTime) -> bool {
        let before = self.holders.len() + self.queue.len();
        self.holders.retain(|_, permit| permit.lasts(now));
        self.queue.retain(|(_, permit)| permit.lasts(now));
        self.counter.take_if(|counter| counter.is_over(now));
        self.holders.len() + self.queue.len() < before
    }

    /// Returns `true` if nothing is stored, so the name may be dropped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty() && self.counter.is_none()
    }

    /// Carries out an operation. `retention` is that of the store.
    pub fn execute(
        &mut self,
        now: UtcTime,
        operation: &Operation,
        retention: Option<Duration>,
    ) -> Ruling<Outcome> {
        match operation {
            Operation::Acquire(r) => match &r.mode {
                AcquireMode::Permit(request) => {
                    let retention = r.retention.unless(retention);
                    self.acquire(now, r.lease, r.duration, r.not_after, request, retention).into()
                }
                // A pool has no lock.
                AcquireMode::New { .. } | AcquireMode::Reenter { .. } => {
                    Ruling { outcome: Acquired::Gone.into(), wakes: false }
                }
            },
            Operation::Renew(r) => self.renew(now, r.lease, r.duration, r.not_after).into(),
            Operation::Release(r) => {
                let Ruling { outcome, wakes } = self.release(now, r.lease, r.depth_left);
                Ruling { outcome: outcome.into(), wakes: wakes && r.notify != NotifyWaiters::No }
            }
        }
    }

    /// Grants a permit, or keeps a place in the queue for the time of the patience.
    pub fn acquire(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        duration: Duration,
        not_after: UtcTime,
        request: &PermitRequest,
        retention: Option<Duration>,
    ) -> Ruling<Acquired> {
        let expired = self.expire(now);
        let outcome = match now > not_after {
            true => Acquired::Late,
            false => self.judge(now, lease, duration, request, retention),
        };
        // One wake-up stands for a release of any weight, so each grant that leaves room wakes the next waiter.
        let fits =
            |(_, next): &(LeaseId, Permit)| self.has_room(Share { weight: next.weight, ..request.share }, 0);
        let is_granted = matches!(outcome, Acquired::Granted { .. });
        let leaves_room = is_granted && self.queue.first().is_some_and(fits);
        self.ruling(expired || leaves_room, request.place.map_or(lease, |place| place.id), outcome)
    }

    fn judge(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        duration: Duration,
        &PermitRequest { share, place, floor }: &PermitRequest,
        retention: Option<Duration>,
    ) -> Acquired {
        let at = place.and_then(|place| self.queue.iter().position(|(id, _)| *id == place.id));
        if let Some(held) = self.holders.get_mut(&lease) {
            held.raise(now, duration);
        } else if self.has_room(share, at.unwrap_or(self.queue.len())) {
            self.holders.insert(lease, Permit { weight: share.weight, ends_ms: expiry(now, duration) });
        } else {
            let next_end = self.holders.values().map(|permit| permit.remaining(now)).min();
            return match (place, at) {
                (Some(place), Some(at)) => {
                    self.queue[at].1.raise(now, place.patience);
                    Acquired::Queued { remaining: next_end.filter(|_| at == 0) }
                }
                (Some(place), None) if self.queue.len() < MAX_QUEUE => {
                    let waiter = Permit { weight: share.weight, ends_ms: expiry(now, place.patience) };
                    self.queue.push((place.id, waiter));
                    Acquired::Queued { remaining: next_end.filter(|_| self.queue.len() == 1) }
                }
                _ => Acquired::Busy { remaining: next_end },
            };
        }
        if let Some(at) = at {
            self.queue.remove(at);
        }
        let (first, last) = draw(&mut self.counter, now, 0, floor, retention);
        Acquired::Granted { first, last }
    }

    /// Returns `true` if a share fits beside all holders and the first waiters, this many.
    fn has_room(&self, share: Share, ahead: usize) -> bool {
        let weights = self.holders.values().chain(self.queue[..ahead].iter().map(|(_, permit)| permit));
        let used: u64 = weights.map(|permit| u64::from(permit.weight)).sum();
        used + u64::from(share.weight) <= u64::from(share.limit)
    }

    /// Extends the lease of a holder. Creates nothing.
    pub fn renew(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        duration: Duration,
        not_after: UtcTime,
    ) -> Ruling<Renewed> {
        let expired = self.expire(now);
        let outcome = match self.holders.get_mut(&lease) {
            _ if now > not_after => Renewed::Late,
            Some(held) => {
                held.raise(now, duration);
                Renewed::Renewed
            }
            None => Renewed::Gone,
        };
        self.ruling(expired, lease, outcome)
    }

    /// Lowers the weight of a permit to `weight_left`; at 0, ends it, or the wait for it.
    pub fn release(&mut self, now: UtcTime, lease: LeaseId, weight_left: u32) -> Ruling<Released> {
        let expired = self.expire(now);
        let outcome = match (self.holders.get_mut(&lease), weight_left) {
            (Some(held), 1..) => {
                held.weight = held.weight.min(weight_left);
                Released::Kept
            }
            (None, 1..) => Released::Gone { held_by_other: !self.holders.is_empty() },
            (held, 0) => {
                let waiting = self.queue.len();
                self.queue.retain(|(waiter, _)| *waiter != lease);
                match held.is_some() || self.queue.len() < waiting {
                    true => {
                        self.holders.remove(&lease);
                        Released::Released { listeners: None }
                    }
                    false => Released::Gone { held_by_other: !self.holders.is_empty() },
                }
            }
        };
        self.ruling(expired || !matches!(outcome, Released::Gone { .. }), lease, outcome)
    }

    /// Ends the permit of a holder, or the wait for one, if `seen` still has it.
    pub fn force_release(&mut self, now: UtcTime, seen: &str) -> Ruling<ForceReleased> {
        self.expire(now);
        let leases = self.holders.keys().chain(self.queue.iter().map(|(lease, _)| lease));
        let found = leases.copied().find(|lease| lease.to_string() == seen);
        match found {
            Some(lease) => {
                let Ruling { wakes, .. } = self.release(now, lease, 0);
                Ruling { outcome: ForceReleased::Released, wakes }
            }
            None => Ruling { outcome: ForceReleased::HolderChanged, wakes: false },
        }
    }

    /// Returns the holders and the waiters.
    pub fn inspect(&mut self, now: UtcTime) -> StoredPool {
        self.expire(now);
        let stored = |(lease, permit): (&LeaseId, &Permit)| StoredPermit {
            lease: lease.to_string(),
            weight: permit.weight,
            remaining: permit.remaining(now),
        };
        StoredPool {
            holders: self.holders.iter().map(stored).collect(),
            waiters: self.queue.iter().map(|(lease, permit)| stored((lease, permit))).collect(),
        }
    }

    /// Wakes waiters if there is more room, and somebody besides the one who asked waits.
    fn ruling<T>(&self, more_room: bool, asked: LeaseId, outcome: T) -> Ruling<T> {
        Ruling { outcome, wakes: more_room && self.queue.iter().any(|(id, _)| *id != asked) }
    }
}

impl<T: Into<Outcome>> Ruling<T> {
    fn into(self) -> Ruling<Outcome> {
        Ruling { outcome: self.outcome.into(), wakes: self.wakes }
    }
}

impl Permit {
    fn lasts(&self, now: UtcTime) -> bool {
        now.as_millis() <= self.ends_ms
    }

    fn raise(&mut self, now: UtcTime, duration: Duration) {
        self.ends_ms = self.ends_ms.max(expiry(now, duration));
    }

    fn remaining(&self, now: UtcTime) -> Duration {
        Duration::from_millis(self.ends_ms.saturating_sub(now.as_millis()))
    }
}
