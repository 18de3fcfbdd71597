//! Lock factories: one per process, each with its own UUID.

use crate::{
    clock::Clock,
    driver::{Handle, SHUTDOWN, ShutdownReport},
    error::LockError,
    ids::ProcessId,
    lock::Lock,
    name::{LockName, NameError},
    options::LockOptions,
    owner::Owner,
};
#[cfg(doc)]
use crate::{error::LockErrorKind, options::Limits};
use std::{sync::Arc, time::Duration};

/// A factory for locks, with a store and a process id.
///
/// Create one per process and clone it: clones refer to the same factory. Two factories in one process exclude each
/// other, as two processes do.
///
/// It may be a `static`, and works under any executor, and in threads without one. The first acquire starts the
/// keeper, a thread in which the factories of the process renew leases, end waits and release dropped guards.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{LockFactory, MemoryBackend};
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let guard = locks.named("stock:42")?.acquire().await?;
/// println!("held with token {}", guard.fencing_token());
/// guard.release().await?;
/// locks.shutdown().await;
/// # Ok(()) }
/// ```
///
/// # Dropping
/// When the factory and all its locks and guards are dropped, the last guards are still released in the background,
/// for at most 10 s. [`shutdown`](Self::shutdown) waits for the releases and reports those that failed.
#[derive(Debug, Clone)]
pub struct LockFactory {
    handle: Arc<Handle>,
}

impl LockFactory {
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the handle that guards share.
    pub(crate) fn handle_of_guards(&self) -> Arc<Handle> {
        self.handle.clone()
    }

    pub(crate) fn from_handle(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Returns the lock with this name, without any IO.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::LockName;
    ///
    /// let by_text = locks.named("stock:42")?;
    /// let by_parts = locks.named(LockName::of(("stock", 42))?)?;
    /// assert_eq!(by_text.name(), by_parts.name());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`] with a [`NameError`] that names the violated rule;
    /// [`LockErrorKind::InvalidOptions`] if the factory was created by [`new`](Self::new) and its default options
    /// exceed its backend's limits.
    pub fn named<N>(&self, name: N) -> Result<Lock, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        Lock::new(self.handle.clone(), self.parse(name)?)
    }

    /// Returns the default options for locks of this factory.
    #[doc(hidden)]
    pub fn options(&self) -> LockOptions {
        self.handle.options
    }

    /// Checks that locks of this factory accept these options, for libraries that take options before they know a
    /// name.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] if the options contradict each other or exceed the limits.
    #[doc(hidden)]
    pub fn check_options(&self, options: &LockOptions) -> Result<(), LockError> {
        self.handle.terms(options)?;
        Ok(())
    }

    /// Checks that [`acquire_timeout`](Lock::acquire_timeout) accepts this wait, for libraries that configure a wait
    /// before they use it.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] above [`Limits::max_wait`].
    #[doc(hidden)]
    pub fn check_wait(&self, wait: Duration) -> Result<(), LockError> {
        Ok(self.handle.limits.check_wait(wait)?)
    }

    /// Creates a new owner, for re-entry; see [`Owner`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let me = locks.owner();
    /// let lock = locks.named("stock:42")?.with_owner(&me)?;
    /// let outer = lock.acquire().await?;
    /// let inner = lock.acquire().await?; // of the same owner
    /// assert_eq!(inner.fencing_token(), outer.fencing_token());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::new(self.handle.process, self.handle.fresh_owner())
    }

    /// Returns the UUID that identifies this process in stores.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// println!("locks of this process have leases of {}", locks.process_id());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn process_id(&self) -> ProcessId {
        self.handle.process
    }

    /// Returns the clock that measures leases.
    #[doc(hidden)]
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.handle.clock
    }

    /// Returns the name under which the store keeps a lock, including the
    /// [prefix](crate::LockFactoryBuilder::prefix) of this factory. Use it as the key of your own records
    /// about a lock if several applications keep such records in one place.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockFactory, LockName, MemoryBackend};
    ///
    /// let locks = LockFactory::builder(MemoryBackend::new()).prefix("shop-prod").build()?;
    /// assert_eq!(locks.stored_name(&LockName::new("stock:42")?)?.as_str(), "shop-prod:stock:42");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`NameError::TooLong`] if it exceeds [`LockName::MAX_BYTES`] with the prefix.
    pub fn stored_name(&self, name: &LockName) -> Result<LockName, NameError> {
        self.handle.check_name(name)?;
        Ok(self.handle.stored(name))
    }

    pub(crate) fn parse<N>(&self, name: N) -> Result<LockName, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let name = name.try_into().map_err(NameError::from)?;
        self.handle.check_name(&name).map_err(|error| LockError::from(error).of(&name))?;
        Ok(name)
    }

    /// Returns the number of names that this factory holds or waits for; zero once all past work is cleaned up.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// assert_eq!(locks.active_locks(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn active_locks(&self) -> usize {
        self.handle.active_locks()
    }

    /// Shuts the factory down within 10 s; see [`shutdown_within`](Self::shutdown_within).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let report = locks.shutdown().await;
    /// assert!(report.is_clean() && !guard.is_held());
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the shutdown continues in the background; call it again to wait for the rest.
    pub async fn shutdown(&self) -> ShutdownReport {
        self.shutdown_within(SHUTDOWN).await
    }

    /// Shuts the factory down: waiters fail with [`LockErrorKind::ShutDown`], and holds end with
    /// [`LostReason::ShutDown`](crate::LostReason::ShutDown) and are released in the store. Completes once the store
    /// has confirmed every release, or after `within` at the latest. The report names the locks whose release was not
    /// confirmed by then; their leases expire by themselves. A lock whose [minimum hold](LockOptions::min_hold) has not
    /// passed is not released: its lease also expires by itself.
    ///
    /// It does not wait for work that runs under a lock; that work is notified as for any other loss. To drain, stop
    /// accepting work, await your tasks, then shut down.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let report = locks.shutdown_within(Duration::from_secs(3)).await;
    /// for name in &report.unconfirmed {
    ///     println!("{name} is free when its lease ends");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the shutdown continues in the background for at most 10 s or `within`,
    /// whichever is longer; call it again to wait for the rest.
    pub async fn shutdown_within(&self, within: Duration) -> ShutdownReport {
        self.handle.shut_down(within).await
    }
}
