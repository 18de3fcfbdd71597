//! The guard of a held lock.

use crate::{
    driver::{Handle, HoldState, LockEntry, PendingRelease, downgrade, guard_dropped},
    error::LockError,
    hold::Hold,
    ids::FencingToken,
    machine::{LostReason, ReleaseOutcome},
    name::LockName,
    options::Terms,
    owner::Owner,
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// A held lock. The lock is released by [`release`](Self::release), or when the guard is dropped.
///
/// The watchdog renews the lease in the background. A guard does **not** prove that the lock is still held: a paused
/// process, a network outage or a forced release may end the hold. Watch [`lost`](Self::lost), check
/// [`is_held`](Self::is_held) before critical steps, and let the resource check
/// [`fencing_token`](Self::fencing_token).
///
/// # Dropping
/// Drop never blocks, panics, allocates or does IO, inside or outside of a runtime; the keeper sends the release.
/// Prefer [`release`](Self::release) in async code: it reports whether the lock was still held at the end.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{LockFactory, MemoryBackend, ReleaseOutcome};
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let guard = locks.named("stock:42")?.acquire().await?;
/// assert!(guard.is_held());
/// assert_eq!(guard.release().await?, ReleaseOutcome::Released);
/// # Ok(()) }
/// ```
#[must_use = "the lock is released immediately if the guard is not kept"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    pub(crate) hold: Hold,
    pub(crate) terms: Terms,
    /// Taken by `release`.
    entry: Option<Arc<LockEntry>>,
    pub(crate) handle: Arc<Handle>,
}

impl LockGuard {
    pub(crate) fn new(
        state: Arc<HoldState>,
        entry: Arc<LockEntry>,
        terms: Terms,
        handle: Arc<Handle>,
    ) -> Self {
        Self { hold: Hold::new(state), terms, entry: Some(entry), handle }
    }

    /// Returns a shareable view of this hold. It can be cloned and sent to other tasks, and cannot release the lock.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// let watching = tokio::spawn(async move { hold.ended().await });
    /// guard.release().await?;
    /// println!("it ended: {:?}", watching.await?);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// Returns the name of the lock.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// assert_eq!(guard.name().as_str(), "stock:42");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.hold.name()
    }

    /// Returns the owner of the hold. Acquiring the lock again with this owner re-enters the hold.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let inner = locks.named("stock:42")?.with_owner(guard.owner())?.acquire().await?; // re-enters
    /// assert_eq!(inner.fencing_token(), guard.fencing_token());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.hold.owner()
    }

    /// Returns the fencing token, which lets a resource reject requests from earlier holders; see [`FencingToken`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let sql = "update stock set units = $1, fence = $2 where sku = 42 and fence <= $2";
    /// println!("{sql} with $2 = {}", guard.fencing_token().as_i64());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.fencing_token()
    }

    /// Returns `true` if the hold is currently valid; see [`Hold::is_held`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// for part in 0..3 {
    ///     if !guard.is_held() {
    ///         return Err("stopped: the lock was lost".into());
    ///     }
    ///     println!("part {part}");
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Returns the time for which the hold stays valid without a further renewal; zero if it has ended.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// assert!(guard.remaining() > std::time::Duration::from_secs(20), "of a lease of 30 s");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Sets a note on this hold; see [`Hold::note`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("import")?.acquire().await?;
    /// guard.note("42 %");
    /// # Ok(()) }
    /// ```
    pub fn note(&self, text: impl AsRef<str>) {
        self.hold.note(text.as_ref());
    }

    /// Keeps this hold from being handed on inside the process; see [`Hold::pin`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("invoice:7")?.acquire().await?;
    /// assert!(guard.pin());
    /// # Ok(()) }
    /// ```
    #[must_use = "a hold that has ended cannot be pinned"]
    pub fn pin(&self) -> bool {
        self.hold.pin()
    }

    /// Completes when the hold is lost: its lease expired without a renewal, the store no longer had the lease, the
    /// hold reached its `max_hold`, or the factory was shut down.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// tokio::select! {
    ///     reason = guard.lost() => println!("stopped: {reason}"),
    ///     () = tokio::time::sleep(std::time::Duration::from_millis(5)) => println!("the work is done"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        self.hold.lost()
    }

    /// Releases the lock and reports whether it was still held. If another task of this process is waiting for the
    /// lock, the lock may pass to that task immediately, without a request to the store: [`ReleaseOutcome::HandedOn`].
    ///
    /// Waits for the store for at most two operation timeouts; after that the release is repeated in the background
    /// until the lease has expired by itself. The release of a lost hold returns immediately.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// match guard.release().await {
    ///     Ok(outcome) if outcome.was_held() => println!("protected to the end"),
    ///     Ok(outcome) => println!("the lock was lost before: {outcome:?}"),
    ///     Err(error) => println!("{error}"), // do not repeat the work
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::Unconfirmed`](crate::LockErrorKind::Unconfirmed) if the store did not confirm the release in
    /// time, or if its reply was lost: when a repeated release finds nothing, a released lease and a lost one look
    /// the same. The work under the lock is done. Log the error, and do not repeat the work because of it.
    ///
    /// # Cancel safety
    /// Cancel safe: whenever the future is dropped, even before its first poll, the lock is released in the
    /// background.
    pub async fn release(mut self) -> Result<ReleaseOutcome, LockError> {
        let Some(entry) = self.entry.take() else { return Ok(ReleaseOutcome::AlreadyExpired) };
        self.handle.check_process().map_err(|forked| forked.of(self.hold.name()))?;
        let answer = PendingRelease::start(&self.handle, &entry, self.hold.id()).await;
        answer.map_err(|unconfirmed| LockError::from(unconfirmed).of(self.hold.name()))
    }

    /// Lowers the weight of a permit to 1, in the background.
    pub(crate) fn downgrade(&self) {
        if let Some(entry) = self.entry.as_ref().filter(|_| !self.handle.is_forked()) {
            downgrade(&self.handle, entry, self.hold.id());
        }
    }

    /// Starts a [`release`](Self::release), which continues in the background.
    #[doc(hidden)]
    pub fn start_release(mut self) {
        if let Some(entry) = self.entry.take().filter(|_| !self.handle.is_forked()) {
            drop(PendingRelease::start(&self.handle, &entry, self.hold.id()));
        }
    }
}

impl AsRef<Hold> for LockGuard {
    fn as_ref(&self) -> &Hold {
        &self.hold
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            guard_dropped(&self.handle, &entry, self.hold.id());
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.hold).finish()
    }
}
