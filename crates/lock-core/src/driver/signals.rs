//! Wake-ups from the backend's reader: left in the mail of the cell, never worked on in the reader's thread.

use super::{
    Driver,
    cell::{Cell, Mail},
};
use crate::{
    backend::{Signals, WakeReason},
    name::LockName,
    observe::{LockEvent, WakeUp},
};
use std::sync::Arc;

impl Signals for Driver {
    fn freed(&self, name: &LockName) {
        if let Some(cell) = self.cells.get(name) {
            self.leave_mail(&cell, |mail| mail.woken = true);
        }
    }

    fn all(&self, reason: WakeReason) {
        let wake = match reason {
            WakeReason::Reconnected => WakeUp::Reconnected,
            WakeReason::Lagged => WakeUp::Lagged,
        };
        for cell in self.cells.all() {
            self.observe(&LockEvent::WakeUp { name: &cell.name, wake });
            self.leave_mail(&cell, |mail| mail.woken = true);
        }
    }

    fn node_restarted(&self) {
        for cell in self.cells.all() {
            self.leave_mail(&cell, |mail| {
                mail.woken = true;
                mail.suspicion = true;
            });
        }
    }
}

impl Driver {
    pub(super) fn leave_mail(&self, cell: &Arc<Cell>, f: impl FnOnce(&mut Mail)) {
        if cell.leave(f) {
            self.inbox.put(|letters| letters.cells.push(cell.clone()));
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
