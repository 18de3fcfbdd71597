//! The handle of a pool, and the futures of its acquires.

use super::{guard::Permit, kind};
use crate::{
    acquire::{AcquireFuture, LockSpec, Wait},
    backend::Share,
    blocking::block_on,
    error::LockError,
    factory::LockFactory,
    name::{LockName, PoolKind},
    options::{LockOptions, OptionsError},
};
use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// A pool of permits by name, returned by [`LockFactory::semaphore`] and others without any IO. `K` is the
/// [kind](super::kind) of its permits.
///
/// This is a handle: it is cheap to clone and holds no permit. Options belong to the handle; those for re-entry and
/// [hand-off](LockOptions::hand_off) have no effect.
///
/// Every acquire asks for a permit of its own, also in one task: permits are not re-entered.
pub struct Pool<K> {
    pub(super) factory: LockFactory,
    /// The name that the user gave.
    pub(super) name: LockName,
    pub(super) spec: LockSpec,
    options: LockOptions,
    pub(super) share: Share,
    kind: PhantomData<fn() -> K>,
}

/// A semaphore: up to a number of permits are held at a time in all processes.
pub type Semaphore = Pool<kind::Plain>;

/// The readers' side of an [`RwLock`](super::RwLock).
pub type ReadLock = Pool<kind::Read>;

/// The writers' side of an [`RwLock`](super::RwLock).
pub type WriteLock = Pool<kind::Write>;

/// A lock whose waiters in all processes are served in the order of their arrival.
pub type FairLock = Pool<kind::Fair>;

impl<K> Pool<K> {
    pub(super) fn new(
        factory: LockFactory,
        name: LockName,
        stored: LockName,
        share: Share,
    ) -> Result<Self, LockError> {
        let options = factory.options();
        let terms = factory.handle().terms(&options).map_err(|error| LockError::from(error).of(&name))?;
        let spec = LockSpec { name: stored, owner: None, terms: terms.with_share(share) };
        Ok(Self { factory, name, spec, options, share, kind: PhantomData })
    }

    /// Returns the same pool with permits of another kind and weight.
    pub(super) fn with_kind<L>(&self, weight: u32) -> Pool<L> {
        let share = Share { weight, ..self.share };
        let spec = LockSpec { terms: self.spec.terms.with_share(share), ..self.spec.clone() };
        let (factory, name, options) = (self.factory.clone(), self.name.clone(), self.options);
        Pool { factory, name, spec, options, share, kind: PhantomData }
    }

    /// Returns the name of the pool.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the options. Modify them and pass them to [`with_options`](Self::with_options).
    pub fn options(&self) -> LockOptions {
        self.options
    }

    /// Returns the same pool with other options. They replace *all* options of the factory.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use std::time::Duration;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let api = locks.semaphore("partner-api", 5)?;
    /// let api = api.with_options(api.options().max_hold(Duration::from_secs(30)))?;
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](crate::LockErrorKind::InvalidOptions) if they contradict each other or exceed
    /// the limits.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, LockError> {
        let terms = self.factory.handle().terms(&options);
        let terms = terms.map_err(|error| LockError::from(error).of(&self.name))?;
        let spec = LockSpec { terms: terms.with_share(self.share), ..self.spec.clone() };
        Ok(Self { spec, options, ..self.clone() })
    }

    /// Acquires a permit, waiting for as long as there is none.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future gives up its place in the queue, and leaves nothing behind, in this process or in
    /// the store.
    pub fn acquire(&self) -> AcquirePermit<K> {
        self.begin(self.share.weight, Wait::Forever)
    }

    /// Tries once to acquire a permit. Returns `None` if there is none, or if anybody waits for one.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind.
    pub fn try_acquire(&self) -> TryAcquirePermit<K> {
        TryAcquirePermit(self.begin(self.share.weight, Wait::Once))
    }

    /// Acquires a permit, waiting no longer than `wait` from the first poll. Zero means a single attempt.
    ///
    /// # Errors
    /// As [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind.
    pub fn acquire_timeout(&self, wait: Duration) -> AcquirePermit<K> {
        self.begin(self.share.weight, Wait::For(wait))
    }

    /// Blocks the thread until a permit is acquired.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockErrorKind::AsyncContext`](crate::LockErrorKind::AsyncContext) in a tokio
    /// task.
    ///
    /// # Panics
    /// As [`Lock::acquire_blocking`](crate::Lock::acquire_blocking).
    pub fn acquire_blocking(&self) -> Result<Permit<K>, LockError> {
        block_on(&self.name, self.acquire())?
    }

    /// Tries once to acquire a permit, blocking the thread until the store has answered.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire) and [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Panics
    /// As [`Lock::acquire_blocking`](crate::Lock::acquire_blocking).
    pub fn try_acquire_blocking(&self) -> Result<Option<Permit<K>>, LockError> {
        block_on(&self.name, self.try_acquire())?
    }

    /// Blocks the thread until a permit is acquired, but no longer than `wait`.
    ///
    /// # Errors
    /// As [`acquire_timeout`](Self::acquire_timeout) and [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Panics
    /// As [`Lock::acquire_blocking`](crate::Lock::acquire_blocking).
    pub fn acquire_timeout_blocking(&self, wait: Duration) -> Result<Permit<K>, LockError> {
        block_on(&self.name, self.acquire_timeout(wait))?
    }

    fn begin(&self, weight: u32, wait: Wait) -> AcquirePermit<K> {
        let share = Share { weight, ..self.share };
        let spec = match share == self.share {
            true => self.spec.clone(),
            false => LockSpec { terms: self.spec.terms.with_share(share), ..self.spec.clone() },
        };
        let waiting = AcquireFuture::new(self.factory.handle_of_guards(), spec, wait);
        AcquirePermit { waiting, pool: self.clone(), share }
    }
}

impl Semaphore {
    /// Returns the number of permits that are held at a time at most.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.share.limit
    }

    /// Acquires a permit of the semaphore with another name, and the limit and the options of this one. Libraries that
    /// acquire permits of many names check the limit and the options once.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`](crate::LockErrorKind::InvalidName) if the name is too long for a semaphore; the
    /// future's are those of [`acquire_timeout`](Self::acquire_timeout).
    #[doc(hidden)]
    pub fn acquire_named(
        &self,
        name: LockName,
        wait: Duration,
    ) -> Result<AcquirePermit<kind::Plain>, LockError> {
        let stored = PoolKind::Semaphore.named(&name).map_err(|error| LockError::from(error).of(&name))?;
        let spec = LockSpec { name: stored, ..self.spec.clone() };
        Ok(Self { name, spec, ..self.clone() }.acquire_timeout(wait))
    }

    /// Acquires `permits` permits as one, waiting until there are as many. Those who came later wait meanwhile.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let memory = locks.semaphore("gigabytes", 64)?;
    /// let large = memory.acquire_many(48).await?;
    /// assert!(memory.try_acquire_many(17).await?.is_none(), "16 are left");
    /// assert_eq!(large.weight(), 48);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](crate::LockErrorKind::InvalidOptions) if the number is 0 or exceeds the limit;
    /// otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind.
    pub fn acquire_many(&self, permits: u32) -> AcquirePermit<kind::Plain> {
        self.begin(permits, Wait::Forever)
    }

    /// Tries once to acquire `permits` permits as one.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many) and [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind.
    pub fn try_acquire_many(&self, permits: u32) -> TryAcquirePermit<kind::Plain> {
        TryAcquirePermit(self.begin(permits, Wait::Once))
    }

    /// Acquires `permits` permits as one, waiting no longer than `wait` from the first poll.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many) and [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind.
    pub fn acquire_many_timeout(&self, permits: u32, wait: Duration) -> AcquirePermit<kind::Plain> {
        self.begin(permits, Wait::For(wait))
    }
}

/// Clones refer to the same pool.
impl<K> Clone for Pool<K> {
    fn clone(&self) -> Self {
        let Self { factory, name, spec, options, share, kind } = self;
        let (factory, name, spec) = (factory.clone(), name.clone(), spec.clone());
        Self { factory, name, spec, options: *options, share: *share, kind: *kind }
    }
}

/// Shows the name and the part of the pool that a permit has.
impl<K> fmt::Debug for Pool<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Share { weight, limit } = self.share;
        let mut text = f.debug_struct("Pool");
        text.field("name", &self.name).field("weight", &weight).field("limit", &limit);
        self.options.debug_fields(&mut text);
        text.finish_non_exhaustive()
    }
}

/// A future that waits for a permit, returned by [`Pool::acquire`] and others. The wait begins at the first poll.
///
/// # Cancel safety
/// Dropping the future at any point gives up its place in the queue and undoes anything that the store may have granted.
#[must_use = "futures do nothing unless polled"]
pub struct AcquirePermit<K> {
    waiting: AcquireFuture,
    pool: Pool<K>,
    share: Share,
}

impl<K> AcquirePermit<K> {
    fn check(&self) -> Result<(), LockError> {
        let Share { weight, limit } = self.share;
        match (1..=limit).contains(&weight) {
            true => Ok(()),
            false => {
                let error = format!("{weight} permits are not possible: acquire 1 to {limit}, the limit");
                Err(LockError::from(OptionsError::new(error)).of(&self.pool.name))
            }
        }
    }
}

impl<K> Future for AcquirePermit<K> {
    type Output = Result<Permit<K>, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.check()?;
        let guard = ready!(Pin::new(&mut self.waiting).poll(cx));
        Poll::Ready(guard.map(|guard| Permit::new(guard, self.pool.name.clone(), self.share.weight)))
    }
}

impl<K> fmt::Debug for AcquirePermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquirePermit")
            .field("pool", &self.pool)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}

/// A future that tries once to acquire a permit, returned by [`Pool::try_acquire`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct TryAcquirePermit<K>(AcquirePermit<K>);

impl<K> Future for TryAcquirePermit<K> {
    type Output = Result<Option<Permit<K>>, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.check()?;
        let guard = ready!(self.0.waiting.poll_guard(cx));
        let AcquirePermit { pool, share, .. } = &self.0;
        let permit = |guard| Permit::new(guard, pool.name.clone(), share.weight);
        Poll::Ready(guard.map(|guard| guard.map(permit)))
    }
}
