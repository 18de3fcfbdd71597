//! This process's card with its notes, and the time of the next write.

use crate::{
    backend::Directory,
    ids::{FencingToken, LeaseNumber},
    inspect::{ProcessCard, printable},
    machine::HoldId,
    name::LockName,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        lock, rank,
    },
    time::Moment,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The time for which the store keeps the card of a process that has ended without a shutdown.
pub(super) const TTL: Duration = Duration::from_secs(60);

const RENEW_EVERY: Duration = Duration::from_secs(TTL.as_secs() / 3);

/// The delay between the first acquire and the first card. A process that ends earlier leaves no card.
const FIRST_AFTER: Duration = Duration::from_millis(500);

/// The shortest time between two writes. Notes that are made in between are written together.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct OwnCard {
    pub(super) directory: Arc<dyn Directory>,
    state: Mutex<rank::Card, State>,
    /// Notified when the next write moves to an earlier time.
    pub(super) moved: Notify,
    /// Set once the store may have the card.
    written: AtomicBool,
}

struct State {
    card: ProcessCard,
    notes: BTreeMap<LeaseNumber, Note>,
    next: NextWrite,
    /// The earliest time of the next write.
    not_before: Moment,
}

/// A note on a hold. A lease that is handed over keeps its number, but its next hold has another token.
struct Note {
    name: LockName,
    token: FencingToken,
    text: String,
}

#[derive(Clone, Copy)]
enum NextWrite {
    /// No worker has run yet.
    Unset,
    At(Moment),
    /// The store refused the card.
    Never,
}

/// The next action of a worker.
pub(super) enum Turn {
    /// Write the card now. Only one worker makes each write, even if several runtimes have a worker.
    Write,
    /// Wait for this long.
    Wait(Duration),
    /// Stop: no further cards are written.
    End,
}

impl OwnCard {
    pub(super) fn new(directory: Arc<dyn Directory>, card: ProcessCard) -> Self {
        let (next, not_before) = (NextWrite::Unset, Moment::START);
        let state = Mutex::new(State { card, notes: BTreeMap::new(), next, not_before });
        Self { directory, state, moved: Notify::new(), written: AtomicBool::new(false) }
    }

    pub(super) fn turn(&self, now: Moment) -> Turn {
        let mut state = lock(&self.state);
        match state.next {
            NextWrite::Never => Turn::End,
            NextWrite::Unset => {
                state.next = NextWrite::At(now + FIRST_AFTER);
                Turn::Wait(FIRST_AFTER)
            }
            NextWrite::At(next) if now < next => Turn::Wait(next.since(now)),
            NextWrite::At(_) => {
                state.next = NextWrite::At(now + RENEW_EVERY);
                state.not_before = now + MIN_INTERVAL;
                self.written.store(true, Ordering::SeqCst);
                Turn::Write
            }
        }
    }

    /// Returns `true` if the store may have the card.
    pub(super) fn may_be_stored(&self) -> bool {
        self.written.load(Ordering::SeqCst)
    }

    /// Stops all further writes. Returns `true` only to the first caller.
    pub(super) fn refused(&self) -> bool {
        let mut state = lock(&self.state);
        !matches!(std::mem::replace(&mut state.next, NextWrite::Never), NextWrite::Never)
    }

    /// Sets the note on a hold, and moves the next write to the earliest allowed time.
    pub(super) fn note(&self, name: &LockName, hold: HoldId, text: &str, now: Moment) {
        {
            let mut state = lock(&self.state);
            let is_full = state.notes.len() >= ProcessCard::MAX_NOTES;
            if is_full && !state.notes.contains_key(&hold.lease) {
                return;
            }
            let note = Note { name: name.clone(), token: hold.token, text: printable(text) };
            state.notes.insert(hold.lease, note);
            if let NextWrite::At(next) = state.next {
                state.next = NextWrite::At(next.min(now.max(state.not_before)));
            }
        }
        self.moved.notify_waiters();
    }

    /// Returns the card with the notes on holds for which `lasts` returns `true`, and drops all other notes.
    pub(super) fn current(&self, lasts: impl Fn(&LockName, FencingToken) -> bool) -> ProcessCard {
        let noted = |state: &State| -> Vec<_> {
            state.notes.iter().map(|(lease, note)| (*lease, note.name.clone(), note.token)).collect()
        };
        // `lasts` is not called under the mutex, since it locks the entry of the name.
        let noted = noted(&lock(&self.state));
        let ended: Vec<_> = noted.into_iter().filter(|(_, name, token)| !lasts(name, *token)).collect();
        let mut state = lock(&self.state);
        for (lease, _, token) in ended {
            // The next hold of the lease may have a note by now.
            if state.notes.get(&lease).is_some_and(|note| note.token == token) {
                state.notes.remove(&lease);
            }
        }
        let notes = state.notes.iter().map(|(lease, note)| (*lease, note.text.clone())).collect();
        ProcessCard { notes, ..state.card.clone() }
    }
}
