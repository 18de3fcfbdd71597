//! The cells of a factory, by name.

use super::{Driver, cell::Cell};
use crate::{
    name::LockName,
    sync::{Hashing, Mutex, lock},
};
use std::{collections::HashMap, hash::BuildHasher, sync::Arc};

const SHARDS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Cells {
    shards: [Mutex<HashMap<LockName, Arc<Cell>>>; SHARDS],
    hasher: Hashing,
}

impl Cells {
    fn shard(&self, name: &LockName) -> &Mutex<HashMap<LockName, Arc<Cell>>> {
        let hash = self.hasher.hash_one(name);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }

    pub(super) fn get(&self, name: &LockName) -> Option<Arc<Cell>> {
        lock(self.shard(name)).get(name).cloned()
    }

    /// In the order in which they were made: the order of a hash map would make runs of a simulation differ.
    pub(super) fn all(&self) -> Vec<Arc<Cell>> {
        let of = |shard: &Mutex<HashMap<_, Arc<Cell>>>| lock(shard).values().cloned().collect::<Vec<_>>();
        let mut cells: Vec<_> = self.shards.iter().flat_map(of).collect();
        cells.sort_unstable_by_key(|cell| cell.id);
        cells
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }
}

impl Driver {
    /// The cell of the name, made if there is none.
    pub(super) fn cell(&self, name: &LockName) -> Arc<Cell> {
        let mut shard = lock(self.cells.shard(name));
        if let Some(cell) = shard.get(name) {
            return cell.clone();
        }
        let cell = Arc::new(Cell::new(self.fresh_id(), name.clone(), self.rules));
        shard.insert(name.clone(), cell.clone());
        cell
    }

    /// Takes the cell out of the map if nothing would be lost with it.
    pub(super) fn forget_if_idle(&self, cell: &Arc<Cell>) {
        let mut shard = lock(self.cells.shard(&cell.name));
        let mut state = lock(&cell.state);
        if state.is_idle(cell) && !state.dead {
            state.dead = true;
            shard.remove(&cell.name);
        }
    }

    /// How many names this factory holds or waits for.
    pub(crate) fn cell_count(&self) -> usize {
        self.cells.len()
    }
}
