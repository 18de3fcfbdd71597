//! The store rules for one pool, with a planted bug.

use super::PlantedBug::{self, GrantsUnasked, IgnoresNotAfter, KeepsDeadWaiters, KeepsPlaces, Overtakes};
use lock_core::{
    FencingToken,
    backend::{Acquired, ForceReleased, LeaseId, PermitRequest, Released, Renewed, Share, StoredPool},
    clock::UtcTime,
    model::{Pool, Ruling},
};
use std::time::Duration;

const LATEST: UtcTime = UtcTime::from_micros(u64::MAX);

/// The store rules for one pool, optionally with a planted bug. The methods mirror those of [`Pool`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuggyPool {
    bug: Option<PlantedBug>,
    rules: Pool,
    /// The largest limit and lease that were requested, for [`GrantsUnasked`].
    limit: u32,
    lease: Duration,
    /// The places to which a release granted a permit, with its token.
    unasked: Vec<(LeaseId, FencingToken)>,
}

impl BuggyPool {
    /// Creates a pool without stored data.
    #[must_use]
    pub fn new(bug: Option<PlantedBug>) -> Self {
        Self { bug, rules: Pool::default(), limit: 0, lease: Duration::ZERO, unasked: Vec::new() }
    }

    /// Removes all data.
    pub fn clear(&mut self) {
        *self = Self::new(self.bug);
    }

    /// Returns `true` if nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the holders and the waiters that have not ended by this time.
    #[must_use]
    pub fn at(&self, now: UtcTime) -> Pool {
        let mut rules = self.rules.clone();
        rules.expire(now);
        rules
    }

    /// Returns the places to which a release granted a permit, with its token: none without [`GrantsUnasked`].
    #[must_use]
    pub fn unasked(&self) -> &[(LeaseId, FencingToken)] {
        &self.unasked
    }

    /// Grants a permit, or keeps a place in the queue.
    pub fn acquire(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        duration: Duration,
        mut not_after: UtcTime,
        mut request: PermitRequest,
        retention: Option<Duration>,
    ) -> Ruling<Acquired> {
        match (self.bug, &mut request.place) {
            (Some(IgnoresNotAfter), _) => not_after = LATEST,
            (Some(KeepsDeadWaiters), Some(place)) => place.patience *= 1_000,
            (Some(GrantsUnasked), _) => {
                self.limit = self.limit.max(request.share.limit);
                self.lease = self.lease.max(duration);
            }
            (Some(Overtakes), place) => {
                self.rules.expire(now);
                let id = place.map(|place| place.id);
                if !self.rules.queue.iter().any(|(waiter, _)| Some(*waiter) == id) {
                    let mut waiters = std::mem::take(&mut self.rules.queue);
                    let ruling = self.rules.acquire(now, lease, duration, not_after, &request, retention);
                    waiters.append(&mut self.rules.queue);
                    self.rules.queue = waiters;
                    return ruling;
                }
            }
            _ => {}
        }
        self.rules.acquire(now, lease, duration, not_after, &request, retention)
    }

    /// Extends the lease of a holder.
    pub fn renew(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        duration: Duration,
        not_after: UtcTime,
    ) -> Ruling<Renewed> {
        let not_after = if self.bug == Some(IgnoresNotAfter) { LATEST } else { not_after };
        self.rules.renew(now, lease, duration, not_after)
    }

    /// Lowers the weight of a permit to `weight_left`; at 0, ends it, or the wait for it.
    pub fn release(&mut self, now: UtcTime, lease: LeaseId, weight_left: u32) -> Ruling<Released> {
        match self.bug {
            Some(KeepsPlaces) => {
                self.rules.expire(now);
                let waiters = std::mem::take(&mut self.rules.queue);
                let Ruling { outcome, .. } = self.rules.release(now, lease, weight_left);
                self.rules.queue = waiters;
                let more_room = !matches!(outcome, Released::Gone { .. });
                Ruling { outcome, wakes: more_room && !self.rules.queue.is_empty() }
            }
            Some(GrantsUnasked) => {
                let ruling = self.rules.release(now, lease, weight_left);
                self.grant_to_first(now);
                ruling
            }
            _ => self.rules.release(now, lease, weight_left),
        }
    }

    /// Grants permits to the first waiters, under the ids of their places.
    fn grant_to_first(&mut self, now: UtcTime) {
        while let Some((id, first)) = self.rules.queue.first().copied() {
            let share = Share { weight: first.weight, limit: self.limit };
            let waiters = std::mem::take(&mut self.rules.queue);
            let request = PermitRequest { share, place: None, floor: None };
            let Ruling { outcome, .. } = self.rules.acquire(now, id, self.lease, LATEST, &request, None);
            self.rules.queue = waiters;
            let Acquired::Granted { first, .. } = outcome else { return };
            self.rules.queue.remove(0);
            self.unasked.push((id, first));
        }
    }

    /// Ends the permit of a holder, or the wait for one, if `seen` still has it.
    pub fn force_release(&mut self, now: UtcTime, seen: &str) -> Ruling<ForceReleased> {
        self.rules.force_release(now, seen)
    }

    /// Returns the holders and the waiters.
    pub fn inspect(&mut self, now: UtcTime) -> StoredPool {
        self.rules.inspect(now)
    }
}
