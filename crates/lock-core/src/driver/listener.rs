//! Handles wake-ups, in the store's task that reads them.

use super::{request::IoPolicy, shared::Shared};
use crate::{
    backend::{MissedWakes, WakeListener},
    machine::Event,
    name::LockName,
    observer::{LockEvent, WakeSource},
};

impl WakeListener for Shared {
    fn released(&self, stored: &LockName) {
        let Some(entry) = self.unstored(stored).and_then(|name| self.table.get(&name)) else { return };
        match self.me.upgrade().filter(|_| self.wakes_in_task && !self.is_closed()) {
            // A detour through the worker would cost a task switch.
            Some(shared) => shared.dispatch(&entry, Event::Woken, IoPolicy::Inline),
            None => self.defer_event(&entry, |deferred| deferred.woken = true),
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
    /// Reports that the store was changed by force: the hold on this name is renewed before it is relied on.
    pub(crate) fn suspect(&self, name: &LockName) {
        if let Some(entry) = self.table.get(name) {
            self.defer_event(&entry, |deferred| deferred.suspicion = true);
        }
    }
}
