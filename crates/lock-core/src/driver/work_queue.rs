//! Work for the workers, queued from any thread, inside or outside a runtime.

use super::{
    activity::ActivityGuard,
    entry::LockEntry,
    op::{Answers, Op},
};
use crate::sync::{Id, Mutex, lock, rank};
use std::{future::Future, pin::Pin, sync::Arc};
use tokio::sync::Notify;

/// A call's replies. The call counts as active until they are delivered.
pub(super) type Answered = (Answers, Option<ActivityGuard>);

/// A call that was started in a runtime and is not answered yet. Its timers and sockets belong to that runtime.
pub(super) struct StartedCall {
    pub(super) runtime: Option<Id>,
    pub(super) answer: Pin<Box<dyn Future<Output = Answered> + Send>>,
}

#[derive(Default)]
pub(super) struct WorkQueue {
    work: Mutex<rank::Work, Work>,
    /// One for each worker; the first worker to wake takes the work.
    workers: Mutex<rank::Workers, Vec<Arc<Notify>>>,
}

#[derive(Default)]
pub(super) struct Work {
    /// Entries whose guards were dropped. Space for each guard is reserved when it is created.
    pub(super) dropped: Vec<Arc<LockEntry>>,
    /// Entries that were woken.
    pub(super) woken: Vec<Arc<LockEntry>>,
    /// Renewals, to be sent together.
    pub(super) renewals: Vec<(Arc<LockEntry>, Op)>,
    /// Operations that the worker has to start, because the caller could not.
    pub(super) ops: Vec<(Arc<LockEntry>, Op)>,
    /// Calls that were polled once and are pending.
    pub(super) calls: Vec<StartedCall>,
    /// Replies that a call could not deliver.
    pub(super) answers: Answers,
    guards: usize,
}

impl WorkQueue {
    /// Reserves space for the drop of one more guard, which must not allocate.
    pub(super) fn guard_made(&self) {
        let mut work = lock(&self.work);
        work.guards += 1;
        let room = work.guards;
        work.dropped.reserve(room);
    }

    pub(super) fn guard_gone(&self) {
        let mut work = lock(&self.work);
        work.guards = work.guards.saturating_sub(1);
    }

    pub(super) fn put(&self, f: impl FnOnce(&mut Work)) {
        f(&mut lock(&self.work));
        self.notify();
    }

    /// Queues a renewal for a timekeeper, whose alarm the caller sets.
    pub(super) fn put_renewal(&self, entry: &Arc<LockEntry>, op: Op) {
        lock(&self.work).renewals.push((entry.clone(), op));
    }

    pub(super) fn notify(&self) {
        lock(&self.workers).iter().for_each(|worker| worker.notify_one());
    }

    pub(super) fn add_worker(&self) -> Arc<Notify> {
        let worker = Arc::new(Notify::new());
        lock(&self.workers).push(worker.clone());
        worker
    }

    pub(super) fn remove_worker(&self, worker: &Arc<Notify>) {
        lock(&self.workers).retain(|other| !Arc::ptr_eq(other, worker));
    }

    /// Takes the renewals, for a timekeeper.
    pub(super) fn take_renewals(&self) -> Vec<(Arc<LockEntry>, Op)> {
        std::mem::take(&mut lock(&self.work).renewals)
    }

    /// Takes everything for this runtime's worker. Calls in other runtimes and the space reserved for guards stay.
    pub(super) fn take(&self, runtime: Id) -> Work {
        let mut work = lock(&self.work);
        let ours = |call: &mut StartedCall| call.runtime.is_none_or(|id| id == runtime);
        Work {
            dropped: work.dropped.drain(..).collect(),
            woken: std::mem::take(&mut work.woken),
            renewals: Vec::new(),
            ops: std::mem::take(&mut work.ops),
            calls: work.calls.extract_if(.., ours).collect(),
            answers: std::mem::take(&mut work.answers),
            guards: 0,
        }
    }

    /// Turns work that will never be done into unknown outcomes, which a later worker delivers if there is one. A call
    /// left in the queue would keep everything that owns the queue alive.
    pub(super) fn give_up(&self) {
        let (calls, ops) = {
            let mut work = lock(&self.work);
            let renewals = std::mem::take(&mut work.renewals);
            let ops = std::mem::take(&mut work.ops).into_iter().chain(renewals);
            (std::mem::take(&mut work.calls), ops)
        };
        drop(calls);
        self.put(|work| work.answers.extend(ops.map(|(entry, op)| (entry, op.unknown()))));
    }

    /// Ends the calls of a runtime that is gone; they cannot continue elsewhere.
    pub(super) fn give_up_calls_of(&self, runtime: Id) {
        let calls: Vec<_> =
            lock(&self.work).calls.extract_if(.., |call| call.runtime == Some(runtime)).collect();
        drop(calls);
    }

    pub(super) fn is_empty(&self) -> bool {
        let work = lock(&self.work);
        work.dropped.is_empty()
            && work.woken.is_empty()
            && work.renewals.is_empty()
            && work.ops.is_empty()
            && work.calls.is_empty()
            && work.answers.is_empty()
    }
}
