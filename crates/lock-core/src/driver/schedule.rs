//! The wake-up times of all entries, sorted.

use super::entry::LockEntry;
use crate::time::Moment;
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

#[derive(Debug, Default)]
pub(super) struct Schedule {
    wakes: BTreeMap<(Moment, u64), Arc<LockEntry>>,
}

impl Schedule {
    /// Moves the wake-up of an entry and returns the earliest of all.
    pub(super) fn set(
        &mut self,
        entry: &Arc<LockEntry>,
        from: Option<Moment>,
        to: Option<Moment>,
    ) -> Option<Moment> {
        if let Some(at) = from {
            self.wakes.remove(&(at, entry.id));
        }
        if let Some(at) = to {
            self.wakes.insert((at, entry.id), entry.clone());
        }
        self.next()
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.wakes.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<LockEntry>> {
        let later = self.wakes.split_off(&(now + std::time::Duration::from_micros(1), 0));
        std::mem::replace(&mut self.wakes, later).into_values().collect()
    }

    /// Returns the entries that wake up after `after` and no later than `to`. They stay in the schedule.
    pub(super) fn waking_between(&self, after: Moment, to: Moment) -> Vec<Arc<LockEntry>> {
        let between = self.wakes.range((Bound::Excluded((after, u64::MAX)), Bound::Unbounded));
        between.take_while(|((at, _), _)| *at <= to).map(|(_, entry)| entry.clone()).collect()
    }

    pub(super) fn clear(&mut self) {
        self.wakes.clear();
    }
}
