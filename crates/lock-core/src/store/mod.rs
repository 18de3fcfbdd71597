//! The store rules: the replies of a store, as pure functions of its record of one name.
//!
//! ```text
//!            acquire: token drawn                       release(0) · expiry · force
//!   free ───────────────────────────▶ held {lease, depth} ───────────────────────────▶ free
//!                                        │   ▲
//!                                        └───┘ repeat · re-entry · renew · release(n)
//! ```
//!
//! Invariants:
//! - every operation may be repeated, and executed late, without harm: depths are absolute, only an acquire creates a
//!   lease, and nothing creates or extends a lease after its `not_after` (an acquire that is executed again after the
//!   release of its lease and before its `not_after` does create one, so an acquire that is sent twice must not be
//!   reported as answered);
//! - renew, re-entry and release touch only the lease they name;
//! - the expiry of a lease never decreases;
//! - tokens increase, even after the loss of the counter, as long as the clock is not behind the last token.
//!
//! # Tokens
//! The counter never runs more than [`LEAD`] ahead of the clock (unless a floor puts it there), and a missing counter
//! starts that far ahead of it. So a lost or stale counter cannot repeat a token, and one-off names need not be kept
//! forever. (A plain counter that is seeded by the clock fails both ways: a promoted replica repeats a token, and
//! 120,000 quick acquires put it 5 s ahead, after which a loss of data makes tokens decrease.)
//!
//! Residual risk: tokens decrease only if the counter is lost or stale *while* the clock is behind the last token.
//!
//! # Implementations
//! The in-memory backend calls these functions behind a mutex. Other backends implement the same rules (Redis in Lua)
//! and are compared with them.

mod pool;

pub use pool::{Pool, Ruling};

use crate::{
    backend::{AcquireMode, Acquired, Floor, ForceReleased, Released, Renewed},
    ids::{FencingToken, LeaseId},
    time::UtcTime,
};
use std::time::Duration;

/// The record of one name in a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The hold; `None` if the lock is free.
    pub held: Option<Held>,
    /// The fencing counter; `None` if it has expired.
    pub counter: Option<Counter>,
}

/// A stored hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    /// The holder.
    pub lease: LeaseId,
    /// The re-entrancy count.
    pub depth: u32,
    /// Milliseconds since the epoch, as in Redis; the lease ends *after* this millisecond.
    pub expires_ms: u64,
}

impl Slot {
    /// Drops expired data. Every operation calls this first.
    pub fn expire(&mut self, now: UtcTime) {
        self.held.take_if(|held| now.as_millis() > held.expires_ms);
        self.counter.take_if(|counter| counter.is_over(now));
    }

    /// Returns `true` if nothing is stored, so the name may be dropped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_none() && self.counter.is_none()
    }

    /// Takes the lock for `lease`, or raises its depth.
    pub fn acquire(
        &mut self,
        now: UtcTime,
        lease: LeaseId,
        duration: Duration,
        not_after: UtcTime,
        mode: AcquireMode,
        retention: Option<Duration>,
    ) -> Acquired {
        self.expire(now);
        if now > not_after {
            return Acquired::Late;
        }
        match mode {
            AcquireMode::New { reserve, floor } => {
                if let Some(held) = self.held_by_other(lease) {
                    return Acquired::Busy { remaining: Some(held.remaining(now)) };
                }
                self.hold(now, lease, duration, 1);
                let (first, last) = draw(&mut self.counter, now, reserve, floor, retention);
                Acquired::Granted { first, last }
            }
            AcquireMode::Reenter { depth } => match self.held_by(lease) {
                Some(held) => {
                    held.depth = depth;
                    held.raise_expiry(now, duration);
                    Acquired::Reentered
                }
                None => Acquired::Gone,
            },
            // A lock has no permits.
            AcquireMode::Permit(_) => Acquired::Gone,
        }
    }

    /// Extends `lease` if it exists. Creates nothing.
    pub fn renew(&mut self, now: UtcTime, lease: LeaseId, duration: Duration, not_after: UtcTime) -> Renewed {
        self.expire(now);
        if now > not_after {
            return Renewed::Late;
        }
        match self.held_by(lease) {
            Some(held) => {
                held.raise_expiry(now, duration);
                Renewed::Renewed
            }
            None => Renewed::Gone,
        }
    }

    /// Sets the depth of `lease` to `depth_left`; at 0 the lock is free.
    pub fn release(&mut self, now: UtcTime, lease: LeaseId, depth_left: u32) -> Released {
        self.expire(now);
        match (self.held_by(lease), depth_left) {
            (None, _) => Released::Gone { held_by_other: self.held.is_some() },
            (Some(_), 0) => {
                self.held = None;
                Released::Released { listeners: None }
            }
            (Some(held), left) => {
                held.depth = left;
                Released::Kept
            }
        }
    }

    /// Frees the lock if `seen` still holds it.
    pub fn force_release(&mut self, now: UtcTime, seen: &str) -> ForceReleased {
        self.expire(now);
        match &self.held {
            Some(held) if held.lease.to_string() == seen => {
                self.held = None;
                ForceReleased::Released
            }
            _ => ForceReleased::HolderChanged,
        }
    }

    /// Returns `true` if the lock is held.
    pub fn is_held(&mut self, now: UtcTime) -> bool {
        self.inspect(now).is_some()
    }

    /// Returns the holder of the lock, its depth, and the remaining time.
    pub fn inspect(&mut self, now: UtcTime) -> Option<(LeaseId, u32, Duration)> {
        self.expire(now);
        self.held.as_ref().map(|held| (held.lease, held.depth, held.remaining(now)))
    }

    /// Raises the expiry of the lease that holds the lock. If the lock is free, stores the lease with this depth.
    pub fn hold(&mut self, now: UtcTime, lease: LeaseId, duration: Duration, depth: u32) {
        match &mut self.held {
            Some(held) => held.raise_expiry(now, duration),
            free => *free = Some(Held { lease, depth, expires_ms: expiry(now, duration) }),
        }
    }

    /// Returns the hold of another lease.
    fn held_by_other(&self, lease: LeaseId) -> Option<&Held> {
        self.held.as_ref().filter(|held| held.lease != lease)
    }

    /// Returns the last token issued or reserved; 0 if there is none.
    #[must_use]
    pub fn last_token(&self) -> u64 {
        self.counter.as_ref().map_or(0, |counter| counter.last)
    }

    /// Sets the last token issued, and the time for which it is kept; without a retention, it keeps its expiry.
    pub fn set_last_token(&mut self, now: UtcTime, last: u64, retention: Option<Duration>) {
        raise(&mut self.counter, now, last, retention);
    }

    fn held_by(&mut self, lease: LeaseId) -> Option<&mut Held> {
        self.held.as_mut().filter(|held| held.lease == lease)
    }
}

impl Held {
    fn raise_expiry(&mut self, now: UtcTime, duration: Duration) {
        self.expires_ms = self.expires_ms.max(expiry(now, duration));
    }

    fn remaining(&self, now: UtcTime) -> Duration {
        Duration::from_millis(self.expires_ms.saturating_sub(now.as_millis()))
    }
}

/// Returns the last millisecond of a lease of this length.
#[must_use]
pub fn expiry(now: UtcTime, duration: Duration) -> u64 {
    now.as_millis().saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// The maximum lead of the counter over the clock, in microseconds.
pub const LEAD: u64 = 1000;

/// The last token issued or reserved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Counter {
    /// The last token.
    pub last: u64,
    /// The millisecond since the epoch after which it expires; `None` for never.
    pub expires_ms: Option<u64>,
}

impl Counter {
    /// Returns `true` if a grant renews the expiry.
    fn is_renewed(&self, now: UtcTime, retention: Duration) -> bool {
        let eighth = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX).max(1).saturating_mul(125);
        self.expires_ms.is_some() && self.last / eighth != now.as_micros() / eighth
    }

    fn is_over(&self, now: UtcTime) -> bool {
        self.expires_ms.is_some_and(|at| now.as_millis() > at)
    }
}

/// Draws `first` and up to `reserve` further tokens. `retention` is the life of a new counter; without it, a new one
/// does not expire. An existing one keeps its expiry, which the first grant in each eighth of the retention renews. A
/// counter without an expiry keeps none: Redisson, which creates such counters, restarts a missing one at 1. The
/// counter lasts at least until the clock has caught up with it.
pub fn draw(
    counter: &mut Option<Counter>,
    now: UtcTime,
    reserve: u32,
    floor: Floor,
    retention: Option<Duration>,
) -> (FencingToken, FencingToken) {
    let clock = now.as_micros();
    let next = match counter {
        Some(Counter { last, .. }) => clock.max(last.saturating_add(1)),
        None => clock.saturating_add(LEAD),
    };
    let first = next.max(floor.map_or(0, |floor| floor.next().get()));
    let last = first.max(first.saturating_add(reserve.into()).min(clock.saturating_add(LEAD)));
    let renewed =
        retention.filter(|&retention| counter.as_ref().is_none_or(|c| c.is_renewed(now, retention)));
    raise(counter, now, last, renewed);
    (FencingToken::new(first), FencingToken::new(last))
}

/// Sets the counter, with its retention.
fn raise(counter: &mut Option<Counter>, now: UtcTime, last: u64, retention: Option<Duration>) {
    // A floor may put the counter further ahead: then it lives at least until the clock has caught up.
    let ahead = last > now.as_micros().saturating_add(LEAD);
    let caught_up_ms = if ahead { UtcTime::from_micros(last).as_millis().saturating_add(1) } else { 0 };
    let expires_ms = match retention {
        Some(keep) => Some((now + keep).as_millis()),
        None => counter.as_ref().and_then(|counter| counter.expires_ms),
    };
    *counter = Some(Counter { last, expires_ms: expires_ms.map(|at| at.max(caught_up_ms)) });
}

#[cfg(test)]
mod tests;
