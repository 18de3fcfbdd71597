//! The guard of a held permit.

use super::kind::{self, Exclusive};
use crate::{
    blocking::block_on,
    error::LockError,
    guard::LockGuard,
    hold::Hold,
    ids::FencingToken,
    machine::{LostReason, ReleaseOutcome},
    name::LockName,
};
use std::{fmt, future::Future, marker::PhantomData, time::Duration};

/// A held permit of a pool. It is released by [`release`](Self::release), or when it is dropped.
///
/// As with a [`LockGuard`], the watchdog renews its lease in the background, and the permit does not prove that the lease
/// is still held: watch [`lost`](Self::lost), or check [`is_held`](Self::is_held).
///
/// # Dropping
/// Drop never blocks, as with a [`LockGuard`]; the keeper sends the release.
#[must_use = "the permit is released immediately if it is not kept"]
#[clippy::has_significant_drop]
pub struct Permit<K = kind::Plain> {
    guard: LockGuard,
    name: LockName,
    weight: u32,
    kind: PhantomData<fn() -> K>,
}

/// A held permit of a reader.
pub type ReadGuard = Permit<kind::Read>;

/// The held permit of a writer.
pub type WriteGuard = Permit<kind::Write>;

/// A held [`FairLock`](super::FairLock).
pub type FairGuard = Permit<kind::Fair>;

impl<K> Permit<K> {
    pub(super) fn new(guard: LockGuard, name: LockName, weight: u32) -> Self {
        Self { guard, name, weight, kind: PhantomData }
    }

    /// Returns the name of the pool.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns its part of the limit: the number of permits that it stands for.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Returns a shareable view of this hold. It can be cloned and sent to other tasks, and cannot release the permit.
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.guard.hold()
    }

    /// Returns `true` if the permit is currently valid; see [`Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the time for which the permit stays valid without a further renewal; zero if it has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Completes when the permit is lost; see [`LockGuard::lost`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        self.guard.lost()
    }

    /// Releases the permit and reports whether it was still held; see [`LockGuard::release`].
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// Cancel safe: whenever the future is dropped, the permit is released in the background.
    pub async fn release(self) -> Result<ReleaseOutcome, LockError> {
        self.guard.release().await
    }

    /// Starts a [`release`](Self::release), which continues in the background.
    #[doc(hidden)]
    pub fn start_release(self) {
        self.guard.start_release();
    }

    /// Releases the permit, and blocks the thread until the store has answered.
    ///
    /// # Errors
    /// As [`LockGuard::release_blocking`].
    ///
    /// # Panics
    /// As [`LockGuard::release_blocking`].
    pub fn release_blocking(self) -> Result<ReleaseOutcome, LockError> {
        let name = self.name.clone();
        block_on(&name, self.release())?
    }
}

impl<K: Exclusive> Permit<K> {
    /// Returns the fencing token, which lets a resource reject requests from earlier holders; see [`FencingToken`].
    /// Permits that do not exclude one another have none to offer: the newest of five holders is not the only one.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }
}

impl WriteGuard {
    /// Becomes a reader, without letting another writer in between. The permit is a reader's from now on; the store
    /// learns of it in the background, and then lets in further readers. A writer that was lost becomes a reader that was
    /// lost. A reader cannot become a writer.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let catalogue = locks.rw_lock("catalogue")?;
    /// let writer = catalogue.write().acquire().await?;
    /// // … write …
    /// let reader = writer.downgrade();
    /// let other = catalogue.read().acquire().await?;
    /// assert!(reader.is_held() && other.is_held());
    /// # Ok(()) }
    /// ```
    pub fn downgrade(self) -> ReadGuard {
        self.guard.downgrade();
        Permit::new(self.guard, self.name, 1)
    }
}

impl<K> AsRef<Hold> for Permit<K> {
    fn as_ref(&self) -> &Hold {
        self.guard.as_ref()
    }
}

impl<K> fmt::Debug for Permit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("name", &self.name)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}
