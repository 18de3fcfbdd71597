//! The owners of locks, for re-entry. An owner is passed to each lock or set for a scope.

use crate::{ids::ProcessId, machine::OwnerId};
use std::{fmt, future::Future, sync::Arc};

/// The owner of a hold, for re-entry.
///
/// Every acquisition has its own owner and is therefore not re-entrant: two branches of a `join!` exclude each other as
/// two processes do. Re-entry is explicit: create an owner and pass it down the call stack; each function can then
/// acquire the same lock with [`with_owner`](crate::Lock::with_owner). With a guard at hand, use
/// [`reenter`](crate::LockGuard::reenter) instead. The lock is free when every guard is released.
///
/// Clones are the same owner. An owner is only valid in the factory that created it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{LockError, LockFactory, MemoryBackend, Owner};
///
/// async fn book(locks: &LockFactory, me: &Owner) -> Result<(), LockError> {
///     let guard = locks.named("account:7")?.with_owner(me)?.acquire().await?; // re-enters
///     guard.release().await?;
///     Ok(())
/// }
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let me = locks.owner();
/// let guard = locks.named("account:7")?.with_owner(&me)?.acquire().await?;
/// book(&locks, &me).await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    process: ProcessId,
    id: OwnerId,
}

impl Owner {
    pub(crate) fn new(process: ProcessId, id: OwnerId) -> Self {
        Self { process, id }
    }

    /// Returns the process whose factory created the owner.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.process
    }

    pub(crate) fn id(&self) -> OwnerId {
        self.id
    }

    /// Runs `work` with this owner as the ambient owner: every acquire in `work` without an explicit owner
    /// uses it, and therefore re-enters.
    ///
    /// Branches of a `join!` in `work` therefore do **not** exclude each other. Tasks that `work` spawns do not inherit
    /// the owner. Scopes of different factories may be nested.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let lock = locks.named("account:7")?;
    /// locks.owner().scope(async {
    ///     let outer = lock.acquire().await?;
    ///     let inner = lock.acquire().await?; // would wait forever outside of a scope
    ///     assert_eq!(outer.fencing_token(), inner.fencing_token());
    ///     Ok(())
    /// }).await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel safe if `work` is.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        let parent = AMBIENT.try_with(Clone::clone).ok();
        AMBIENT.scope(Arc::new(Ambient { owner: self, parent }), work).await
    }

    /// Returns the ambient owner of this process, if the task runs in one of its scopes.
    pub(crate) fn ambient(process: ProcessId) -> Option<Self> {
        AMBIENT
            .try_with(|innermost| {
                let mut scope = Some(innermost);
                while let Some(ambient) = scope {
                    if ambient.owner.process == process {
                        return Some(ambient.owner);
                    }
                    scope = ambient.parent.as_ref();
                }
                None
            })
            .ok()
            .flatten()
    }
}

struct Ambient {
    owner: Owner,
    parent: Option<Arc<Ambient>>,
}

tokio::task_local! {
    static AMBIENT: Arc<Ambient>;
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.process, self.id.0)
    }
}
