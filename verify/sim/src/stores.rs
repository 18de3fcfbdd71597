//! The stores of a run: a single one, or the nodes of a quorum. A lease counts as stored if a majority has it.

use crate::store::{Store, Stored};
use lock_core::{LockName, clock::UtcTime};
use lock_testkit::planted::PlantedBug;
use std::{
    cmp::Reverse,
    ops::{Index, IndexMut},
    slice::Iter,
    time::Duration,
};

#[derive(Debug)]
pub(crate) struct Stores(Vec<Store>);

impl Stores {
    pub(crate) fn new(stores: impl IntoIterator<Item = Store>) -> Self {
        Self(stores.into_iter().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn majority(&self) -> usize {
        self.len() / 2 + 1
    }

    pub(crate) fn iter(&self) -> Iter<'_, Store> {
        self.0.iter()
    }

    /// Returns the lease that a majority has, and the true time until which the majority has it.
    pub(crate) fn stored(&self, time: u64, name: &LockName) -> Option<Stored> {
        let mut all: Vec<_> = self.iter().filter_map(|store| store.stored(time, name)).collect();
        all.sort_by_key(|stored| Reverse(stored.until));
        let votes = |upto: usize, of: &Stored| all[..=upto].iter().filter(|s| s.lease == of.lease).count();
        let decided = |(place, stored): &(usize, &Stored)| votes(*place, stored) >= self.majority();
        all.iter().enumerate().find(decided).map(|(_, stored)| *stored)
    }

    /// Returns the largest distance of a clock from its initial offset.
    pub(crate) fn farthest_step(&self) -> Duration {
        self.iter().map(|store| store.clock.farthest_step()).max().unwrap_or_default()
    }

    /// Returns the time according to a store.
    pub(crate) fn time_of(&self, number: usize, time: u64) -> UtcTime {
        let one_for_all = self[number].data.has(PlantedBug::OneClockForNodes);
        self[if one_for_all { 0 } else { number }].clock.at(time)
    }

    /// Returns all remaining leases of these names, each with the number of its store.
    pub(crate) fn left<'a>(
        &'a self,
        time: u64,
        names: impl IntoIterator<Item = &'a LockName>,
    ) -> Vec<(usize, Stored)> {
        let of_name = |name: &'a LockName| {
            let stored = move |(number, store): (usize, &Store)| Some((number, store.stored(time, name)?));
            self.iter().enumerate().filter_map(stored)
        };
        names.into_iter().flat_map(of_name).collect()
    }
}

impl Index<usize> for Stores {
    type Output = Store;

    fn index(&self, number: usize) -> &Store {
        &self.0[number]
    }
}

impl IndexMut<usize> for Stores {
    fn index_mut(&mut self, number: usize) -> &mut Store {
        &mut self.0[number]
    }
}
