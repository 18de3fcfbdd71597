//! The entries of a factory, by name.

use super::entry::LockEntry;
use crate::{
    name::LockName,
    sync::{Hashing, Mutex, lock, rank},
};
use std::{collections::HashMap, hash::BuildHasher, sync::Arc};

const SHARDS: usize = 16;

type Shard = Mutex<rank::Shard, HashMap<LockName, Arc<LockEntry>>>;

#[derive(Debug, Default)]
pub(super) struct LockTable {
    shards: [Shard; SHARDS],
    hasher: Hashing,
}

impl LockTable {
    fn shard(&self, name: &LockName) -> &Shard {
        let hash = self.hasher.hash_one(name);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }

    pub(super) fn get(&self, name: &LockName) -> Option<Arc<LockEntry>> {
        lock(self.shard(name)).get(name).cloned()
    }

    pub(super) fn get_or_insert_with(
        &self,
        name: &LockName,
        make: impl FnOnce() -> LockEntry,
    ) -> Arc<LockEntry> {
        let mut shard = lock(self.shard(name));
        if let Some(entry) = shard.get(name) {
            return entry.clone();
        }
        let entry = Arc::new(make());
        shard.insert(name.clone(), entry.clone());
        entry
    }

    /// Removes the entry if nothing would be lost with it.
    pub(super) fn remove_if_idle(&self, entry: &Arc<LockEntry>) {
        // The entry is nearly always in use, so the shard need not be searched.
        if !lock(&entry.state).is_removable(entry) {
            return;
        }
        let mut shard = lock(self.shard(&entry.name));
        let mut state = lock(&entry.state);
        if state.is_removable(entry) && !state.removed {
            state.removed = true;
            shard.remove(&entry.name);
        }
    }

    /// Returns the entries in creation order, because the order of a hash map would make simulation runs differ.
    pub(super) fn all(&self) -> Vec<Arc<LockEntry>> {
        let of = |shard: &Shard| lock(shard).values().cloned().collect::<Vec<_>>();
        let mut entries: Vec<_> = self.shards.iter().flat_map(of).collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        entries
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }
}
