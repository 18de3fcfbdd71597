//! Acquires and releases that block their thread.

use crate::{
    driver::{Handle, is_async_context},
    error::{LockError, LockErrorKind},
    guard::LockGuard,
    lock::Lock,
    machine::ReleaseOutcome,
    name::LockName,
};
use std::{future::Future, time::Duration};

/// For threads that may block: code without `async`, thread pools and `spawn_blocking`. Blocking and async waiters of
/// one process are served in the order of their arrival.
///
/// These functions use the factory's [`Worker`](crate::Worker). Without one they use the thread's runtime, as in
/// `spawn_blocking`, or else the one in which the factory was first used. That runtime must make progress during the
/// call: a current-thread runtime only does so within its `block_on`. The factory's own worker always does.
impl Lock {
    /// Blocks the thread until the lock is acquired.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockFactory, MemoryBackend, Worker};
    ///
    /// let locks = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread()?).build()?;
    /// let guard = locks.named("stock:42")?.acquire_blocking()?;
    /// println!("held with token {}", guard.fencing_token());
    /// guard.release_blocking()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and [`LockErrorKind::AsyncContext`] if called from a tokio task, where
    /// blocking the thread is not allowed. [`LockErrorKind::NoRuntime`] if the factory has no worker and has not yet
    /// been used in a runtime, or if that runtime has ended.
    ///
    /// # Panics
    /// Panics if called from a future wrapped in [`tokio::task::unconstrained`], or while a task is dropped during the
    /// shutdown of a multi-threaded runtime. Neither case can be distinguished from a thread that may block.
    pub fn acquire_blocking(&self) -> Result<LockGuard, LockError> {
        block_on(self.handle(), self.name(), self.acquire())?
    }

    /// Tries once to acquire the lock, blocking the thread until the store has answered. Returns `None` if the lock is
    /// held, or if another task of this process is waiting for it.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend, Worker};
    /// # let locks = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread()?).build()?;
    /// let lock = locks.named("report")?;
    /// let guard = lock.try_acquire_blocking()?;
    /// assert!(guard.is_some() && lock.try_acquire_blocking()?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`try_acquire`](Self::try_acquire) and [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Panics
    /// Same as [`acquire_blocking`](Self::acquire_blocking).
    pub fn try_acquire_blocking(&self) -> Result<Option<LockGuard>, LockError> {
        block_on(self.handle(), self.name(), self.try_acquire())?
    }

    /// Blocks the thread until the lock is acquired, but no longer than `wait`. Zero means a single attempt.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend, Worker};
    /// # let locks = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread()?).build()?;
    /// use std::time::Duration;
    ///
    /// let guard = locks.named("report")?.acquire_timeout_blocking(Duration::from_millis(500))?;
    /// assert!(guard.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`acquire_timeout`](Self::acquire_timeout) and [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Panics
    /// Same as [`acquire_blocking`](Self::acquire_blocking).
    pub fn acquire_timeout_blocking(&self, wait: Duration) -> Result<LockGuard, LockError> {
        block_on(self.handle(), self.name(), self.acquire_timeout(wait))?
    }
}

impl LockGuard {
    /// Releases the lock, and blocks the thread until the store has answered; see [`release`](Self::release).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend, Worker};
    /// # let locks = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread()?).build()?;
    /// use lock_core::ReleaseOutcome;
    ///
    /// let guard = locks.named("report")?.acquire_blocking()?;
    /// assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`release`](Self::release). With [`LockErrorKind::AsyncContext`] or [`LockErrorKind::NoRuntime`], the
    /// lock is released as if the guard had been dropped.
    ///
    /// # Panics
    /// Same as [`Lock::acquire_blocking`]. The lock is then released as if the guard had been dropped.
    pub fn release_blocking(self) -> Result<ReleaseOutcome, LockError> {
        let (handle, name) = (self.handle.clone(), self.name().clone());
        block_on(&handle, &name, self.release())?
    }
}

fn block_on<T>(handle: &Handle, name: &LockName, work: impl Future<Output = T>) -> Result<T, LockError> {
    if is_async_context() {
        return Err(LockError::new(LockErrorKind::AsyncContext).of(name));
    }
    match handle.runtime_for_threads() {
        Some(runtime) => Ok(runtime.block_on(work)),
        None => Err(LockError::new(LockErrorKind::NoRuntime).of(name)),
    }
}
