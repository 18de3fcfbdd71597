//! A release that waits for its reply, and the drop of a guard, which does not.

use super::{entry::LockEntry, request::IoPolicy, shared::Shared, slot::ReleaseSlot};
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

impl Shared {
    pub(crate) fn release(self: &Arc<Self>, entry: &Arc<LockEntry>, hold: HoldId) -> PendingRelease {
        // Called before the operation starts, because the operation may continue in this runtime.
        let _ = self.ensure_worker();
        entry.guard_released();
        self.work.guard_gone();
        let ticket = {
            let mut state = lock(&entry.state);
            let ticket = Ticket(state.fresh_id());
            state.releases.insert(ticket, ReleaseSlot::Waiting(None));
            ticket
        };
        self.dispatch(entry, Event::Release { hold, ticket }, IoPolicy::Inline);
        PendingRelease { shared: self.clone(), entry: entry.clone(), ticket }
    }

    /// Defers the release of a dropped guard to the worker, without allocating, doing I/O or spawning a task.
    pub(crate) fn guard_dropped(self: &Arc<Self>, entry: &Arc<LockEntry>, hold: HoldId) {
        if self.is_forked() {
            return;
        }
        self.defer_drop(entry, hold);
        if self.is_closed() && !self.runtimes.any() {
            // After a shutdown, everything is released, and only the guard count has to be updated.
            self.dispatch(entry, Event::Tick, IoPolicy::Discard);
        }
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
            None if self.shared.ensure_worker().is_err() => Poll::Ready(Err(Unconfirmed)),
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
