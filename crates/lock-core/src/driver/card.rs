//! This process's card in the store, with its notes: the keeper writes and renews it, and a shutdown removes it.
//!
//! No acquire or release waits for the card, and no lock depends on it.

use crate::{
    backend::{Applied, BackendError, BackendErrorKind, Directory},
    clock::Clock,
    ids::{FencingToken, LeaseNumber, ProcessId},
    inspect::{ProcessCard, printable},
    machine::HoldId,
    name::LockName,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        lock, rank, sleep, timeout,
    },
    time::Moment,
};
use futures_util::FutureExt;
use std::{
    collections::BTreeMap, future::Future, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration,
};
use tokio::sync::Notify;

/// The time limit for a write or removal.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The time for which the store keeps the card of a process that has ended without a shutdown.
const TTL: Duration = Duration::from_secs(60);

const RENEW_EVERY: Duration = Duration::from_secs(TTL.as_secs() / 3);

/// The delay between the first acquire and the first card. A process that ends earlier leaves no card.
const FIRST_AFTER: Duration = Duration::from_millis(500);

/// The shortest time between two writes. Notes that are made in between are written together.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct OwnCard {
    directory: Arc<dyn Directory>,
    process: ProcessId,
    clock: Arc<dyn Clock>,
    state: Mutex<rank::Card, State>,
    /// Notified when the next write moves to an earlier time.
    moved: Notify,
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
    /// The factory has not been used yet.
    Unset,
    At(Moment),
    /// The store refused the card.
    Never,
}

/// The next action of the keeper.
enum Turn {
    /// Write the card now.
    Write,
    /// Wait for this long.
    Wait(Duration),
    /// Stop: no further cards are written.
    End,
}

impl OwnCard {
    pub(super) fn new(
        directory: Arc<dyn Directory>,
        card: ProcessCard,
        process: ProcessId,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (next, not_before) = (NextWrite::Unset, Moment::START);
        let state = Mutex::new(State { card, notes: BTreeMap::new(), next, not_before });
        Self { directory, process, clock, state, moved: Notify::new(), written: AtomicBool::new(false) }
    }

    /// Writes the card and renews it, until the factory is closed or the store refuses the card. `lasts` returns `true`
    /// for a name that is held with this token.
    pub(super) async fn keep(
        &self,
        is_closed: impl Fn() -> bool,
        lasts: impl Fn(&LockName, FencingToken) -> bool,
    ) {
        loop {
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            if is_closed() {
                return;
            }
            match self.turn() {
                Turn::Write => {
                    self.write(self.current(&lasts)).await;
                    // A removal at shutdown may have been executed before this write.
                    if is_closed() {
                        self.remove().await;
                    }
                }
                Turn::Wait(wait) => tokio::select! {
                    () = sleep(wait) => {}
                    () = moved => {}
                },
                Turn::End => return,
            }
        }
    }

    async fn write(&self, card: ProcessCard) {
        let written = answer(async { self.directory.write_card(self.process, card, TTL).await }).await;
        if let Err(error) = written {
            match error.kind() {
                BackendErrorKind::Denied | BackendErrorKind::Unsupported => {
                    lock(&self.state).next = NextWrite::Never;
                    tracing::warn!(
                        error = %error,
                        "failed to write the process card; no further cards will be written"
                    );
                }
                _ => tracing::debug!(error = %error, "failed to write the process card"),
            }
        }
    }

    /// Removes the card from the store, if it may be there.
    pub(super) async fn remove(&self) {
        if !self.written.load(Ordering::SeqCst) {
            return;
        }
        if let Err(error) = answer(async { self.directory.remove_card(self.process).await }).await {
            tracing::debug!(error = %error, "failed to remove the process card");
        }
    }

    fn turn(&self) -> Turn {
        let now = self.clock.now();
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

    /// Sets the note on a hold, and moves the next write to the earliest allowed time.
    pub(super) fn note(&self, name: &LockName, hold: HoldId, text: &str) {
        {
            let now = self.clock.now();
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
    fn current(&self, lasts: impl Fn(&LockName, FencingToken) -> bool) -> ProcessCard {
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

/// Waits for a directory's reply. The directory may hang or panic, but the keeper, which waits here, must not.
async fn answer(call: impl Future<Output = Result<(), BackendError>>) -> Result<(), BackendError> {
    let failed = |kind, message| Err(BackendError::new(kind, Applied::Unknown, message));
    match timeout(ANSWER_WITHIN, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => failed(BackendErrorKind::Unsupported, "the directory panicked"),
        Err(_) => failed(BackendErrorKind::Timeout, "the directory did not reply in time"),
    }
}
