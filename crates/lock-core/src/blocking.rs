//! Acquires and releases that block their thread.

use crate::{
    clock::Clock,
    driver::{Handle, is_async_context},
    error::{LockError, LockErrorKind},
    guard::LockGuard,
    lock::Lock,
    machine::ReleaseOutcome,
    name::LockName,
    sync::enter,
};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};
use tokio::runtime::RuntimeFlavor;

/// The delay after which a runtime that should have answered counts as not driven.
const GRACE: Duration = Duration::from_secs(1);

/// For threads that may block: code without `async`, thread pools and `spawn_blocking`. Blocking and async waiters of
/// one process are served in the order of their arrival.
///
/// These functions use the factory's [`Worker`](crate::Worker). Without one they use the thread's runtime, as in
/// `spawn_blocking`, or else the one in which the factory was first used. That runtime must make progress during the
/// call: a current-thread runtime only does so within its `block_on`. The factory's own worker always does. In a
/// current-thread runtime that makes no progress, a call with a limit fails with [`LockErrorKind::NoRuntime`] one
/// operation timeout and a second after its limit, and [`acquire_blocking`](Lock::acquire_blocking), which has none,
/// waits until the runtime is driven again.
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
        block_on(self.handle(), self.name(), None, self.acquire())?
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
        let limit = self.operation_timeout();
        block_on(self.handle(), self.name(), Some(limit), self.try_acquire())?
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
        let limit = wait.saturating_add(self.operation_timeout());
        block_on(self.handle(), self.name(), Some(limit), self.acquire_timeout(wait))?
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
        let (handle, name, timeout) =
            (self.handle.clone(), self.name().clone(), self.terms.operation_timeout);
        // A release is answered within two operation timeouts.
        block_on(&handle, &name, Some(timeout.saturating_mul(2)), self.release())?
    }
}

/// Blocks the thread until `work` is done. `limit` is the time within which it ends in a runtime that makes progress.
fn block_on<T>(
    handle: &Handle,
    name: &LockName,
    limit: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, LockError> {
    if is_async_context() {
        return Err(LockError::new(LockErrorKind::AsyncContext).of(name));
    }
    let Some(runtime) = handle.runtime_for_threads() else {
        return Err(LockError::new(LockErrorKind::NoRuntime).of(name));
    };
    // If nothing drives a current-thread runtime, its timers do not end the wait.
    match limit.filter(|_| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread) {
        None => Ok(runtime.block_on(work)),
        Some(limit) => enter(&runtime, || poll_within(&*handle.clock, limit.saturating_add(GRACE), work))
            .ok_or_else(|| {
                let detail =
                    "the factory's current-thread runtime makes no progress: give the factory a `Worker`";
                LockError::new(LockErrorKind::NoRuntime).detail(detail.to_owned()).of(name)
            }),
    }
}

/// Polls `work` on this thread until it is done, but no longer than `limit`.
fn poll_within<T>(clock: &dyn Clock, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut work = pin!(work);
    let until = clock.now() + limit;
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(done);
        }
        let left = until.since(clock.now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
