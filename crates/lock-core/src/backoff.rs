//! A back-off: waits that double from an initial delay up to a maximum.

use std::time::Duration;

/// Waits that double from `initial` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    taken: u32,
}

impl Backoff {
    /// Creates a back-off that starts at `initial`.
    #[must_use]
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, taken: 0 }
    }

    /// Returns the next wait.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.after(self.taken);
        self.taken = self.taken.saturating_add(1);
        wait
    }

    /// Returns the wait after this many earlier ones.
    #[must_use]
    pub fn after(&self, earlier: u32) -> Duration {
        self.initial.saturating_mul(1 << earlier.min(20)).min(self.max)
    }

    /// Starts over at the first wait.
    pub fn reset(&mut self) {
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
        let mut waits = || [(); 3].map(|()| backoff.next_wait().as_millis());
        assert_eq!(waits(), [50, 100, 150]);
        assert_eq!(waits(), [150, 150, 150]);
        backoff.reset();
        assert_eq!(backoff.next_wait().as_millis(), 50);
    }
}
