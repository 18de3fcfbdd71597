//! Back-off: waits that double up to a maximum.

use std::time::Duration;

/// The wait of a repeated task after a failure of the store.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Waits that double from `initial` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    initial: Duration,
    max: Duration,
    taken: u32,
}

impl Backoff {
    pub(crate) const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, taken: 0 }
    }

    /// Returns the next wait.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.after(self.taken);
        self.taken = self.taken.saturating_add(1);
        wait
    }

    /// Returns the wait after this many earlier ones.
    pub(crate) fn after(&self, earlier: u32) -> Duration {
        self.initial.saturating_mul(1 << earlier.min(20)).min(self.max)
    }

    /// Begins again with the first wait.
    pub(crate) fn reset(&mut self) {
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_begin_again() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
        let mut waits = || [(); 3].map(|()| backoff.next().as_millis());
        assert_eq!(waits(), [50, 100, 150]);
        assert_eq!(waits(), [150, 150, 150]);
        backoff.reset();
        assert_eq!(backoff.next().as_millis(), 50);
    }
}
