//! Commands that are IO, as calls of the backend, each of which becomes exactly one event.

use super::{
    Driver,
    call::{Answers, Call},
    cell::Cell,
};
use crate::{
    backend::{
        AcquireMode, AcquireRequest, BackendError, NotifyWaiters, ReleaseRequest, RenewRequest, Reply,
    },
    ids::{LeaseId, LeaseNumber},
    machine::{Event, Failure, WatchAnswer},
    sync::{Handle, lock},
    terms::Terms,
    time::{Moment, ServerTime},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// One operation on the store.
#[derive(Debug, Clone)]
pub(super) enum Op {
    TryAcquire { lease: LeaseNumber, terms: Terms, not_after: ServerTime, mode: AcquireMode },
    Renew { lease: LeaseNumber, terms: Terms, not_after: ServerTime, sent: Moment },
    Release { lease: LeaseNumber, depth_left: u32, notify: NotifyWaiters, timeout: Duration },
    Watch,
    Unwatch,
}

impl Op {
    /// The event of an answer that never came.
    pub(super) fn unknown(&self) -> Event {
        match *self {
            Self::TryAcquire { lease, .. } => Event::Acquired { lease, outcome: Err(Failure::UNKNOWN) },
            Self::Renew { lease, sent, .. } => Event::Renewed { lease, sent, outcome: Err(Failure::UNKNOWN) },
            Self::Release { lease, depth_left, .. } => {
                Event::Released { lease, depth_left, outcome: Err(Failure::UNKNOWN) }
            }
            Self::Watch => Event::Watched(WatchAnswer::Failed),
            Self::Unwatch => Event::Unwatched(WatchAnswer::Failed),
        }
    }

    /// Keeps the error for waiters and observers; the machine only needs to know its nature.
    fn noted<T>(&self, cell: &Cell, outcome: Result<Reply<T>, BackendError>) -> Result<Reply<T>, Failure> {
        outcome.map_err(|error| {
            let failure = Failure::from(&error);
            self.note(cell, &Arc::new(error));
            failure
        })
    }

    pub(super) fn note(&self, cell: &Cell, error: &Arc<BackendError>) {
        let mut state = lock(&cell.state);
        match self {
            Self::TryAcquire { .. } => state.errors.acquire = Some(error.clone()),
            Self::Renew { .. } => state.errors.renewal = Some(error.clone()),
            Self::Release { .. } | Self::Watch | Self::Unwatch => {}
        }
    }
}

/// So that one slow store does not have to carry a batch of any size.
const RENEWALS_AT_ONCE: usize = 500;

impl Driver {
    /// Starts an operation: an answer that is there at once is returned, any other call goes to the worker.
    pub(super) fn start(self: &Arc<Self>, cell: &Arc<Cell>, op: Op) -> Option<Event> {
        if Handle::try_current().is_err() {
            // Outside of a runtime a client of the store has neither sockets nor timers.
            self.leave(|letters| letters.ops.push((cell.clone(), op)));
            return None;
        }
        let mut call = self.call(cell, op);
        if let Some(answers) = call.poll_in_place() {
            return answers.into_iter().next().map(|(_, event)| event);
        }
        let call = self.timed(call);
        self.leave(|letters| letters.calls.push(call));
        // Its worker may have gone meanwhile, with its runtime: then nobody will carry it, and its name need not wait
        // until its time is over.
        let _ = self.ensure_worker();
        None
    }

    pub(super) fn call(self: &Arc<Self>, cell: &Arc<Cell>, op: Op) -> Call {
        let timeout = match &op {
            Op::TryAcquire { terms, .. } | Op::Renew { terms, .. } => terms.operation_timeout,
            Op::Release { timeout, .. } => *timeout,
            Op::Watch | Op::Unwatch => self.operation_timeout(),
        };
        let (driver, at, asked) = (self.clone(), cell.clone(), op.clone());
        let work = async move {
            let event = driver.perform(&at, asked).await;
            vec![(at, event)]
        };
        self.new_call(vec![(cell.clone(), op)], timeout, work)
    }

    /// Due renewals, together: one call for those of the same operation timeout, since nobody's renewal may be given up
    /// early, or late, for sharing a call with another.
    pub(super) fn renewal_calls(self: &Arc<Self>, due: Vec<(Arc<Cell>, Op)>) -> Vec<Call> {
        let mut by_timeout: BTreeMap<Duration, Vec<(Arc<Cell>, Op)>> = BTreeMap::new();
        for (cell, op) in due {
            if let Op::Renew { terms, .. } = &op {
                by_timeout.entry(terms.operation_timeout).or_default().push((cell, op));
            }
        }
        let mut calls = Vec::new();
        for (timeout, due) in by_timeout {
            for batch in due.chunks(RENEWALS_AT_ONCE).map(<[_]>::to_vec) {
                let (driver, asked) = (self.clone(), batch.clone());
                calls.push(self.new_call(
                    batch,
                    timeout,
                    async move { driver.perform_renewals(asked).await },
                ));
            }
        }
        calls
    }

    async fn perform(&self, cell: &Arc<Cell>, op: Op) -> Event {
        let backend = &*self.backend;
        let name = cell.name.clone();
        match &op {
            &Op::TryAcquire { lease, ref terms, not_after, mode } => {
                let (id, duration) = (LeaseId::new(self.process, lease), terms.lease);
                let retention = terms.retention;
                let request = AcquireRequest { name, lease: id, duration, not_after, mode, retention };
                let outcome = op.noted(cell, backend.acquire(request).await);
                Event::Acquired { lease, outcome }
            }
            &Op::Release { lease, depth_left, notify, .. } => {
                let id = LeaseId::new(self.process, lease);
                let request = ReleaseRequest { name, lease: id, depth_left, notify };
                let outcome = op.noted(cell, backend.release(request).await);
                Event::Released { lease, depth_left, outcome }
            }
            Op::Watch | Op::Unwatch => {
                let (Some(subscriptions), Some(subscriber)) = (&self.subscriptions, self.subscriber.get())
                else {
                    return op.unknown();
                };
                let answer = |done: Result<(), BackendError>| match done {
                    Ok(()) => WatchAnswer::Acknowledged,
                    Err(_) => WatchAnswer::Failed,
                };
                match op {
                    Op::Watch => Event::Watched(answer(subscriptions.subscribe(*subscriber, name).await)),
                    _ => Event::Unwatched(answer(subscriptions.unsubscribe(*subscriber, name).await)),
                }
            }
            Op::Renew { .. } => match self.perform_renewals(vec![(cell.clone(), op.clone())]).await.pop() {
                Some((_, event)) => event,
                None => op.unknown(),
            },
        }
    }

    async fn perform_renewals(&self, due: Vec<(Arc<Cell>, Op)>) -> Answers {
        let mut asked = Vec::with_capacity(due.len());
        let mut items = Vec::with_capacity(due.len());
        for (cell, op) in due {
            if let &Op::Renew { lease, ref terms, not_after, sent } = &op {
                let id = LeaseId::new(self.process, lease);
                items.push(RenewRequest {
                    name: cell.name.clone(),
                    lease: id,
                    duration: terms.lease,
                    not_after,
                });
                asked.push((cell, op, lease, sent));
            }
        }
        let mut outcomes = self.backend.renew(items).await.into_iter();
        let answered = asked.into_iter().map(|(cell, op, lease, sent)| match outcomes.next() {
            Some(outcome) => {
                let outcome = op.noted(&cell, outcome);
                (cell, Event::Renewed { lease, sent, outcome })
            }
            None => (cell, op.unknown()),
        });
        answered.collect()
    }
}
