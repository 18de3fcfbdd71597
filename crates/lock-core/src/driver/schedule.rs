//! The times at which something is due, sorted: the wake-ups of entries, the times from which their holds may be renewed
//! with others, and the timeouts of operations.

use super::{
    entry::{LockEntry, Times},
    work_queue::Answered,
};
use crate::time::Moment;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

#[derive(Debug, Default)]
pub(super) struct Schedule {
    wakes: Sorted,
    renewable: Sorted,
}

#[derive(Debug, Default)]
struct Sorted(BTreeMap<(Moment, u64), Arc<LockEntry>>);

impl Sorted {
    fn set(&mut self, entry: &Arc<LockEntry>, from: Option<Moment>, to: Option<Moment>) {
        if from == to {
            return;
        }
        if let Some(at) = from {
            self.0.remove(&(at, entry.id));
        }
        if let Some(at) = to {
            self.0.insert((at, entry.id), entry.clone());
        }
    }
}

impl Schedule {
    /// Changes an entry's times and returns the earliest of all wake-ups.
    pub(super) fn set(&mut self, entry: &Arc<LockEntry>, from: Times, to: Times) -> Option<Moment> {
        self.wakes.set(entry, from.wake, to.wake);
        self.renewable.set(entry, from.renewable_from, to.renewable_from);
        self.next()
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.wakes.0.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<LockEntry>> {
        let later = self.wakes.0.split_off(&(now + Duration::from_micros(1), 0));
        std::mem::replace(&mut self.wakes.0, later).into_values().collect()
    }

    /// Returns the entries whose holds may be renewed now. They stay in the schedule until they are renewed.
    pub(super) fn renewable(&self, now: Moment) -> Vec<Arc<LockEntry>> {
        self.renewable.0.range(..=(now, u64::MAX)).map(|(_, entry)| entry.clone()).collect()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// An operation that can time out.
pub(super) trait Expire: Send + Sync {
    /// Ends the operation, and returns its outcome, unless it has been answered.
    fn expire(&self) -> Option<Answered>;
}

/// The operations in progress, sorted by the time at which they time out.
#[derive(Default)]
pub(super) struct Deadlines(BTreeMap<(Moment, u64), Arc<dyn Expire>>);

impl Deadlines {
    pub(super) fn insert(&mut self, due: Moment, id: u64, operation: Arc<dyn Expire>) {
        self.0.insert((due, id), operation);
    }

    /// Removes an operation. The caller drops it after releasing the mutex.
    pub(super) fn remove(&mut self, due: Moment, id: u64) -> Option<Arc<dyn Expire>> {
        self.0.remove(&(due, id))
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.0.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<dyn Expire>> {
        if self.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let later = self.0.split_off(&(now + Duration::from_micros(1), 0));
        std::mem::replace(&mut self.0, later).into_values().collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Arc<dyn Expire>> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").field("operations", &self.0.len()).finish()
    }
}
