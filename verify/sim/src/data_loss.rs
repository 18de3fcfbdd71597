//! What a store that loses data does to the promise: exactly what is documented, and no more.

use crate::{oracle::Oracle, store::Stored, stores::Stores};
use lock_core::{LockName, clock::Moment};
use std::collections::BTreeMap;

impl Oracle {
    /// The store lost a lease by no doing of its holder.
    pub(crate) fn robbed(&mut self, now: u64, stored: Option<Stored>) {
        let Some(id) = stored.map(|stored| stored.lease) else { return };
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if lease.robbed.is_some() {
            return;
        }
        lease.robbed = Some(now);
        // From here on it excludes nobody.
        for held in self.holds.values().filter_map(|held| held.taken.as_ref()) {
            if let Some(key) = held.key.filter(|_| held.hold.lease_id() == id) {
                self.history.ended(key, Moment::from_micros(now));
            }
        }
    }

    /// The data of the store changed behind the back of all.
    pub(crate) fn data_changed(&mut self, now: u64, before: &BTreeMap<LockName, Stored>, stores: &Stores) {
        for (name, stored) in before {
            let after = stores.stored(now, name);
            if after.is_none_or(|after| after.lease != stored.lease || after.until < stored.until) {
                self.robbed(now, Some(*stored));
            }
        }
        for stored in self.names.keys().filter_map(|name| stores.stored(now, name)) {
            if let Some(lease) = self.leases.get_mut(&stored.lease) {
                lease.revived = true;
            }
        }
    }

    pub(crate) fn counters_in_doubt(&mut self) {
        self.names.values_mut().for_each(|name| name.doubt = true);
    }
}
