//! Clocks. This is the only module of this crate that reads the time.

#[cfg(feature = "test-util")]
pub use crate::test_util::TestClock;
pub use crate::time::{Moment, UtcTime};

use crate::sync::{RawMutex, lock_raw};
use std::{
    fmt::Debug,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// A source of time. Leases are measured with [`now`](Clock::now). [`wall`](Clock::wall) is only used to detect that
/// the machine may have been suspended, and to estimate the server's clock before the server's first reply.
///
/// The default is [`BootClock`]. Tests that pause tokio's time use `TestClock` (feature `test-util`).
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the current moment. It must never go back, and should advance while the machine is suspended.
    fn now(&self) -> Moment;

    /// Returns the current wall-clock time of this machine.
    fn wall(&self) -> UtcTime;
}

/// The boot-time clock of Linux and Android, which advances during suspend; elsewhere the monotonic clock.
#[derive(Debug)]
pub struct BootClock {
    /// In microseconds since boot.
    origin: u64,
}

impl BootClock {
    /// Creates a clock whose [`Moment::START`] is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: since_boot() }
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for BootClock {
    fn now(&self) -> Moment {
        Moment::from_micros(since_boot().saturating_sub(self.origin))
    }

    fn wall(&self) -> UtcTime {
        UtcTime::now()
    }
}

/// Returns the microseconds since boot. Every step of a lock reads this clock, so it does without `Duration`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    t.tv_sec.unsigned_abs() * 1_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> u64 {
    use std::{sync::OnceLock, time::Instant};
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl UtcTime {
    /// Returns the current time of this machine's wall clock.
    ///
    /// ```
    /// assert!(lock_core::clock::UtcTime::now().as_millis() > 0);
    /// ```
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }
}

/// A wall clock that is read once and then advances with the boot-time clock, so it never steps back. It is the
/// default of stores in memory.
#[derive(Debug)]
#[doc(hidden)]
pub struct SteadyClock {
    boot: BootClock,
    wall_at_start: UtcTime,
}

impl SteadyClock {
    /// Creates a clock that starts at the current time of the system's wall clock.
    #[must_use]
    pub fn new() -> Self {
        Self { boot: BootClock::new(), wall_at_start: UtcTime::now() }
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Moment {
        self.boot.now()
    }

    fn wall(&self) -> UtcTime {
        self.wall_at_start + self.boot.now().since(Moment::START)
    }
}

/// A reading of the server's clock, and the local moment at which it was probably taken.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct ServerClock {
    sample: RawMutex<Option<(Instant, UtcTime)>>,
}

impl ServerClock {
    /// Records that a request sent at `sent` was executed at server time `executed`. The execution is assumed to be in
    /// the middle of the round trip. Every reply replaces the previous reading, so a step of the server's clock takes
    /// effect immediately.
    pub fn learn(&self, sent: Instant, executed: UtcTime) {
        let middle = sent + sent.elapsed() / 2;
        *lock_raw(&self.sample) = Some((middle, executed));
    }

    /// Returns the estimated time of the server, or `None` before its first reply.
    #[must_use]
    pub fn now(&self) -> Option<UtcTime> {
        let sample = *lock_raw(&self.sample);
        sample.map(|(at, time)| time + at.elapsed())
    }

    /// Returns `true` if a request sent at `sent` and answered now may have been executed at server time `executed`:
    /// the clock did not step by more than `max_step`, or was never read.
    #[must_use]
    pub fn fits(&self, sent: Instant, executed: UtcTime, max_step: Duration) -> bool {
        let Some((at, time)) = *lock_raw(&self.sample) else { return true };
        let earliest = time + sent.saturating_duration_since(at);
        executed <= time + at.elapsed() + max_step && executed + max_step >= earliest
    }
}

#[cfg(test)]
pub(crate) mod test {
    //! A clock for plain tests without a runtime.
    use super::*;
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    #[derive(Debug, Default)]
    pub(crate) struct StillClock(AtomicU64);

    impl StillClock {
        pub(crate) fn advance(&self, d: Duration) {
            self.0.fetch_add(u64::try_from(d.as_micros()).unwrap(), Ordering::SeqCst);
        }
    }

    impl Clock for StillClock {
        fn now(&self) -> Moment {
            Moment::from_micros(self.0.load(Ordering::SeqCst))
        }
        fn wall(&self) -> UtcTime {
            UtcTime::from_micros(1_767_225_600_000_000) + self.now().since(Moment::START)
        }
    }
}
