//! Fencing tokens that keep increasing when a store loses its data.
//!
//! The counter never runs more than [`LEAD`] ahead of the clock (unless a floor puts it there), and a missing counter
//! starts that far ahead of it. So a lost or stale counter cannot repeat a token, and one-off names need not be kept
//! forever. (A plain counter that is seeded by the clock fails both ways: a promoted replica repeats a token, and
//! 120,000 quick acquires put it 5 s ahead, after which a loss of data makes tokens decrease.)
//!
//! Residual risk: tokens decrease only if the counter is lost or stale *while* the clock is behind the last token.

use crate::{backend::Floor, time::UtcTime, token::FencingToken};
use std::time::Duration;

/// The maximum lead of the counter over the clock, in microseconds.
pub(crate) const LEAD: u64 = 1000;

/// The last token issued or reserved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Counter {
    last: u64,
    expires_ms: Option<u64>,
}

impl Counter {
    /// Returns the number.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    #[cfg(test)]
    pub(super) const fn expires_ms(&self) -> Option<u64> {
        self.expires_ms
    }

    /// Returns `true` if a grant renews the expiry.
    fn is_renewed(&self, now: UtcTime, retention: Duration) -> bool {
        let eighth = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX).max(1).saturating_mul(125);
        self.expires_ms.is_some() && self.last / eighth != now.as_micros() / eighth
    }

    pub(crate) fn is_over(&self, now: UtcTime) -> bool {
        self.expires_ms.is_some_and(|at| now.as_millis() > at)
    }
}

/// Draws `first` and up to `reserve` further tokens. `retention` is the life of a new counter; without it, a new one does
/// not expire. An existing one keeps its expiry, which the first grant in each eighth of the retention renews. A counter
/// without an expiry keeps none: Redisson, which creates such counters, restarts a missing one at 1. The counter lasts
/// at least until the clock has caught up with it.
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
pub(super) fn raise(counter: &mut Option<Counter>, now: UtcTime, last: u64, retention: Option<Duration>) {
    // A floor may put the counter further ahead: then it lives at least until the clock has caught up.
    let ahead = last > now.as_micros().saturating_add(LEAD);
    let caught_up_ms = if ahead { UtcTime::from_micros(last).as_millis().saturating_add(1) } else { 0 };
    let expires_ms = match retention {
        Some(keep) => Some((now + keep).as_millis()),
        None => counter.as_ref().and_then(|counter| counter.expires_ms),
    };
    *counter = Some(Counter { last, expires_ms: expires_ms.map(|at| at.max(caught_up_ms)) });
}
