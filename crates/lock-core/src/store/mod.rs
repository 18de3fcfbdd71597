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
//! The in-memory backend calls these functions behind a mutex. Other backends implement the same rules (Redis in Lua)
//! and are compared with them.

mod node;
mod tokens;

use crate::{
    backend::{AcquireMode, Acquired, ForceReleased, Released, Renewed},
    ids::LeaseId,
    time::UtcTime,
};
use std::time::Duration;
pub(crate) use tokens::LEAD;
pub use tokens::{Counter, draw};

/// The record of one name in a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    held: Option<Held>,
    counter: Option<Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held {
    lease: LeaseId,
    depth: u32,
    /// Milliseconds since the epoch, as in Redis; the lease ends *after* this millisecond.
    expires_ms: u64,
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
                match &mut self.held {
                    Some(held) if held.lease != lease => {
                        return Acquired::Busy { remaining: Some(held.remaining(now)) };
                    }
                    Some(repeat) => repeat.raise_expiry(now, duration),
                    free => *free = Some(Held { lease, depth: 1, expires_ms: expiry(now, duration) }),
                }
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

    /// Returns the holder of the lock, its depth, and the remaining time.
    pub fn inspect(&mut self, now: UtcTime) -> Option<(LeaseId, u32, Duration)> {
        self.expire(now);
        self.held.as_ref().map(|held| (held.lease, held.depth, held.remaining(now)))
    }

    fn held_by(&mut self, lease: LeaseId) -> Option<&mut Held> {
        self.held.as_mut().filter(|held| held.lease == lease)
    }
}

#[cfg(test)]
mod tests;
