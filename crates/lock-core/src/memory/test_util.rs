//! Access to the contents of an in-memory store, for tests.

use super::{MemoryBackend, slot_map::SlotMap};
use crate::{backend::ForceReleased, name::LockName, sync::lock};

/// For tests (feature `test-util`).
impl MemoryBackend {
    /// Drops every lock and every counter, like a server that restarts empty, and reports a restart to its factories.
    pub fn clear(&self) {
        *lock(&self.inner.slots) = SlotMap::empty_since(self.inner.now());
        self.inner.watchers.server_restarted();
    }

    /// Drops the hold of this lock, like a server that loses its data. Returns `false` if the lock was not held.
    ///
    /// The holder notices at its next renewal: its hold ends with [`LostReason::Gone`](crate::LostReason::Gone). The
    /// fencing counter is kept, and no waiter is woken. With a [prefix](crate::LockFactoryBuilder::prefix), the name is
    /// the stored one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, LostReason};
    ///
    /// let (locks, store, _) = LockFactory::paused();
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// assert!(store.lose(guard.name()));
    /// assert_eq!(guard.lost().await, LostReason::Gone);
    /// # Ok(()) }
    /// ```
    pub fn lose(&self, name: &LockName) -> bool {
        let mut slots = lock(&self.inner.slots);
        let now = self.inner.now();
        slots.slot(name, |slot| {
            let held = slot.inspect(now).map(|(lease, ..)| lease.to_string());
            held.is_some_and(|lease| slot.force_release(now, &lease) == ForceReleased::Released)
        })
    }

    /// Returns the number of stored names: held locks, and counters within their retention.
    #[must_use]
    pub fn names(&self) -> usize {
        lock(&self.inner.slots).len()
    }

    /// Returns the names that are held now, sorted.
    #[must_use]
    pub fn held(&self) -> Vec<LockName> {
        lock(&self.inner.slots).held(self.inner.clock.wall())
    }

    /// Returns the number of watched (factory, name) pairs.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.inner.watchers.len()
    }
}
