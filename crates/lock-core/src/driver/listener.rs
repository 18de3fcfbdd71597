//! Wake-ups from the reader of the store: left with the entry, never worked on in the thread of the reader.

use super::shared::Shared;
use crate::{
    backend::{MissedWakes, WakeListener},
    name::LockName,
    observer::{LockEvent, WakeSource},
};

impl WakeListener for Shared {
    fn released(&self, name: &LockName) {
        if let Some(entry) = self.table.get(name) {
            self.defer_event(&entry, |deferred| deferred.woken = true);
        }
    }

    fn wake_all(&self, reason: MissedWakes) {
        let source = match reason {
            MissedWakes::Reconnected => WakeSource::Reconnected,
            MissedWakes::Lagged => WakeSource::Lagged,
        };
        for entry in self.table.all() {
            self.observe(|backend| LockEvent::WakeUp { backend, name: &entry.name, source });
            self.defer_event(&entry, |deferred| deferred.missed_wakes = true);
        }
    }

    fn server_restarted(&self) {
        for entry in self.table.all() {
            self.defer_event(&entry, |deferred| {
                deferred.missed_wakes = true;
                deferred.suspicion = true;
            });
        }
    }
}

impl Shared {
    /// Somebody changed the store behind the back of this name: its hold is renewed before it is relied on.
    pub(crate) fn suspect(&self, name: &LockName) {
        if let Some(entry) = self.table.get(name) {
            self.defer_event(&entry, |deferred| deferred.suspicion = true);
        }
    }
}
