//! The shared view of a hold.

use crate::{
    driver::HoldState,
    ids::{FencingToken, LeaseId},
    machine::{HoldEnd, HoldId, LostReason},
    name::LockName,
    owner::Owner,
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// A cloneable, read-only view of a held lock. It cannot release the lock.
///
/// It can outlive the guards, and then reports why the hold ended.
#[derive(Clone)]
pub struct Hold {
    state: Arc<HoldState>,
}

impl Hold {
    pub(crate) fn new(state: Arc<HoldState>) -> Self {
        Self { state }
    }

    /// Returns the name of the lock.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// assert_eq!(hold.name().as_str(), "stock:42");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.state.name
    }

    /// Returns the owner of the hold. Acquiring the lock again with this owner re-enters the hold.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// assert_eq!(hold.owner(), guard.owner());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.state.owner
    }

    /// Returns the fencing token, which lets a resource reject requests from earlier holders.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let token = locks.named("stock:42")?.run(async |hold| hold.fencing_token()).await?;
    /// println!("wrote under token {token}");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.state.token
    }

    /// Returns the id under which the store records the holder.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// let stored = locks.inspect("stock:42").await?.stored.expect("it is held");
    /// assert_eq!(stored.lease, hold.lease_id().to_string());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn lease_id(&self) -> LeaseId {
        self.state.lease()
    }

    /// Returns `true` if the hold is currently valid. It checks the clock and sends nothing, so even the first call
    /// after a pause of this process is accurate. After the last guard is dropped, it may stay `true` until the keeper
    /// has released the hold. Once `false`, it stays `false`.
    ///
    /// A result of `true` can be stale by the next instruction. Use the [`FencingToken`] to reject the
    /// actions of a stale holder.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// assert!(hold.is_held());
    /// guard.release().await?;
    /// assert!(!hold.is_held());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state.ended().is_none()
    }

    /// Returns the time for which the hold stays valid without a further renewal; zero if it has ended.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// guard.release().await?;
    /// assert!(hold.remaining().is_zero());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.state.remaining()
    }

    /// Keeps this hold from being [handed on](crate::LockOptions::hand_off) inside the process: its release goes to the
    /// store. Returns `false` if the hold has already ended.
    ///
    /// Pin a hold before a transaction that compares its token with the last grant in the same database. The store would
    /// not notice that the lock was handed on meanwhile, so the transaction could commit beside the next holder's work.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("invoice:7")?.acquire().await?;
    /// assert!(guard.hold().pin());
    /// # Ok(()) }
    /// ```
    #[must_use = "a hold that has ended cannot be pinned"]
    pub fn pin(&self) -> bool {
        self.state.pin().is_some()
    }

    /// Pins the hold, and returns the name of its lock in the store, for fences.
    #[doc(hidden)]
    #[must_use]
    pub fn pinned(&self) -> Option<LockName> {
        self.state.pin()
    }

    /// Sets a note on this hold, such as `"42 %"`, and replaces any earlier one.
    /// [`inspect`](crate::LockFactory::inspect) shows it in other processes. This call does no IO: the note
    /// is written along with the process's card, in the background and at most once per second. It disappears
    /// within 20 s after the hold ends.
    ///
    /// Notes are for people. They are truncated to [`MAX_TEXT_CHARS`](crate::inspect::ProcessCard::MAX_TEXT_CHARS), and
    /// a factory shows at most [`MAX_NOTES`](crate::inspect::ProcessCard::MAX_NOTES) of them; further notes are
    /// dropped. This does nothing after the hold has ended, and without a card (see
    /// [`LockFactoryBuilder::without_card`](crate::LockFactoryBuilder::without_card)).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("import")?.acquire().await?;
    /// guard.hold().note("42 %");
    /// # Ok(()) }
    /// ```
    pub fn note(&self, text: impl AsRef<str>) {
        self.state.note(text.as_ref());
    }

    /// Completes when the hold has ended, with the reason.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::HoldEnd;
    ///
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// guard.release().await?;
    /// assert_eq!(hold.ended().await, HoldEnd::Released);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn ended(&self) -> impl Future<Output = HoldEnd> + Send + 'static {
        let state = self.state.clone();
        state.wait_ended()
    }

    /// Completes when the hold is lost. It never completes if the hold is released.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::LostReason;
    ///
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// locks.shutdown().await;
    /// assert_eq!(hold.lost().await, LostReason::ShutDown);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let ended = self.ended();
        async move {
            match ended.await {
                HoldEnd::Lost(reason) => reason,
                HoldEnd::Released => std::future::pending().await,
            }
        }
    }

    pub(crate) fn id(&self) -> HoldId {
        self.state.id()
    }

    /// Returns the reason for the loss, if the hold is lost. Checks the clock, as [`is_held`](Self::is_held) does.
    #[doc(hidden)]
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        match self.state.ended() {
            Some(HoldEnd::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Returns a token that is cancelled when the hold ends. Spawns a task that lives until the hold ends or the token
    /// is cancelled.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let hold = guard.hold();
    /// let token = hold.cancellation_token();
    /// guard.release().await?;
    /// token.cancelled().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    #[cfg(feature = "cancellation-token")]
    #[must_use]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        let token = tokio_util::sync::CancellationToken::new();
        let (ended, cancel) = (self.ended(), token.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = ended => cancel.cancel(),
                () = cancel.cancelled() => {}
            }
        });
        token
    }
}

impl AsRef<Self> for Hold {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}
