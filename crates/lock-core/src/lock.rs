//! The handle of a named lock.

use crate::{
    acquire::{AcquireFuture, LockSpec, TryAcquireFuture, Wait},
    driver::Handle,
    error::{LockError, LockErrorKind, RunError},
    guard::LockGuard,
    hold::Hold,
    machine::LostReason,
    name::LockName,
    options::LockOptions,
    owner::Owner,
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// A named lock of a factory, returned by [`LockFactory::named`](crate::LockFactory::named) without any IO.
///
/// This is a handle: it is cheap to clone and does not hold the lock. Options belong to the handle, so they
/// can be set in one place and passed on.
///
/// # Fairness
/// Waiters of one process are served in the order of their first poll. A process sends one request at a time regardless
/// of the number of waiting tasks, and passes the lease from one task to the next within the budget of
/// [`LockOptions::hand_off`].
///
/// Between processes the store decides: the first request after a release wins. Processes that contend for a lock at
/// similar distances from the store usually take turns: those that had the lock more recently delay their requests by
/// up to 5 ms. This order is not guaranteed.
///
/// # Exclusion
/// Every acquisition has its own owner, so acquiring a lock twice in one task waits forever, as with
/// [`tokio::sync::Mutex`]. For re-entry, see [`Owner`].
#[derive(Clone)]
pub struct Lock {
    handle: Arc<Handle>,
    spec: LockSpec,
    options: LockOptions,
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: LockName) -> Result<Self, LockError> {
        let options = handle.options;
        let terms = handle.terms(&options)?;
        Ok(Self { handle, spec: LockSpec { name, owner: None, terms }, options })
    }

    /// Acquires a lock of a set, with this name and owner.
    pub(crate) fn acquire_member(&self, name: LockName, owner: Owner, wait: Wait) -> TryAcquireFuture {
        let spec = LockSpec { name, owner: Some(owner), terms: self.spec.terms.clone() };
        TryAcquireFuture(AcquireFuture::new(self.handle.clone(), spec, wait))
    }

    /// Acquires the lock with another name and the options of this one, like
    /// `self.with_name(name).acquire_timeout(wait)` without creating the intermediate handle.
    #[doc(hidden)]
    pub fn acquire_named(&self, name: LockName, wait: Duration) -> AcquireFuture {
        let spec = LockSpec { name, owner: self.spec.owner, terms: self.spec.terms.clone() };
        AcquireFuture::new(self.handle.clone(), spec, Wait::For(wait))
    }

    /// Returns the owner given to [`with_owner`](Self::with_owner).
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.spec.owner
    }

    pub(crate) fn given_owner(&self) -> Option<Owner> {
        self.spec.given_owner(self.handle.process)
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Returns the name of the lock.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// assert_eq!(locks.named("stock:42")?.name().as_str(), "stock:42");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.spec.name
    }

    /// Returns the lock with another name and the same options and owner. Options are checked when they are set, so a
    /// program that locks many names keeps one `Lock` as a template. If the factory's
    /// [prefix](crate::LockFactoryBuilder::prefix) makes the name too long, acquiring the lock fails.
    ///
    /// ```
    /// # use lock_core::{LockFactory, LockName, MemoryBackend};
    /// # use std::time::Duration;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let orders = locks.named("order")?;
    /// let orders = orders.with_options(orders.options().max_hold(Duration::from_secs(60)))?;
    /// let order = orders.with_name(LockName::new("order:42")?);
    /// assert_eq!(order.name().as_str(), "order:42");
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    #[must_use]
    pub fn with_name(&self, name: LockName) -> Self {
        let spec = LockSpec { name, owner: self.spec.owner, terms: self.spec.terms.clone() };
        Self { handle: self.handle.clone(), spec, options: self.options }
    }

    /// Returns the same lock with a fixed lease: it is not renewed, and the hold is lost when it expires. All other
    /// options are kept.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let guard = locks.named("import")?.with_fixed_lease(Duration::from_secs(60))?.acquire().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(60), "and it is not renewed");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] if the lease is too short or too long, or contradicts the other options.
    pub fn with_fixed_lease(&self, lease: Duration) -> Result<Self, LockError> {
        self.with_options(self.options.fixed_lease(lease))
    }

    /// Returns the lock's options. Modify them and pass them to [`with_options`](Self::with_options).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let lock = locks.named("report")?;
    /// let lock = lock.with_options(lock.options().lease(Duration::from_secs(10)))?;
    /// # Ok(()) }
    /// ```
    pub fn options(&self) -> LockOptions {
        self.options
    }

    /// Returns the same lock with other options. They replace *all* options of the factory; to change one and keep
    /// the others, start from [`options`](Self::options):
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use std::time::Duration;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let lock = locks.named("report")?;
    /// let bounded = lock.with_options(lock.options().max_hold(Duration::from_secs(600)))?;
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] if they contradict each other or exceed the limits.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, LockError> {
        let terms = self.handle.terms(&options).map_err(|e| LockError::from(e).of(self.name()))?;
        Ok(Self { handle: self.handle.clone(), spec: LockSpec { terms, ..self.spec.clone() }, options })
    }

    /// Returns the same lock for this owner, which re-enters its own holds. A re-entry joins the hold and shares its
    /// token and watchdog. A longer lease extends the hold; a shorter one does not shorten it.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// async fn reserve(locks: &LockFactory, me: &lock_core::Owner) -> Result<(), lock_core::LockError> {
    ///     let _guard = locks.named("stock:42")?.with_owner(me)?.acquire().await?; // re-enters, or acquires
    ///     Ok(())
    /// }
    ///
    /// let me = locks.owner();
    /// let _guard = locks.named("stock:42")?.with_owner(&me)?.acquire().await?;
    /// reserve(&locks, &me).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::ForeignOwner`] if another factory created the owner.
    pub fn with_owner(&self, owner: &Owner) -> Result<Self, LockError> {
        if owner.process() != self.handle.process {
            return Err(LockError::new(LockErrorKind::ForeignOwner).of(self.name()));
        }
        let spec = LockSpec { owner: Some(*owner), ..self.spec.clone() };
        Ok(Self { spec, ..self.clone() })
    }

    /// Acquires the lock, waiting for as long as others hold it.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// println!("held with token {}", guard.fencing_token());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// - [`LockErrorKind::Unavailable`] if the store fails for longer than the outage budget (default: one lease);
    /// - [`LockErrorKind::Backend`] if the store rejects the request (missing permissions, a key of the wrong type);
    /// - [`LockErrorKind::TooManyWaiters`], [`LockErrorKind::ShutDown`], [`LockErrorKind::NoRuntime`];
    /// - [`LockErrorKind::Lost`] if the owner still has guards of a lost hold of this lock.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind, in this process or in the store.
    pub fn acquire(&self) -> AcquireFuture {
        AcquireFuture::new(self.handle.clone(), self.spec.clone(), Wait::Forever)
    }

    /// Tries once to acquire the lock. Returns `None` if it is held, or if another task of this process is waiting for
    /// it. In the second case no request is sent, because a single attempt never overtakes a waiter.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// match locks.named("report")?.try_acquire().await? {
    ///     Some(guard) => println!("held with token {}", guard.fencing_token()),
    ///     None => println!("busy"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), except that the first store failure is returned instead of retried. If that
    /// error is [ambiguous](LockError::is_ambiguous), the attempt is undone in the background.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind.
    pub fn try_acquire(&self) -> TryAcquireFuture {
        TryAcquireFuture(AcquireFuture::new(self.handle.clone(), self.spec.clone(), Wait::Once))
    }

    /// Acquires the lock, waiting no longer than `wait` from the first poll. Zero means a single attempt.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::LockErrorKind;
    /// use std::time::Duration;
    ///
    /// let lock = locks.named("stock:42")?;
    /// let _guard = lock.acquire().await?;
    /// let error = lock.acquire_timeout(Duration::from_millis(10)).await.unwrap_err();
    /// assert_eq!(error.kind(), LockErrorKind::Timeout);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::Timeout`] if the time passes while others hold the lock or wait ahead of this caller;
    /// [`LockErrorKind::Unavailable`] if it passes while the store does not reply; [`LockErrorKind::InvalidOptions`]
    /// if `wait` exceeds the factory's `max_wait`; otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind.
    pub fn acquire_timeout(&self, wait: Duration) -> AcquireFuture {
        AcquireFuture::new(self.handle.clone(), self.spec.clone(), Wait::For(wait))
    }

    /// Acquires the lock, runs `work` and releases the lock. If the lock is lost, `work` is dropped at its current
    /// await.
    ///
    /// `Ok` means that the work ended before the hold's deadline, and that the store did not report that the hold had
    /// ended earlier. A release that is not [confirmed](LockErrorKind::Unconfirmed) also returns `Ok`: the work was
    /// protected unless the lock was forcibly released or the store lost its data. Actions that an outdated holder must
    /// not take must therefore still be fenced with [`hold.fencing_token()`](Hold::fencing_token). Work that can fail
    /// returns its own `Result`: `lock.run(…).await??`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let token = locks.named("report")?.run(|hold| async move { hold.fencing_token() }).await?;
    /// assert!(token.get() > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RunError::NotAcquired`] if the work never started; [`RunError::Lost`] if the lock was lost before it ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn run<F, W>(&self, work: F) -> Result<W::Output, RunError>
    where
        F: FnOnce(Hold) -> W,
        W: Future,
    {
        let guard = self.acquire().await?;
        run_under(guard, work).await
    }

    /// Like [`run`](Self::run), but only if the lock is free. Returns `None` if it is held, or if another task of this
    /// process is waiting for it.
    ///
    /// After a short job the lock is free again, and the next process would run the job again. If every process
    /// tries the job at the same time, set a [`min_hold`](LockOptions::min_hold), or use `lock-cron`, which claims each
    /// scheduled time once.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// match locks.named("report")?.try_run(async |_| "written").await? {
    ///     Some(outcome) => println!("{outcome}"),
    ///     None => println!("another task writes it"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`run`](Self::run), except that the first store failure returns [`RunError::NotAcquired`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn try_run<F, W>(&self, work: F) -> Result<Option<W::Output>, RunError>
    where
        F: FnOnce(Hold) -> W,
        W: Future,
    {
        match self.try_acquire().await? {
            Some(guard) => run_under(guard, work).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Shows the name, the lease and the options that differ from the defaults.
impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Lock");
        text.field("name", &self.spec.name);
        self.options.debug_fields(&mut text);
        if let Some(owner) = &self.spec.owner {
            text.field("owner", owner);
        }
        text.finish_non_exhaustive()
    }
}

async fn run_under<F, W>(guard: LockGuard, work: F) -> Result<W::Output, RunError>
where
    F: FnOnce(Hold) -> W,
    W: Future,
{
    let hold = guard.hold();
    let value = tokio::select! {
        biased;
        reason = hold.lost() => return Err(RunError::Lost(reason)),
        value = work(hold.clone()) => value,
    };
    if let Some(reason) = hold.lost_reason() {
        return Err(RunError::Lost(reason));
    }
    match guard.release().await {
        // The store reports that the hold had already ended: the end of the work was not protected.
        Ok(outcome) if !outcome.was_held() => {
            Err(RunError::Lost(hold.lost_reason().unwrap_or(LostReason::Gone)))
        }
        Ok(_) | Err(_) => Ok(value),
    }
}
