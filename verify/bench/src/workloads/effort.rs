//! The length of measurements.

use crate::contestants::Contestant;
use std::time::Duration;

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Seconds. Only shows that every workload works; its figures are meaningless.
    Smoke,
    /// Less than three minutes for all workloads.
    Quick,
    /// Long enough for stable figures.
    Full,
}

impl Effort {
    fn choose<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    pub(crate) fn rounds(self) -> usize {
        self.choose(1, 3, 5)
    }

    /// Returns the number of rounds for each step of a series.
    pub(crate) fn growth_rounds(self) -> usize {
        self.choose(1, 1, 3)
    }

    /// Returns the Redis clients to compare. Short runs skip the second one to save time.
    pub(crate) fn clients(self) -> &'static [Contestant] {
        const BOTH: [Contestant; 2] = [Contestant::Fred, Contestant::RedisRs];
        if self == Self::Full { &BOTH } else { &BOTH[..1] }
    }

    /// Returns the time during which cycles of one process are measured.
    pub(crate) fn window(self) -> Duration {
        Duration::from_millis(self.choose(40, 400, 2_000))
    }

    /// Returns the time during which cycles of several processes are measured.
    pub(crate) fn long_window(self) -> Duration {
        self.window() * 2
    }

    /// Returns the time during which cycles of each step of a series are measured.
    pub(crate) fn growth_window(self) -> Duration {
        Duration::from_millis(self.choose(40, 400, 1_000))
    }

    pub(crate) fn warm_up(self) -> Duration {
        Duration::from_millis(self.choose(30, 150, 500))
    }

    /// Returns the number of cycles of each task while allocations are counted.
    pub(crate) fn counted_cycles(self) -> usize {
        self.choose(10, 100, 200)
    }

    pub(crate) fn waiters(self) -> usize {
        self.choose(20, 1_000, 1_000)
    }

    pub(crate) fn waiting(self) -> Duration {
        Duration::from_millis(self.choose(100, 2_500, 20_000))
    }

    pub(crate) fn held_locks(self) -> usize {
        self.choose(20, 2_000, 10_000)
    }

    /// Returns the number of renewals of held locks. A renewal takes place every third of the default lease, 10 s.
    pub(crate) fn renewals(self) -> u32 {
        self.choose(0, 3, 4)
    }
}
