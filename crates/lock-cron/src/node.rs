//! What every part of a scheduler needs of its node.

use crate::{
    job::Job,
    observe::{CronEvent, Observers},
    store::Store,
};
use lock_core::{
    LockFactory, LockName, LockOptions,
    backend::ledger::{Attempt, ClaimId, HISTORY, RunId},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// This process, in the eyes of its group.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) locks: LockFactory,
    pub(crate) store: Store,
    pub(crate) run_lock: LockOptions,
    pub(crate) run_lease: Duration,
    pub(crate) observers: Observers,
    /// Whether claims that are not answered are given up: the scheduler has waited for them long enough.
    giving_up: watch::Sender<bool>,
    /// The runs that are under way here.
    running: Mutex<BTreeMap<(LockName, RunId), Running>>,
    /// Of jobs of each node, the newest first.
    local_history: Mutex<BTreeMap<LockName, VecDeque<Attempt>>>,
}

#[derive(Debug)]
struct Running {
    claim: ClaimId,
    /// The next attempt is being claimed.
    changing: bool,
    local: bool,
    cancel: watch::Sender<Option<Why>>,
}

impl Running {
    /// The first reason stays.
    fn tell(&self, why: Why) {
        self.cancel.send_if_modified(|now| {
            let first = now.is_none();
            now.get_or_insert(why);
            first
        });
    }
}

/// Why a body shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The scheduler shuts down.
    ShutDown,
    /// A later run is to replace it.
    Replaced,
    /// The ledger says that it is no longer ours.
    Gone,
}

impl Node {
    pub(crate) fn new(
        name: String,
        locks: LockFactory,
        store: Store,
        run_lock: LockOptions,
        run_lease: Duration,
        observers: Observers,
    ) -> Self {
        let (running, local_history, giving_up) =
            (Mutex::default(), Mutex::default(), watch::Sender::default());
        Self { name, locks, store, run_lock, run_lease, observers, giving_up, running, local_history }
    }

    /// No claim is waited for any more.
    pub(crate) fn give_up(&self) {
        self.giving_up.send_replace(true);
    }

    /// Completes when no claim is waited for any more.
    pub(crate) async fn gives_up(&self) {
        let mut giving_up = self.giving_up.subscribe();
        giving_up.wait_for(|given_up| *given_up).await.expect("the node holds a sender of its own");
    }

    pub(crate) fn store_failed(&self, error: &dyn std::error::Error) {
        tracing::debug!(cron.group = %self.store.group, %error, "the store did not answer");
        self.observers.tell(&CronEvent::StoreFailed);
    }

    /// A body begins; its entry is there until [`over`](Self::over).
    pub(crate) fn begin(&self, job: &Job, run: RunId, claim: ClaimId) -> watch::Receiver<Option<Why>> {
        let (cancel, cancelled) = watch::channel(None);
        let local = job.terms.scope == crate::options::Scope::PerNode;
        lock(&self.running)
            .insert((job.name.clone(), run), Running { claim, changing: false, local, cancel });
        cancelled
    }

    /// From now on it is not known which attempt of the run the ledger has.
    pub(crate) fn changes(&self, job: &LockName, run: RunId) {
        if let Some(running) = lock(&self.running).get_mut(&(job.clone(), run)) {
            running.changing = true;
        }
    }

    /// The attempt that the ledger has of this run.
    pub(crate) fn follow(&self, job: &LockName, run: RunId, claim: ClaimId) {
        if let Some(running) = lock(&self.running).get_mut(&(job.clone(), run)) {
            (running.claim, running.changing) = (claim, false);
        }
    }

    /// The ledger does not have this attempt. That says nothing of another one that was claimed while it was asked.
    pub(crate) fn gone(&self, job: &LockName, run: RunId, claim: ClaimId) {
        if let Some(running) = lock(&self.running).get(&(job.clone(), run))
            && running.claim == claim
            && !running.changing
        {
            running.tell(Why::Gone);
        }
    }

    pub(crate) fn over(&self, job: &LockName, run: RunId) {
        lock(&self.running).remove(&(job.clone(), run));
    }

    /// Tells bodies to end: one, those of a job, or all.
    pub(crate) fn cancel(&self, which: impl Fn(&LockName, RunId) -> bool, why: Why) {
        for ((job, run), running) in lock(&self.running).iter() {
            if which(job, *run) {
                running.tell(why);
            }
        }
    }

    /// The runs that have to be kept in the ledger.
    pub(crate) fn to_keep(&self) -> Vec<(LockName, RunId, ClaimId)> {
        let running = lock(&self.running);
        let kept = running.iter().filter(|(_, running)| !running.local);
        kept.map(|((job, run), running)| (job.clone(), *run, running.claim)).collect()
    }

    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.running).is_empty()
    }

    pub(crate) fn remember(&self, job: &LockName, attempt: Attempt) {
        let mut histories = lock(&self.local_history);
        let history = histories.entry(job.clone()).or_default();
        history.push_front(attempt);
        history.truncate(HISTORY);
    }

    pub(crate) fn local_history(&self, job: &LockName, most: usize) -> Vec<Attempt> {
        let histories = lock(&self.local_history);
        histories.get(job).map_or_else(Vec::new, |history| history.iter().take(most).cloned().collect())
    }
}

/// A poisoned mutex guards plain data that is whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
