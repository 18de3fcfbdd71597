//! For tests under tokio's paused time (feature `test-util`): a clock that follows it, and a factory with that clock.

use crate::{
    clock::Clock,
    factory::LockFactory,
    memory::MemoryBackend,
    time::{Moment, UtcTime},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock for tests. It follows tokio's time, so `tokio::time::pause` and `advance` control it. Its wall clock can be
/// stepped, and it can jump as if the process had been suspended.
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
    suspended_micros: AtomicU64,
}

impl TestClock {
    /// The initial wall-clock time of every test: 2026-01-01T00:00:00Z.
    pub const WALL_AT_START: UtcTime = UtcTime::from_micros(1_767_225_600_000_000);

    /// Creates a clock whose [`Moment::START`] is tokio's current time.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
            wall_step: AtomicI64::new(0),
            suspended_micros: AtomicU64::new(0),
        }
    }

    /// Steps the wall clock by `micros`, back if negative. [`now`](Clock::now) is not affected.
    pub fn step_wall(&self, micros: i64) {
        self.wall_step.fetch_add(micros, Ordering::SeqCst);
    }

    /// Jumps ahead by `time` while no task runs, as if the operating system had suspended the process: no timer fires
    /// and no renewal is sent in between. Leases that end during that time are lost, also in the store if it uses
    /// this clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::LockFactory;
    /// use std::time::Duration;
    ///
    /// let (locks, _, clock) = LockFactory::paused();
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// clock.suspend(Duration::from_secs(60));
    /// assert!(!guard.is_held());
    /// # Ok(()) }
    /// ```
    pub fn suspend(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.suspended_micros.fetch_add(micros, Ordering::SeqCst);
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed() + Duration::from_micros(self.suspended_micros.load(Ordering::SeqCst))
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        Moment::START + self.elapsed()
    }

    fn wall(&self) -> UtcTime {
        let steady = Self::WALL_AT_START + self.elapsed();
        UtcTime::from_micros(steady.as_micros().saturating_add_signed(self.wall_step.load(Ordering::SeqCst)))
    }
}

/// For tests (feature `test-util`).
impl LockFactory {
    /// Creates a factory on an in-memory store for a test under tokio's paused time, and returns it with the store and
    /// the clock of both. Another factory on the same store and clock acts as another process.
    ///
    /// The store can [lose](MemoryBackend::lose) a lock, and the clock can [suspend](TestClock::suspend) the process.
    ///
    /// ```
    /// // `#[tokio::test(start_paused = true)]`
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::LockFactory;
    /// use std::time::Duration;
    ///
    /// let (here, store, clock) = LockFactory::paused();
    /// let there = LockFactory::builder(store).clock(clock.clone()).build()?;
    ///
    /// let guard = here.named("stock:42")?.acquire().await?;
    /// assert!(there.named("stock:42")?.try_acquire().await?.is_none());
    /// clock.suspend(Duration::from_secs(60)); // both of them
    /// assert!(there.named("stock:42")?.try_acquire().await?.is_some());
    /// assert!(!guard.is_held());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn paused() -> (Self, MemoryBackend, Arc<TestClock>) {
        let clock = Arc::new(TestClock::new());
        let store = MemoryBackend::with_clock(clock.clone());
        let builder = Self::builder(store.clone()).clock(clock.clone());
        (Self::with_parts(builder, None), store, clock)
    }
}
