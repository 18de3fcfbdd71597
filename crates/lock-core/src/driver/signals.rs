//! Wake-ups from the backend's reader: left in the mail of the cell, never worked on in the reader's thread.

use super::{
    Driver,
    cell::{Cell, Mail, Part},
};
use crate::{
    backend::{MissedWakes, WakeListener},
    machine::HoldId,
    name::LockName,
    observer::{LockEvent, WakeSource},
};
use std::sync::Arc;

impl WakeListener for Driver {
    fn released(&self, name: &LockName) {
        if let Some(cell) = self.cells.get(name) {
            self.leave_mail(&cell, |mail| mail.woken = true);
        }
    }

    fn wake_all(&self, reason: MissedWakes) {
        let wake = match reason {
            MissedWakes::Reconnected => WakeSource::Reconnected,
            MissedWakes::Lagged => WakeSource::Lagged,
        };
        for cell in self.cells.all() {
            self.observe(|backend| LockEvent::WakeUp { backend, name: &cell.name, source: wake });
            self.leave_mail(&cell, |mail| mail.missed_wakes = true);
        }
    }

    fn server_restarted(&self) {
        for cell in self.cells.all() {
            self.leave_mail(&cell, |mail| {
                mail.missed_wakes = true;
                mail.suspicion = true;
            });
        }
    }
}

impl Driver {
    /// For the worker: wake the cell. From any thread; not worked on here.
    fn leave_mail(&self, cell: &Arc<Cell>, f: impl FnOnce(&mut Mail)) {
        if cell.leave(Part::Woken, f) {
            self.leave(|letters| letters.woken.push(cell.clone()));
        }
    }

    /// For the worker: a guard was dropped. Does not allocate, since room was made for every guard.
    pub(super) fn leave_drop(&self, cell: &Arc<Cell>, hold: HoldId) {
        if cell.leave(Part::Dropped, |mail| mail.dropped.push(hold)) {
            self.leave(|letters| letters.dropped.push(cell.clone()));
        }
    }

    /// The machine may have slept: every hold is renewed before it is relied on.
    pub(super) fn suspect_all(&self) {
        for cell in self.cells.all() {
            self.leave_mail(&cell, |mail| mail.suspicion = true);
        }
    }

    /// Somebody changed the store behind the back of this name.
    pub(crate) fn suspect(&self, name: &LockName) {
        if let Some(cell) = self.cells.get(name) {
            self.leave_mail(&cell, |mail| mail.suspicion = true);
        }
    }
}
