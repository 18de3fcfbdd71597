//! Pauses between attempts. They are random within bounds, so processes that lost their server do
//! not all return to it at the same time.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Pauses that double, up to a limit.
#[derive(Debug, Clone)]
pub(crate) struct Pauses {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Pauses {
    pub(crate) const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first }
    }

    /// Returns the next pause, with jitter.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (2 * pause).min(self.max);
        jittered(pause)
    }

    pub(crate) fn start_over(&mut self) {
        self.next = self.first;
    }

    /// Returns `true` if two attempts this far apart belong to the same outage.
    pub(crate) fn belong_together(&self, apart: Duration) -> bool {
        apart < 2 * self.max
    }
}

/// Returns a random duration between half of `pause` and `pause`.
pub(crate) fn jittered(pause: Duration) -> Duration {
    between(pause / 2, pause)
}

/// Returns a random duration within these bounds.
pub(crate) fn between(min: Duration, max: Duration) -> Duration {
    let random = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or(u32::MAX);
    min + (max - min).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pauses_double_up_to_their_limit() {
        let (first, max) = (Duration::from_millis(200), Duration::from_secs(2));
        let mut pauses = Pauses::new(first, max);
        for whole in [200, 400, 800, 1_600, 2_000, 2_000].map(Duration::from_millis) {
            let pause = pauses.next();
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?} of {whole:?}");
        }
        pauses.start_over();
        assert!(pauses.next() <= first);
    }

    #[test]
    fn pauses_differ_between_processes() {
        let pauses: BTreeSet<_> = (0..100).map(|_| jittered(Duration::from_secs(1))).collect();
        assert!(pauses.len() > 90, "{pauses:?}");
    }
}
