//! Access to the store for tests.

use super::{MemoryBackend, slot_map::SlotMap};
use crate::{name::LockName, sync::lock};

/// For tests (feature `test-util`).
impl MemoryBackend {
    /// Drops every lock and every counter, like a server that restarts empty, and reports it to its factories.
    pub fn clear(&self) {
        *lock(&self.inner.slots) = SlotMap::empty_since(self.inner.now());
        self.inner.watchers.server_restarted();
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
