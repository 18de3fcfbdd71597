//! Permits: semaphores, read-write locks and fair locks across processes.
//!
//! All three are pools of permits. A [`Semaphore`] lets up to `n` holders in, an [`RwLock`] many readers or one writer,
//! and a [`FairLock`] one at a time, in the order of arrival. A permit has a lease like a lock: a watchdog renews it, and
//! that of a process that has ended expires.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::{LockFactory, MemoryBackend};
//!
//! let locks = LockFactory::new(MemoryBackend::new());
//! let api = locks.semaphore("partner-api", 5)?; // five calls at a time in the whole fleet
//! let permit = api.acquire().await?;
//! // … call the partner …
//! println!("{:?}", permit.release().await); // no `?`: the call is done
//! # Ok(()) }
//! ```
//!
//! # Order
//! Waiters are served in the order in which the store has queued them. A process keeps up to 16 of its waiters in the
//! store's queue (1,000 for a limit of 1) and the others in its own. A waiter whose process has ended keeps those behind
//! it waiting for at most its patience: 6 s, or two operation timeouts if they are longer.
//!
//! # Limits
//! The limit is not stored. Each request is judged by its own, so two versions of a program may use different ones, and
//! meanwhile the larger one holds. Requests with the lower one can then wait until the others have gone, so lower a limit in
//! a quiet hour. A limit that operators change is a configuration value of the application.
//!
//! # Names
//! Semaphores, read-write locks, fair locks and [`Lock`](crate::Lock)s have names of their own: those of the same name do
//! not exclude one another.
//!
//! # Stores
//! Memory, Redis (one server, Sentinel, Cluster), PostgreSQL and SQLite have permits. A quorum, etcd, ZooKeeper and
//! MariaDB refuse them: majorities of holders say nothing about their number.

mod guard;
mod pool;
mod query;
mod rw_lock;

pub use guard::{FairGuard, Permit, ReadGuard, WriteGuard};
pub use pool::{AcquirePermit, FairLock, Pool, ReadLock, Semaphore, TryAcquirePermit, WriteLock};
pub use query::{PoolHolder, PoolInspection};
pub use rw_lock::RwLock;

pub mod kind;

use crate::{
    backend::{BackendError, Share},
    error::LockError,
    factory::LockFactory,
    name::{LockName, NameError, PoolKind},
    options::OptionsError,
};

impl LockFactory {
    /// Returns the semaphore with this name, of which up to `limit` permits are held at a time in all processes.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let exports = locks.semaphore("exports", 2)?;
    /// let (one, two) = (exports.acquire().await?, exports.acquire().await?);
    /// assert!(exports.try_acquire().await?.is_none(), "both permits are held");
    /// # drop((one, two));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`](crate::LockErrorKind::InvalidName);
    /// [`LockErrorKind::InvalidOptions`](crate::LockErrorKind::InvalidOptions) if the limit is 0 or above 2³⁰;
    /// [`LockErrorKind::Backend`](crate::LockErrorKind::Backend) if the store has no permits.
    pub fn semaphore<N>(&self, name: N, limit: u32) -> Result<Semaphore, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        self.pool(PoolKind::Semaphore, name, Share { weight: 1, limit })
    }

    /// Returns the read-write lock with this name: many readers, or one writer. A writer that waits lets no later reader
    /// pass, so neither side starves.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let catalogue = locks.rw_lock("catalogue")?;
    /// let (one, two) = (catalogue.read().acquire().await?, catalogue.read().acquire().await?);
    /// assert!(catalogue.write().try_acquire().await?.is_none(), "there are readers");
    /// one.release().await?;
    /// two.release().await?;
    /// let writer = catalogue.write().acquire().await?;
    /// println!("write under token {}", writer.fencing_token());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`semaphore`](Self::semaphore).
    pub fn rw_lock<N>(&self, name: N) -> Result<RwLock, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let limit = Share::MAX_LIMIT;
        let read: ReadLock = self.pool(PoolKind::RwLock, name, Share { weight: 1, limit })?;
        Ok(RwLock::new(read))
    }

    /// Returns the fair lock with this name: one holder at a time, in the order of arrival across all processes.
    ///
    /// A [`Lock`](crate::Lock) is faster if many tasks contend for it, since a process hands it from task to task.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let turn = locks.fair("raffle")?.acquire().await?;
    /// println!("it is our turn, with token {}", turn.fencing_token());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`semaphore`](Self::semaphore).
    pub fn fair<N>(&self, name: N) -> Result<FairLock, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        self.pool(PoolKind::Fair, name, Share { weight: 1, limit: 1 })
    }

    /// Checks that this factory has semaphores with this limit, for libraries that take the limit before they know a
    /// name.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](crate::LockErrorKind::InvalidOptions) if the limit is 0 or above 2³⁰;
    /// [`LockErrorKind::Backend`](crate::LockErrorKind::Backend) if the store has no permits.
    #[doc(hidden)]
    pub fn check_limit(&self, limit: u32) -> Result<(), LockError> {
        let capabilities = self.handle().backend.capabilities();
        if !capabilities.permits {
            return Err(BackendError::without_permits(capabilities.name).into());
        }
        match (1..=Share::MAX_LIMIT).contains(&limit) {
            true => Ok(()),
            false => {
                let most = Share::MAX_LIMIT;
                Err(OptionsError::new(format!("a limit of {limit} is not valid: use 1 to {most}")).into())
            }
        }
    }

    fn pool<N, K>(&self, kind: PoolKind, name: N, share: Share) -> Result<Pool<K>, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let name = self.parse(name)?;
        self.check_limit(share.limit).map_err(|error| error.of(&name))?;
        let stored = kind.named(&name).map_err(|error| LockError::from(error).of(&name))?;
        self.handle().check_name(&stored).map_err(|error| LockError::from(error).of(&name))?;
        Pool::new(self.clone(), name, stored, share)
    }
}
