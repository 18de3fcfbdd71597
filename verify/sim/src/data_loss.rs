//! The effect of lost data on the guarantees: the documented one, and no more.

use crate::{oracle::Oracle, store::Stored, stores::Stores};
use lock_core::{LockName, clock::Moment};
use std::collections::BTreeMap;

/// The stored leases before a change.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The leases in the store that changes.
    pub(crate) here: BTreeMap<LockName, Stored>,
    /// The leases that a majority has.
    pub(crate) decided: BTreeMap<LockName, Stored>,
}

impl Oracle {
    /// Records that the store lost a lease without a fault of its holder.
    pub(crate) fn robbed(&mut self, now: u64, stored: Option<Stored>) {
        let Some(id) = stored.map(|stored| stored.lease) else { return };
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if lease.robbed.is_some() {
            return;
        }
        lease.robbed = Some(now);
        if self.quorum.is_some() {
            // The nodes that lost it do not vote for another lease until it has ended.
            return;
        }
        // From now on it excludes nobody.
        for held in self.holds.values().filter_map(|held| held.taken.as_ref()) {
            if let Some(key) = held.key.filter(|_| held.hold.lease_id() == id) {
                self.history.ended(key, Moment::from_micros(now));
            }
        }
    }

    /// Records that the data of a store changed without a request.
    pub(crate) fn data_changed(&mut self, now: u64, node: usize, before: &Kept, stores: &Stores) {
        for (name, stored) in &before.here {
            let is_kept = |after: &Stored| after.lease == stored.lease && after.until >= stored.until;
            if stores[node].stored(now, name).is_some_and(|after| is_kept(&after)) {
                continue;
            }
            // A majority may still have it, though possibly for a shorter time.
            let decided = before.decided.get(name).map_or(0, |decided| decided.until);
            let after = stores.stored(now, name).filter(|after| after.lease == stored.lease);
            if after.is_none_or(|after| stores.len() == 1 || after.until < decided) {
                self.robbed(now, Some(*stored));
            }
            if after.is_some() {
                self.set_again(stored.lease);
            }
        }
        for stored in self.names.keys().filter_map(|name| stores[node].stored(now, name)) {
            if let Some(lease) = self.leases.get_mut(&stored.lease) {
                lease.revived = true;
            }
        }
    }

    pub(crate) fn counters_in_doubt(&mut self) {
        self.names.values_mut().for_each(|name| name.doubt = true);
    }
}
