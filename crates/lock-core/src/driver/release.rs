//! A release that waits for its reply, and the drop of a guard, which does not.

use super::{
    entry::{LockEntry, ReleaseSlot},
    keeper::ensure_runs,
    request::IoPolicy,
    shared::Shared,
};
use crate::{
    machine::{Event, HoldId, ReleaseAnswer, Ticket, Unconfirmed},
    sync::lock,
    wake::contained,
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A release that waits for its reply. Dropping it lets the release continue in the background.
#[derive(Debug)]
pub(crate) struct PendingRelease {
    shared: Arc<Shared>,
    entry: Arc<LockEntry>,
    ticket: Ticket,
}

impl PendingRelease {
    /// Starts the release of a guard.
    pub(crate) fn start(shared: &Arc<Shared>, entry: &Arc<LockEntry>, hold: HoldId) -> Self {
        entry.guard_released();
        shared.agenda.guard_gone();
        let ticket = {
            let mut state = lock(&entry.state);
            let ticket = Ticket(state.fresh_id());
            state.releases.insert(ticket, ReleaseSlot::Waiting(None));
            ticket
        };
        shared.dispatch(entry, Event::Release { hold, ticket }, IoPolicy::Inline);
        Self { shared: shared.clone(), entry: entry.clone(), ticket }
    }
}

/// Leaves the release of a dropped guard to the keeper, without allocating or doing I/O.
pub(crate) fn guard_dropped(shared: &Arc<Shared>, entry: &Arc<LockEntry>, hold: HoldId) {
    if shared.is_forked() {
        return;
    }
    shared.defer_drop(entry, hold);
    if shared.home.is_running() {
        return;
    }
    if shared.is_closed() {
        // After a shutdown, everything is released, and only the guard count has to be updated.
        shared.dispatch(entry, Event::Tick, IoPolicy::Discard);
    } else {
        // The runtime of a worker may have ended. If there is no other, the lease ends by itself.
        // A thread that ends cannot enter a runtime, and says so with a panic.
        contained("a runtime", || drop(ensure_runs(shared)));
    }
}

impl Future for PendingRelease {
    type Output = ReleaseAnswer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ReleaseAnswer> {
        let mut waker = Some(cx.waker().clone());
        let answer = match lock(&self.entry.state).releases.get_mut(&self.ticket) {
            Some(ReleaseSlot::Waiting(waiting)) => {
                std::mem::swap(waiting, &mut waker);
                None
            }
            Some(ReleaseSlot::Answered(answer)) => Some(*answer),
            None => Some(Err(Unconfirmed)),
        };
        drop(waker);
        match answer {
            Some(answer) => Poll::Ready(answer),
            None if ensure_runs(&self.shared).is_err() => Poll::Ready(Err(Unconfirmed)),
            None => Poll::Pending,
        }
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        let slot = lock(&self.entry.state).releases.remove(&self.ticket);
        drop(slot);
        self.shared.table.remove_if_idle(&self.entry);
    }
}
