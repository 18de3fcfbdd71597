//! The names of the in-memory store, swept so that one-off names do not accumulate.

use crate::{name::LockName, store::Slot, time::UtcTime};
use std::{collections::HashMap, time::Duration};

/// The default retention of a counter. The store's own clock never steps back, so a counter older than a millisecond
/// could be dropped; a minute leaves room for clocks that tests set back.
pub(super) const RETENTION: Duration = Duration::from_secs(60);

/// The minimum number of names for a sweep. Each sweep waits until the names have doubled since the last one, so its
/// amortized cost per acquire is constant.
const SWEEP_AT_LEAST: usize = 256;

pub(super) struct SlotMap {
    /// The time at which the store started or last lost its data.
    since: UtcTime,
    slots: HashMap<LockName, Slot>,
    sweep_at: usize,
}

impl SlotMap {
    /// Creates an empty map.
    pub(super) fn empty_since(since: UtcTime) -> Self {
        Self { since, slots: HashMap::new(), sweep_at: 0 }
    }

    /// Returns the time since the store started or last lost its data.
    pub(super) fn age(&self, now: UtcTime) -> Duration {
        now.since(self.since)
    }

    /// Applies `f` to the slot of `name`. An unknown name is not stored.
    pub(super) fn slot<R>(&mut self, name: &LockName, f: impl FnOnce(&mut Slot) -> R) -> R {
        match self.slots.get_mut(name) {
            Some(slot) => f(slot),
            None => f(&mut Slot::default()),
        }
    }

    /// Applies `f` to the slot of `name`, and stores the slot unless it is empty.
    pub(super) fn slot_or_new<R>(
        &mut self,
        name: &LockName,
        now: UtcTime,
        f: impl FnOnce(&mut Slot) -> R,
    ) -> R {
        if let Some(slot) = self.slots.get_mut(name) {
            return f(slot);
        }
        if self.slots.len() >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.sweep(now);
        }
        let mut slot = Slot::default();
        let made = f(&mut slot);
        if !slot.is_empty() {
            self.slots.insert(name.clone(), slot);
        }
        made
    }

    fn sweep(&mut self, now: UtcTime) {
        self.slots.retain(|_, slot| {
            slot.expire(now);
            !slot.is_empty()
        });
        self.sweep_at = self.slots.len() * 2;
    }

    /// Returns the held names, sorted.
    pub(super) fn held(&mut self, now: UtcTime) -> Vec<LockName> {
        let held = self.slots.iter_mut().filter_map(|(name, slot)| slot.inspect(now).map(|_| name.clone()));
        let mut names: Vec<_> = held.collect();
        names.sort();
        names
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}
