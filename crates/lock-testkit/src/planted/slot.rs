//! The store rules for one lock, with a planted bug.

use super::PlantedBug::{
    self, ConstantToken, CountsDepth, DeleteWithoutCompare, ForceWithoutCompare, GrantsEarly,
    HidesOtherHolder, IgnoresFloor, IgnoresNotAfter, LeaseEndsEarly, LeaseNeverEnds, ReentryCreates,
    ReentryNotExtended, RenewWithoutCompare, RenewalCreates, RepeatResetsDepth, ShortensExpiry,
    TokensRestart, UnreservedRange,
};
use lock_core::{
    FencingToken,
    backend::{AcquireMode, Acquired, ForceReleased, LeaseId, Released, Renewed},
    clock::UtcTime,
    model::Slot,
};
use std::time::Duration;

/// The store rules for one lock, optionally with a planted bug. The methods mirror those of
/// [`Slot`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuggySlot {
    pub(super) bug: Option<PlantedBug>,
    pub(super) rules: Slot,
    /// The number of tokens drawn by [`TokensRestart`].
    drawn: u64,
}

const LATEST: UtcTime = UtcTime::from_micros(u64::MAX);
const NEW: AcquireMode = AcquireMode::New { reserve: 0, floor: None };

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
}
