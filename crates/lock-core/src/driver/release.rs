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

/// Lowers the weight of a permit to 1; the store is told in the background.
pub(crate) fn downgrade(shared: &Arc<Shared>, entry: &Arc<LockEntry>, hold: HoldId) {
    shared.dispatch(entry, Event::Downgrade { hold }, IoPolicy::Inline);
}

/// Leaves the release of a dropped guard to the keeper, without allocating, doing I/O or spawning a task.
pub(crate) fn guard_dropped(shared: &Arc<Shared>, entry: &Arc<LockEntry>, hold: HoldId) {
    if shared.is_forked() {
        return;
    }
    // If the runtime of a worker has ended, the next use of the factory releases it, or the lease ends by itself.
    shared.defer_drop(entry, hold);
    if shared.is_closed() && !shared.home.is_running() {
        // After a shutdown, everything is released, and only the guard count has to be updated.
        shared.dispatch(entry, Event::Tick, IoPolicy::Discard);
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
