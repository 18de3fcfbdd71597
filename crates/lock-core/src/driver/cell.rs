//! One lock name that this process holds or waits for.

use super::{
    hold_state::HoldState,
    seat::{ReleaseSeat, Seat},
};
use crate::{
    backend::BackendError,
    machine::{HoldId, Machine, MachineConfig, Ticket, WaiterId},
    name::LockName,
    sync::{Mutex, lock},
    time::Moment,
};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) id: u64,
    pub(crate) name: LockName,
    pub(super) state: Mutex<CellState>,
    /// What is left here without taking the state: by Drop, which must not allocate, and by the backend's
    /// reader, which must not wait.
    mail: Mutex<Mail>,
}

#[derive(Debug)]
pub(super) struct CellState {
    pub(super) machine: Machine,
    pub(super) seats: BTreeMap<WaiterId, Seat>,
    pub(super) releases: BTreeMap<Ticket, ReleaseSeat>,
    pub(super) hold: Option<Arc<HoldState>>,
    /// What the last acquire and the last renewal failed with; `None` if they were answered.
    pub(super) errors: Errors,
    pub(super) scheduled: Option<Moment>,
    /// Counted among those that hold, want or undo something.
    pub(super) busy: bool,
    /// Out of the map: whoever still has this cell looks the name up again.
    pub(super) dead: bool,
    next_id: u64,
}

/// Kept apart by operation: at most one acquire and one renewal of a name are under way, so nobody is told of an error of
/// another operation.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub(super) acquire: Option<Arc<BackendError>>,
    pub(super) renewal: Option<Arc<BackendError>>,
}

#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) dropped: Vec<HoldId>,
    guards: usize,
    pub(super) woken: bool,
    pub(super) missed_wakes: bool,
    pub(super) suspicion: bool,
    /// The cell stands in the worker's inbox: among those with dropped guards, among the woken.
    queued: [bool; 2],
}

impl Cell {
    pub(super) fn new(id: u64, name: LockName, rules: MachineConfig) -> Self {
        let state = CellState {
            machine: Machine::new(rules),
            seats: BTreeMap::new(),
            releases: BTreeMap::new(),
            hold: None,
            errors: Errors::default(),
            scheduled: None,
            busy: false,
            dead: false,
            next_id: 0,
        };
        Self { id, name, state: Mutex::new(state), mail: Mutex::default() }
    }

    /// Makes room for the drop of one more guard.
    pub(super) fn guard_made(&self) {
        let mut mail = lock(&self.mail);
        mail.guards += 1;
        let room = mail.guards - mail.dropped.len();
        mail.dropped.reserve(room);
    }

    pub(super) fn guard_released(&self) {
        let mut mail = lock(&self.mail);
        mail.guards = mail.guards.saturating_sub(1);
    }

    /// Leaves something in the mail; `true` if the cell has to be put into that part of the worker's inbox.
    pub(super) fn leave(&self, part: Part, f: impl FnOnce(&mut Mail)) -> bool {
        let mut mail = lock(&self.mail);
        f(&mut mail);
        !std::mem::replace(&mut mail.queued[part as usize], true)
    }

    /// Takes the next thing out of the mail.
    pub(super) fn next_mail(&self) -> Option<MailItem> {
        let mut mail = lock(&self.mail);
        if let Some(token) = mail.dropped.pop() {
            mail.guards = mail.guards.saturating_sub(1);
            return Some(MailItem::Dropped(token));
        }
        if std::mem::take(&mut mail.suspicion) {
            return Some(MailItem::Suspicion);
        }
        if std::mem::take(&mut mail.missed_wakes) {
            return Some(MailItem::MissedWakes);
        }
        std::mem::take(&mut mail.woken).then_some(MailItem::Woken)
    }

    pub(super) fn taken_from_inbox(&self, part: Part) {
        lock(&self.mail).queued[part as usize] = false;
    }

    fn has_mail(&self) -> bool {
        !lock(&self.mail).dropped.is_empty()
    }
}

/// The parts of the worker's inbox that hold cells with mail.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Dropped,
    Woken,
}

pub(super) enum MailItem {
    Dropped(HoldId),
    Woken,
    MissedWakes,
    Suspicion,
}

impl CellState {
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Nothing would be lost with this cell.
    pub(super) fn is_idle(&self, cell: &Cell) -> bool {
        self.machine.is_idle() && self.seats.is_empty() && self.releases.is_empty() && !cell.has_mail()
    }
}
