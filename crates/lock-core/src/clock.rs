//! Where the time comes from: the only place of this crate that reads a clock.

pub use crate::time::{Moment, ServerTime};
use std::{
    fmt::Debug,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A source of time. Leases are measured with [`now`](Clock::now); [`wall`](Clock::wall) only raises suspicion
/// that the machine was asleep.
///
/// The default is [`BootClock`]. Tests that pause tokio's time use [`TestClock`].
pub trait Clock: Debug + Send + Sync + 'static {
    /// The moment now. It must never go back, and should go on while the machine is suspended.
    fn now(&self) -> Moment;

    /// The wall clock now.
    fn wall(&self) -> ServerTime;
}

/// The boot-time clock of Linux and Android, which goes on during suspend; elsewhere the monotonic clock.
#[derive(Debug)]
pub struct BootClock {
    origin: Duration,
}

impl BootClock {
    /// A clock whose [`Moment::START`] is now.
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
        Moment::START + since_boot().saturating_sub(self.origin)
    }

    fn wall(&self) -> ServerTime {
        system_wall()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or(0))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    use std::{sync::OnceLock, time::Instant};
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

fn system_wall() -> ServerTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ServerTime::from_micros(0) + since
}

/// A wall clock that was read once and goes on with the boot-time clock: it never steps back. The in-memory
/// backend's default.
#[derive(Debug)]
pub struct SteadyClock {
    boot: BootClock,
    wall_at_start: ServerTime,
}

impl SteadyClock {
    /// A clock that begins with the system's wall clock.
    #[must_use]
    pub fn new() -> Self {
        Self { boot: BootClock::new(), wall_at_start: system_wall() }
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

    fn wall(&self) -> ServerTime {
        self.wall_at_start + self.boot.now().since(Moment::START)
    }
}

/// A clock for tests: it follows tokio's time, so `tokio::time::pause` and `advance` move it, and its wall
/// clock can be stepped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use lock_core::clock::{Clock, TestClock};
/// use std::time::Duration;
///
/// let clock = TestClock::new();
/// tokio::time::advance(Duration::from_secs(3)).await;
/// assert_eq!(clock.now().as_micros(), 3_000_000);
/// # }
/// ```
#[derive(Debug)]
pub struct TestClock {
    origin: tokio::time::Instant,
    wall_step: AtomicI64,
}

impl TestClock {
    /// The wall clock of every test begins here: 2026-01-01T00:00:00Z.
    pub const WALL_AT_START: ServerTime = ServerTime::from_micros(1_767_225_600_000_000);

    /// A clock whose [`Moment::START`] is tokio's now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: tokio::time::Instant::now(), wall_step: AtomicI64::new(0) }
    }

    /// Steps the wall clock by `micros`, back if negative; [`now`](Clock::now) is not touched.
    pub fn step_wall(&self, micros: i64) {
        self.wall_step.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        Moment::START + self.origin.elapsed()
    }

    fn wall(&self) -> ServerTime {
        let steady = Self::WALL_AT_START + self.origin.elapsed();
        ServerTime::from_micros(
            steady.as_micros().saturating_add_signed(self.wall_step.load(Ordering::SeqCst)),
        )
    }
}

#[cfg(test)]
pub(crate) mod test {
    //! A clock for plain tests, which have no runtime.
    use super::*;
    use std::sync::atomic::AtomicU64;

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
        fn wall(&self) -> ServerTime {
            TestClock::WALL_AT_START + self.now().since(Moment::START)
        }
    }
}
