//! An acquire that waits for its result.

use super::{
    entry::{AcquireResult, LockEntry, WaiterSlot},
    keeper::ensure_runs,
    release::guard_dropped,
    request::IoPolicy,
    shared::Shared,
};
use crate::{
    error::{LockError, LockErrorKind},
    machine::{Entry, Event, Refusal, WaiterId},
    name::LockName,
    observer::{AcquireOutcome, LockEventKind},
    sync::{atomic::Ordering, lock},
    time::Moment,
};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// An acquire in the queue for its name. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct PendingAcquire {
    shared: Arc<Shared>,
    entry: Arc<LockEntry>,
    waiter: WaiterId,
    entered: Moment,
    done: bool,
}

impl PendingAcquire {
    /// Enters the queue for the name, in which the wait began at this time.
    pub(crate) fn enter(
        shared: &Arc<Shared>,
        name: &LockName,
        entered: Moment,
        entry_of: impl FnOnce(WaiterId) -> Entry,
    ) -> Result<Self, LockError> {
        let shut_down = || LockError::new(LockErrorKind::ShutDown).of(name);
        shared.check_process().map_err(|forked| forked.of(name))?;
        if shared.is_closed() {
            return Err(shut_down());
        }
        ensure_runs(shared)?;
        let waiting = shared.waiting.fetch_add(1, Ordering::AcqRel);
        if waiting >= shared.limits.waiters {
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            let most = shared.limits.waiters;
            let detail = format!("this factory already has {most} waiters");
            return Err(LockError::new(LockErrorKind::TooManyWaiters).of(name).detail(detail));
        }
        shared.observe(name, LockEventKind::WaitStarted);
        // From here on, a shutdown waits for this acquire. If the shutdown is already over, the store must not be used
        // again.
        let _active = shared.activity.guard();
        if shared.is_closed() {
            wait_ended(shared, name, Duration::ZERO, AcquireOutcome::Error);
            return Err(shut_down());
        }
        let (entry, waiter) = take_slot(shared, name);
        let pending = Self { shared: shared.clone(), entry: entry.clone(), waiter, entered, done: false };
        shared.dispatch(&entry, Event::Enter(entry_of(waiter)), IoPolicy::Inline);
        if shared.is_closed() {
            // The shutdown may have iterated over the entries before this one was added.
            shared.dispatch(&entry, Event::Shutdown, IoPolicy::Inline);
            ensure_runs(shared)?;
        }
        Ok(pending)
    }

    pub(crate) fn entry(&self) -> &Arc<LockEntry> {
        &self.entry
    }

    pub(crate) fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<AcquireResult, LockError>> {
        match self.take_result(cx) {
            Some((result, at)) => Poll::Ready(Ok(self.finished(result, at))),
            // The runtime of the keeper's task may have ended, and nothing else would notice.
            None => match ensure_runs(&self.shared) {
                Ok(()) => Poll::Pending,
                Err(nobody) => Poll::Ready(Err(nobody.of(&self.entry.name))),
            },
        }
    }

    /// Takes the result and its time, or registers the waker.
    fn take_result(&self, cx: &Context<'_>) -> Option<(AcquireResult, Moment)> {
        // Cloned before and dropped after the mutex is held: a waker is foreign code.
        let mut waker = Some(cx.waker().clone());
        let mut state = lock(&self.entry.state);
        if let WaiterSlot::Waiting(waiting) = state.waiters.get_mut(&self.waiter)? {
            std::mem::swap(waiting, &mut waker);
            drop(state);
            return None;
        }
        let slot = state.waiters.remove(&self.waiter)?;
        drop(state);
        match slot {
            WaiterSlot::Ready(result, at) => Some((result, at)),
            WaiterSlot::Waiting(_) => None,
        }
    }

    fn finished(&mut self, result: AcquireResult, at: Moment) -> AcquireResult {
        self.done = true;
        let outcome = match &result {
            AcquireResult::Granted(_) => AcquireOutcome::Acquired,
            AcquireResult::Refused(Refusal::Busy, _) => AcquireOutcome::Contended,
            AcquireResult::Refused(Refusal::Timeout(_), _) => AcquireOutcome::Timeout,
            AcquireResult::Refused(..) => AcquireOutcome::Error,
        };
        self.leave(outcome, at);
        result
    }

    fn leave(&self, outcome: AcquireOutcome, at: Moment) {
        wait_ended(&self.shared, &self.entry.name, at.since(self.entered), outcome);
        self.shared.table.remove_if_idle(&self.entry);
    }
}

impl Drop for PendingAcquire {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let slot = lock(&self.entry.state).waiters.remove(&self.waiter);
        match slot {
            // Granted, but the result will not be taken: released like a dropped guard.
            Some(WaiterSlot::Ready(AcquireResult::Granted(hold), _)) => {
                guard_dropped(&self.shared, &self.entry, hold.id());
            }
            Some(WaiterSlot::Waiting(_)) => {
                let left = Event::Leave { waiter: self.waiter };
                self.shared.dispatch(&self.entry, left, IoPolicy::Deferred);
            }
            _ => {}
        }
        self.leave(AcquireOutcome::Cancelled, self.shared.clock.now());
    }
}

fn take_slot(shared: &Shared, name: &LockName) -> (Arc<LockEntry>, WaiterId) {
    loop {
        let entry = shared.entry(name);
        let mut state = lock(&entry.state);
        if state.removed {
            continue;
        }
        let waiter = WaiterId(state.fresh_id());
        state.waiters.insert(waiter, WaiterSlot::Waiting(None));
        drop(state);
        return (entry, waiter);
    }
}

fn wait_ended(shared: &Shared, name: &LockName, waited: Duration, outcome: AcquireOutcome) {
    shared.waiting.fetch_sub(1, Ordering::AcqRel);
    shared.observe(name, LockEventKind::WaitEnded { outcome, waited });
}
