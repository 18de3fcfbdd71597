//! Acquires and releases that block their thread.

use crate::{
    driver::is_async_context,
    error::{LockError, LockErrorKind},
    guard::LockGuard,
    lock::Lock,
    machine::ReleaseOutcome,
    name::LockName,
};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

/// For threads that may block: code without `async`, thread pools and `spawn_blocking`. Blocking and async waiters of
/// one process are served in the order of their arrival. No runtime is needed.
impl Lock {
    /// Blocks the thread until the lock is acquired.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire_blocking()?;
    /// println!("held with token {}", guard.fencing_token());
    /// guard.release_blocking()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and [`LockErrorKind::AsyncContext`] if called from a tokio task, where
    /// blocking the thread is not allowed.
    ///
    /// # Panics
    /// Panics if called from a future wrapped in [`tokio::task::unconstrained`], or while a task is dropped during the
    /// shutdown of a multi-threaded runtime. Neither case can be distinguished from a thread that may block.
    pub fn acquire_blocking(&self) -> Result<LockGuard, LockError> {
        block_on(self.name(), self.acquire())?
    }

    /// Tries once to acquire the lock, blocking the thread until the store has answered. Returns `None` if the lock is
    /// held, or if another task of this process is waiting for it.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
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
        block_on(self.name(), self.try_acquire())?
    }

    /// Blocks the thread until the lock is acquired, but no longer than `wait`. Zero means a single attempt.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
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
        block_on(self.name(), self.acquire_timeout(wait))?
    }
}

impl LockGuard {
    /// Releases the lock, and blocks the thread until the store has answered; see [`release`](Self::release).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::ReleaseOutcome;
    ///
    /// let guard = locks.named("report")?.acquire_blocking()?;
    /// assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`release`](Self::release). With [`LockErrorKind::AsyncContext`], the lock is released as if the guard
    /// had been dropped.
    ///
    /// # Panics
    /// Same as [`Lock::acquire_blocking`]. The lock is then released as if the guard had been dropped.
    pub fn release_blocking(self) -> Result<ReleaseOutcome, LockError> {
        let name = self.name().clone();
        block_on(&name, self.release())?
    }
}

/// Polls `work` on this thread until it is done.
pub(crate) fn block_on<T>(name: &LockName, work: impl Future<Output = T>) -> Result<T, LockError> {
    if is_async_context() {
        return Err(LockError::new(LockErrorKind::AsyncContext).of(name));
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return Ok(done),
            Poll::Pending => thread::park(),
        }
    }
}

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
