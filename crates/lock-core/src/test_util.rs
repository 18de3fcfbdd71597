//! A factory for tests under tokio's paused time.

use crate::{clock::TestClock, factory::LockFactory, memory::MemoryBackend};
use std::sync::Arc;

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
