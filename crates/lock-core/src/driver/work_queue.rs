//! Work for the workers, queued from any thread, inside or outside a runtime.

use super::{activity::ActivityGuard, entry::LockEntry, request::Request};
use crate::{
    machine::Event,
    sync::{Mutex, lock, rank},
};
use std::sync::Arc;
use tokio::sync::Notify;

/// The outcome of an operation. The operation counts as active until this is delivered.
pub(super) struct Answered {
    pub(super) entry: Arc<LockEntry>,
    pub(super) event: Event,
    pub(super) active: ActivityGuard,
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
    renewals: Vec<(Arc<LockEntry>, Request)>,
    /// Outcomes of operations that timed out.
    pub(super) answered: Vec<Answered>,
    /// Requests that the worker has to start, because the caller could not.
    pub(super) requests: Vec<(Arc<LockEntry>, Request)>,
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
    pub(super) fn put_renewal(&self, entry: &Arc<LockEntry>, renewal: Request) {
        lock(&self.work).renewals.push((entry.clone(), renewal));
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
    pub(super) fn take_renewals(&self) -> Vec<(Arc<LockEntry>, Request)> {
        std::mem::take(&mut lock(&self.work).renewals)
    }

    /// Takes everything for a worker. The space reserved for guards stays.
    pub(super) fn take(&self) -> Work {
        let mut work = lock(&self.work);
        Work {
            dropped: work.dropped.drain(..).collect(),
            woken: std::mem::take(&mut work.woken),
            renewals: Vec::new(),
            answered: std::mem::take(&mut work.answered),
            requests: std::mem::take(&mut work.requests),
            guards: 0,
        }
    }

    /// Takes the outcomes, the requests and the renewals, because there is no worker for them.
    pub(super) fn take_unfinished(&self) -> (Vec<Answered>, Vec<(Arc<LockEntry>, Request)>) {
        let mut work = lock(&self.work);
        let renewals = std::mem::take(&mut work.renewals);
        let requests = std::mem::take(&mut work.requests).into_iter().chain(renewals).collect();
        (std::mem::take(&mut work.answered), requests)
    }

    pub(super) fn is_empty(&self) -> bool {
        let work = lock(&self.work);
        work.dropped.is_empty()
            && work.woken.is_empty()
            && work.renewals.is_empty()
            && work.answered.is_empty()
            && work.requests.is_empty()
    }
}
