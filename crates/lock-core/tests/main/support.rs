//! Helpers of the tests: a store on a clock that follows tokio's, and factories on it.

use lock_core::{
    LockFactory, LockName, LockOptions, MemoryBackend, Store,
    clock::{Clock, TestClock},
};
use lock_testkit::FaultyBackend;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The limit after which a test in real time is considered hanging. It checks no bound: even a busy machine needs a
/// small part of it.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A store whose clock, like that of its factories, is tokio's paused one.
pub(crate) struct World {
    pub(crate) clock: Arc<TestClock>,
    pub(crate) store: MemoryBackend,
    pub(crate) faulty: FaultyBackend,
    pub(crate) locks: LockFactory,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(LockOptions::new())
    }

    /// Creates two worlds: in one the driver calls the futures of the store, in the other it submits to its pipeline.
    pub(crate) fn both() -> [Self; 2] {
        [FaultyBackend::into, |faulty: FaultyBackend| faulty.pipelined()]
            .map(|store| Self::over(LockOptions::new(), store))
    }

    pub(crate) fn with(options: LockOptions) -> Self {
        Self::over(options, FaultyBackend::into)
    }

    fn over(options: LockOptions, store_of: fn(FaultyBackend) -> Store) -> Self {
        let clock = Arc::new(TestClock::new());
        // The store has its own clock: a step of the client's wall clock is not a step of the server's.
        let store = MemoryBackend::with_clock(Arc::new(TestClock::new()));
        let faulty = FaultyBackend::new(Arc::new(store.clone()));
        let locks = LockFactory::builder(store_of(faulty.clone()))
            .clock(clock.clone())
            .options(options)
            .build()
            .unwrap();
        Self { clock, store, faulty, locks }
    }

    /// Creates another process on the same store, with a connection that does not fail.
    pub(crate) fn another_process(&self) -> LockFactory {
        LockFactory::builder(self.store.clone()).clock(self.clock.clone()).build().unwrap()
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now().since(lock_core::clock::Moment::START)
    }

    /// Runs everything that can run now, without advancing time.
    pub(crate) async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn waiters(&self, name: &LockName) -> usize {
        self.locks.inspect(name).await.unwrap().waiters
    }

    /// Asserts that nothing is left: no lease in the store, no subscription, no name in the process.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.store.held(), Vec::<LockName>::new(), "leases are left");
        assert_eq!(self.store.watched(), 0, "subscriptions are left");
        assert_eq!(self.locks.active_locks(), 0, "the process still works on names");
    }
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

/// Waits, in real time, until the condition is true.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < HANGS, "{what}: still not after {HANGS:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
