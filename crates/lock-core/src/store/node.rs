//! The rules by which a quorum node votes on a proposed token, restores a lost lease, and extends a lease.

use super::{
    Held, Slot, expiry,
    tokens::{Counter, raise},
};
use crate::{
    ids::LeaseId,
    quorum::{
        Extended, Extension, Healed, Healing, MAX_CLOCK_DISTANCE, MIN_COUNTER_RETENTION, Proposal,
        TOKEN_BOUND, Vote,
    },
    time::UtcTime,
};
use std::time::Duration;

/// Returns the retention of a counter in a node. The counter is kept at least until the clock of the node rules out
/// every lower token.
fn at_least(retention: Option<Duration>) -> Option<Duration> {
    retention.map(|retention| retention.max(MIN_COUNTER_RETENTION))
}

impl Slot {
    /// Votes on a proposal. `age` is the time for which this store has kept its data.
    pub fn propose(
        &mut self,
        now: UtcTime,
        age: Duration,
        p: &Proposal,
        retention: Option<Duration>,
    ) -> Vote {
        self.expire(now);
        if now > p.not_after {
            return Vote::Late;
        }
        if age < p.min_age {
            return Vote::Quarantined;
        }
        let counter = self.counter.as_ref().map_or(0, Counter::last);
        if let Some(held) = self.held.as_ref().filter(|held| held.lease != p.lease) {
            let (holder, remaining) = (held.lease.to_string(), Some(held.remaining(now)));
            return Vote::Busy { holder, remaining, counter };
        }
        let is_repeat = self.held.is_some() && counter == p.last.get();
        if !is_repeat {
            if p.token.get() <= counter {
                return Vote::Stale { counter };
            }
            if !is_near_clock(now, counter, p) {
                return Vote::ClockOff;
            }
            raise(&mut self.counter, now, p.last.get(), at_least(retention));
        }
        self.hold(now, p.lease, p.duration, 1);
        Vote::Granted
    }

    /// Restores a lease that this store lost, unless another holds the lock.
    pub fn heal(&mut self, now: UtcTime, h: &Healing, retention: Option<Duration>) -> Healed {
        self.expire(now);
        if now > h.not_after {
            return Healed::Late;
        }
        if self.held.as_ref().is_some_and(|held| held.lease != h.lease) {
            return Healed::Busy;
        }
        let counter = self.counter.as_ref().map_or(0, Counter::last);
        raise(&mut self.counter, now, counter.max(h.last.get()), at_least(retention));
        self.hold(now, h.lease, h.duration, h.depth);
        Healed::Set
    }

    /// Extends an existing lease, and sets its depth if one is given.
    pub fn extend(&mut self, now: UtcTime, e: &Extension) -> Extended {
        self.expire(now);
        if now > e.not_after {
            return Extended::Late;
        }
        let Some(held) = self.held_by(e.lease) else { return Extended::Gone };
        held.depth = e.depth.unwrap_or(held.depth);
        held.raise_expiry(now, e.duration);
        Extended::Extended
    }

    /// Raises the expiry of the lease, or creates it.
    fn hold(&mut self, now: UtcTime, lease: LeaseId, duration: Duration, depth: u32) {
        match &mut self.held {
            Some(held) => held.raise_expiry(now, duration),
            free => *free = Some(Held { lease, depth, expires_ms: expiry(now, duration) }),
        }
    }
}

/// Returns `true` if the proposal is near the clock. Otherwise a client whose clock is years ahead would raise every
/// counter forever, and one that is behind would reuse tokens that were issued before a loss of the counter.
fn is_near_clock(now: UtcTime, counter: u64, p: &Proposal) -> bool {
    let (clock, distance) = (now.as_micros(), UtcTime::default() + MAX_CLOCK_DISTANCE);
    let floor = p.floor.map_or(0, |floor| floor.get());
    let highest = counter.max(clock).max(floor).saturating_add(distance.as_micros());
    p.token.get() > clock.saturating_sub(distance.as_micros())
        && p.token.get() <= highest
        && p.last.get() <= highest
        && p.last.get() < TOKEN_BOUND
}
