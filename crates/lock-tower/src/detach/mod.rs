//! Handlers that continue after their client disconnects: their tasks, the limit on their number, and their shutdown.
//!
//! A detached handler runs in a task from its first poll to the last frame of its body. The task
//! sends the head and the frames to the client, if it is still connected.

mod handler;

use crate::{
    handle::Held,
    log::OutageLine,
    policy::{OnLost, ReleaseOn},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

/// Longer than any handler should need. Without it, a handler that hangs would remain until the
/// next restart.
const DEFAULT_MAX_ORPHAN_TIME: Duration = Duration::from_secs(15 * 60);

/// A set of tasks for detached handlers. Clones share the set, and several layers can use it.
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
/// // … serve, until it is time to end: then stop accepting requests, and
/// let drained = tasks.drain(Duration::from_secs(20)).await; // let handlers finish,
/// locks.shutdown().await; // and give back what is held, also after a timeout
/// # Ok(drained?) }
/// ```
#[derive(Debug, Clone)]
pub struct DetachedTasks {
    tracker: TaskTracker,
    slots: Arc<Semaphore>,
    max_orphan_time: Duration,
    log: Arc<OutageLine>,
}

/// A permit to run one task.
pub(crate) type TaskSlot = OwnedSemaphorePermit;

impl DetachedTasks {
    /// Creates a set that runs at most 10,000 tasks at a time.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(10_000)
    }

    /// Creates a set that runs at most `limit` tasks at a time. While that many are running, requests are rejected with
    /// 503, even if they have already waited for their lock or would be passed through without it.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        let slots = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        let (tracker, log) = (TaskTracker::new(), Arc::default());
        Self { tracker, slots, max_orphan_time: DEFAULT_MAX_ORPHAN_TIME, log }
    }

    /// Sets the maximum time that a handler, or the rest of its body, can run after its client
    /// disconnects. After this time, the handler is dropped, its lock is released, and a warning is
    /// logged. The default is 15 minutes. While its client is connected, a handler is limited only
    /// by [`max_hold`](crate::LockLayer::max_hold).
    #[must_use]
    pub fn max_orphan_time(self, limit: Duration) -> Self {
        Self { max_orphan_time: limit, ..self }
    }

    /// Returns the number of running handlers, with or without a client.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until all handlers have ended. Stop accepting requests first.
    ///
    /// # Errors
    /// [`DrainTimeout`] if handlers are still running after `timeout`. A shutdown of the factory
    /// then stops the handlers that hold a lock. Handlers that released their lock early or run
    /// without one end with the runtime.
    ///
    /// # Cancel safety
    /// Cancel safe: the handlers continue to run.
    pub async fn drain(&self, timeout: Duration) -> Result<(), DrainTimeout> {
        self.tracker.close();
        let drained = tokio::time::timeout(timeout, self.tracker.wait()).await;
        drained.map_err(|_| DrainTimeout { handlers: self.running() })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.available_permits() == 0
    }

    pub(crate) fn slot(&self) -> Option<TaskSlot> {
        self.slots.clone().try_acquire_owned().ok()
    }
}

impl Default for DetachedTasks {
    fn default() -> Self {
        Self::new()
    }
}

/// The error returned if handlers are still running when [`DetachedTasks::drain`] times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "detached handlers still running: {handlers}; wait longer, or shut down the lock factory to stop them"
)]
pub struct DrainTimeout {
    /// The number of handlers that were still running.
    pub handlers: usize,
}

/// The policy for a client disconnect, as the type of a [`LockLayer`](crate::LockLayer): `()` drops the handler, and
/// [`DetachedTasks`] runs it in its own task.
pub trait Disconnect<F> {
    /// The future of the handler.
    type Future;

    /// Runs a handler, which may keep its lock.
    fn run(handler: F, keep: Keep) -> Self::Future;
}

impl<F> Disconnect<F> for () {
    type Future = F;

    fn run(handler: F, _: Keep) -> F {
        handler
    }
}

/// The lock that a detached handler keeps.
pub enum Keep {
    /// The request needs no lock, or the layer detaches no handlers.
    Nothing,
    /// The handler has its lock, or the decision that it runs without one.
    Now(KeepLock),
    /// The handler requests its lock later.
    Later(oneshot::Receiver<KeepLock>),
}

/// The share of a lock that a handler's task holds, and its settings.
pub struct KeepLock {
    pub(crate) tasks: DetachedTasks,
    /// The permit that counts against the task limit until the task ends.
    pub(crate) _slot: TaskSlot,
    pub(crate) held: Option<Arc<Held>>,
    pub(crate) on_lost: OnLost,
    pub(crate) release_on: ReleaseOn,
    pub(crate) asks_for_head: bool,
}
