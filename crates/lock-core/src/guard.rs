//! The proof that a lock is held.

use crate::{
    driver::{Handle, HoldState, LockEntry},
    error::LockError,
    hold::Hold,
    machine::{LostReason, ReleaseOutcome},
    name::LockName,
    owner::Owner,
    spec::LockSpec,
    token::FencingToken,
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// A held lock. The lock is released by [`release`](Self::release), or when the guard is dropped.
///
/// The watchdog renews the lease in the background. A guard does **not** prove that the lock is still held:
/// a paused process, a dead network or a forced release end a hold from outside. Watch [`lost`](Self::lost),
/// ask [`is_held`](Self::is_held) before steps that matter, and let the resource check
/// [`fencing_token`](Self::fencing_token).
///
/// # Dropping
/// Drop never blocks, panics, allocates or does IO, inside or outside of a runtime; the factory's worker sends
/// the release. Prefer [`release`](Self::release) where an `.await` is possible: it says whether the lock was
/// still held at the end.
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
#[must_use = "the lock is released at once if the guard is not kept"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    pub(crate) hold: Hold,
    pub(crate) spec: LockSpec,
    /// Taken out by `release`.
    entry: Option<Arc<LockEntry>>,
    pub(crate) handle: Arc<Handle>,
}

impl LockGuard {
    pub(crate) fn new(
        state: Arc<HoldState>,
        entry: Arc<LockEntry>,
        spec: LockSpec,
        handle: Arc<Handle>,
    ) -> Self {
        Self { hold: Hold::new(state), spec, entry: Some(entry), handle }
    }

    /// The shared view of this hold: clone it, send it, keep it; it cannot release.
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.hold.name()
    }

    /// The owner of the hold. Acquiring with it re-enters.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.hold.owner()
    }

    /// The number by which a resource refuses older holders; see [`FencingToken`] for how.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.fencing_token()
    }

    /// Whether the hold is valid now; see [`Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// How long the hold is valid without a further renewal; zero if it ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Completes when the hold is lost: its lease ended without a renewal, the store no longer had it, it
    /// reached `max_hold`, or the factory was shut down.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping it.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        self.hold.lost()
    }

    /// Gives the lock back and says whether it was still held. If another task of this process waits for it, it may pass to
    /// that task at once, without asking the store: [`ReleaseOutcome::HandedOn`].
    ///
    /// It waits for the store no longer than two operation timeouts; after that the release is repeated in the
    /// background until the lease has ended by itself. A hold that was lost answers at once.
    ///
    /// # Errors
    /// [`LockErrorKind::Unconfirmed`](crate::LockErrorKind::Unconfirmed) if the store did not confirm the release in time, or if its answer was lost: when the
    /// release is repeated and finds nothing, a freed lease and a lost one look the same. The work under the lock is done: log the
    /// error, and do not repeat the work for it.
    ///
    /// # Cancel safety
    /// Cancel safe: whenever the future is dropped, even before its first poll, the lock is released in the
    /// background.
    pub async fn release(mut self) -> Result<ReleaseOutcome, LockError> {
        let Some(entry) = self.entry.take() else { return Ok(ReleaseOutcome::AlreadyExpired) };
        let answer = self.handle.release(&entry, self.hold.id()).await;
        answer.map_err(|unconfirmed| LockError::from(unconfirmed).of(self.hold.name()))
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.handle.guard_dropped(&entry, self.hold.id());
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.hold).finish()
    }
}
