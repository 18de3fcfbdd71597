//! What tests ask of a store, and do to it.

use super::{MemoryBackend, slot_map::SlotMap};
use crate::{name::LockName, sync::lock};

/// For tests (feature `test-util`).
impl MemoryBackend {
    /// Forgets every lock and every counter, as a server that restarts empty does, and reports it to its factories.
    pub fn clear(&self) {
        *lock(&self.inner.slots) = SlotMap::empty_since(self.inner.now());
        self.inner.watchers.server_restarted();
    }

    /// How many names it keeps something of: held locks, and counters within their retention.
    #[must_use]
    pub fn names(&self) -> usize {
        lock(&self.inner.slots).len()
    }

    /// The names that are held now, in order.
    #[must_use]
    pub fn held(&self) -> Vec<LockName> {
        lock(&self.inner.slots).held(self.inner.clock.wall())
    }

    /// How many (factory, name) pairs are watched now.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.inner.watchers.len()
    }
}
