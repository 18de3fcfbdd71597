//! The tasks of detached handlers: how many there may be, and how a shutdown waits for them.

use std::{error::Error, fmt, time::Duration};
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
    most: usize,
}

impl DetachedTasks {
    /// At most 10,000 at once.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(10_000)
    }

    /// At most `most` at once: while there are so many, requests are refused with 503. Requests that wait for their lock meanwhile
    /// are not counted, so it may be exceeded by those.
    #[must_use]
    pub fn with_limit(most: usize) -> Self {
        Self { tracker: TaskTracker::new(), most }
    }

    /// How many handlers run now, with a client or without.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until no handler runs any more. Stop taking requests before.
    ///
    /// # Errors
    /// [`StillRunning`] after `patience`: what runs then ends with its runtime, or when the factory is shut down.
    ///
    /// # Cancel safety
    /// Cancel safe: the handlers run on.
    pub async fn drain(&self, patience: Duration) -> Result<(), StillRunning> {
        self.tracker.close();
        let drained = tokio::time::timeout(patience, self.tracker.wait()).await;
        drained.map_err(|_| StillRunning { handlers: self.running() })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.running() >= self.most
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
