//! The tasks of detached handlers: how many there may be, and how a shutdown waits for them.

use std::{error::Error, fmt, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

/// The tasks of detached handlers; clones are the same. One may serve many layers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_tower::{DetachedTasks, LockLayer};
/// use std::time::Duration;
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let tasks = DetachedTasks::new();
/// let layer = LockLayer::new(locks.clone()).key("report").detach(&tasks);
/// // … serve, until it is time to end: then take no more requests, and
/// tasks.drain(Duration::from_secs(20)).await?; // let handlers finish,
/// locks.shutdown().await; // and give back what is held
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DetachedTasks {
    tracker: TaskTracker,
    slots: Arc<Semaphore>,
    alone: Duration,
}

/// How long a handler may run without its client, if nothing else is said.
const ALONE: Duration = Duration::from_secs(15 * 60);

/// The right to be one of the tasks.
pub(crate) type Slot = OwnedSemaphorePermit;

impl DetachedTasks {
    /// At most 10,000 at once.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(10_000)
    }

    /// At most `most` at once: while there are so many, requests are refused with 503, also one that has waited for its
    /// lock, and one that goes without.
    #[must_use]
    pub fn with_limit(most: usize) -> Self {
        let slots = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { tracker: TaskTracker::new(), slots, alone: ALONE }
    }

    /// How long a handler, or the rest of its body, may run after its client has left; then it is dropped, its lock is
    /// released, and a line is in the log. The default is 15 minutes. With a client it may run on: that is bounded by
    /// [`max_hold`](crate::LockLayer::max_hold).
    #[must_use]
    pub fn longest_alone(self, most: Duration) -> Self {
        Self { alone: most, ..self }
    }

    /// How many handlers run now, with a client or without.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until no handler runs any more. Stop taking requests before.
    ///
    /// # Errors
    /// [`StillRunning`] after `patience`. A shutdown of the factory then stops those that still have their lock; the others,
    /// which gave it back early or go without, end with their runtime.
    ///
    /// # Cancel safety
    /// Cancel safe: the handlers run on.
    pub async fn drain(&self, patience: Duration) -> Result<(), StillRunning> {
        self.tracker.close();
        let drained = tokio::time::timeout(patience, self.tracker.wait()).await;
        drained.map_err(|_| StillRunning { handlers: self.running() })
    }

    pub(super) fn alone(&self) -> Duration {
        self.alone
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.available_permits() == 0
    }

    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slots.clone().try_acquire_owned().ok()
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }
}

impl Default for DetachedTasks {
    fn default() -> Self {
        Self::new()
    }
}

/// Handlers did not end within the patience of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StillRunning {
    /// How many.
    pub handlers: usize,
}

impl fmt::Display for StillRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} handlers still run: wait longer, or shut the lock factory down to stop them",
            self.handlers
        )
    }
}

impl Error for StillRunning {}
