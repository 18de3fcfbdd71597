//! Helpers of the tests: a store on a clock that follows tokio's, and factories on it.

use async_trait::async_trait;
use lock_core::{
    LockFactory, LockName, LockOptions, MemoryBackend, Store,
    backend::{
        Backend, BackendError, Capabilities, ForceReleaseRequest, ForceReleased, Inspected, Reply, Submission,
    },
    clock::{Clock, TestClock, UtcTime},
};
use lock_testkit::FaultyBackend;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
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

    /// Creates two worlds: in one the store's operations are futures, in the other tasks of the store.
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
        let faulty = FaultyBackend::new(store.clone());
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

/// A store that keeps the submitted operations until the test answers them.
#[derive(Debug)]
pub(crate) struct Kept {
    memory: MemoryBackend,
    queue: Mutex<VecDeque<Submission>>,
    panics: Mutex<u32>,
}

impl Kept {
    pub(crate) fn new(memory: &MemoryBackend) -> Self {
        Self { memory: memory.clone(), queue: Mutex::default(), panics: Mutex::default() }
    }

    /// Makes it panic this many times.
    pub(crate) fn panics(&self, times: u32) {
        *self.panics.lock().unwrap() = times;
    }

    pub(crate) fn next(&self) -> Option<Submission> {
        self.queue.lock().unwrap().pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.lock().unwrap().len()
    }

    /// Returns the number of operations whose callers are still waiting.
    pub(crate) fn wanted(&self) -> usize {
        self.queue.lock().unwrap().iter().filter(|submission| submission.is_wanted()).count()
    }

    /// Executes and answers all, and those that follow.
    pub(crate) fn answer_all(&self) {
        while let Some(submission) = self.next() {
            self.memory.submit(submission);
        }
    }
}

#[async_trait]
impl Backend for Kept {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities().with_wakes_in_task()
    }
    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.memory.server_now(name)
    }
    fn submit(&self, submission: Submission) {
        let mut panics = self.panics.lock().unwrap();
        if *panics > 0 {
            *panics -= 1;
            drop(panics);
            panic!("the store panics");
        }
        self.queue.lock().unwrap().push_back(submission);
    }
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.memory.inspect(name).await
    }
    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        self.memory.force_release(r).await
    }
}
