//! Operations that are submitted to a store's pipeline.

use super::{
    deadlines::TimedCall,
    entry::LockEntry,
    op::{IoPolicy, Op, Request, timed_out},
    shared::Shared,
    waker_set::contained,
    work_queue::Answered,
};
use crate::{
    backend::{Acquired, BackendError, Complete, Completion, Operation, Released, Renewed, Reply},
    machine::{Event, Failure},
    sync::{Id, Mutex, lock, rank},
    time::Moment,
};
use std::{sync::Arc, time::Duration};

/// An operation in progress. It yields exactly one event: when it is answered, when its completion is dropped, or when
/// it times out.
struct Submitted {
    /// Taken with the reply: an operation that timed out may stay in the pipeline forever and must not keep the
    /// factory alive.
    shared: Mutex<rank::Submitted, Option<Arc<Shared>>>,
    entry: Arc<LockEntry>,
    op: Op,
    id: u64,
    due: Moment,
    timeout: Duration,
}

impl Submitted {
    /// Returns the factory only to the first caller, which then delivers the reply.
    fn answer(&self) -> Option<Arc<Shared>> {
        lock(&self.shared).take()
    }

    /// Delivers the reply, in the pipeline's task.
    fn settle<T>(
        &self,
        answer: Result<Reply<T>, BackendError>,
        event: fn(&Op, Result<Reply<T>, Failure>) -> Event,
    ) {
        let Some(shared) = self.answer() else { return };
        let _active = shared.activity.adopt();
        shared.clear_deadline(self.due, self.id);
        let outcome = shared.outcome(&self.op, &self.entry, answer);
        shared.dispatch(&self.entry, event(&self.op, outcome), IoPolicy::Inline);
    }

    fn is_unanswered(&self) -> bool {
        lock(&self.shared).is_some()
    }
}

impl Complete<Acquired> for Submitted {
    fn complete(&self, answer: Result<Reply<Acquired>, BackendError>) {
        self.settle(answer, Op::acquired);
    }

    fn is_wanted(&self) -> bool {
        self.is_unanswered()
    }
}

impl Complete<Renewed> for Submitted {
    fn complete(&self, answer: Result<Reply<Renewed>, BackendError>) {
        self.settle(answer, Op::renewed);
    }

    fn is_wanted(&self) -> bool {
        self.is_unanswered()
    }
}

impl Complete<Released> for Submitted {
    fn complete(&self, answer: Result<Reply<Released>, BackendError>) {
        self.settle(answer, Op::released);
    }

    fn is_wanted(&self) -> bool {
        self.is_unanswered()
    }
}

impl TimedCall for Submitted {
    fn expire(&self, _: Id) -> Option<Answered> {
        let shared = self.answer()?;
        self.op.keep_error(&self.entry, &timed_out(self.timeout));
        let answers = vec![(self.entry.clone(), self.op.unknown())];
        Some((answers, Some(shared.activity.adopt())))
    }
}

impl Shared {
    /// Submits an operation to the pipeline, from any thread, and starts its timeout. Returns the operation if no
    /// pipeline accepts it.
    pub(super) fn submit(self: &Arc<Self>, entry: &Arc<LockEntry>, op: Op) -> Option<Op> {
        let Some(pipeline) = &self.pipeline else { return Some(op) };
        let Some(request) = op.request(self.process, entry) else { return Some(op) };
        let now = self.clock.now();
        let timeout = self.timeout_of(&op);
        let (id, due) = (self.fresh_id(), now + timeout);
        self.activity.begin();
        let submitted = Arc::new(Submitted {
            shared: Mutex::new(Some(self.clone())),
            entry: entry.clone(),
            op,
            id,
            due,
            timeout,
        });
        self.set_deadline(due, id, submitted.clone(), now);
        let operation = match request {
            Request::Acquire(request) => Operation::Acquire(request, Completion::new(submitted)),
            Request::Renew(request) => Operation::Renew(request, Completion::new(submitted)),
            Request::Release(request) => Operation::Release(request, Completion::new(submitted)),
        };
        // A panic drops the completion.
        contained("a pipeline", || pipeline.submit(operation));
        None
    }
}
