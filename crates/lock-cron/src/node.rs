//! The parts of a scheduler that every task needs.

use crate::{
    builder::RunTerms,
    observer::{CronEvent, Observers},
    running::Running,
    store::Store,
};
use lock_core::{__private::lock, LockFactory, LockName};
use lock_ledger::Attempt;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
};
use tokio::sync::watch;

/// This process as a member of its group.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) locks: LockFactory,
    pub(crate) store: Store,
    pub(crate) terms: RunTerms,
    pub(crate) observers: Observers,
    pub(crate) running: Running,
    ending: watch::Sender<Ending>,
    /// Of jobs of each node, the newest first.
    local_history: Mutex<BTreeMap<LockName, VecDeque<Attempt>>>,
}

/// The progress of a shutdown, as far as claims and runs that have not begun are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Ending {
    #[default]
    No,
    /// Runs whose body has not begun are given back.
    Draining,
    /// Claims that are not answered are given up, and ends are recorded at once or not at all.
    GivingUp,
}

impl Node {
    pub(crate) fn new(
        name: String,
        locks: LockFactory,
        store: Store,
        terms: RunTerms,
        observers: Observers,
    ) -> Self {
        let (running, ending, local_history) =
            (Running::default(), watch::Sender::default(), Mutex::default());
        Self { name, locks, store, terms, observers, running, ending, local_history }
    }

    pub(crate) fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|now| std::mem::replace(now, ending.max(*now)) < ending);
    }

    /// Completes when the shutdown has come so far.
    pub(crate) async fn ends(&self, ending: Ending) {
        let mut now = self.ending.subscribe();
        now.wait_for(|now| *now >= ending).await.expect("the node holds a sender of its own");
    }

    pub(crate) fn store_failed(&self, error: &dyn std::error::Error) {
        tracing::debug!(cron.group = self.observers.group(), %error, "store request failed");
        self.observers.notify(|group| CronEvent::StoreFailed { group });
    }

    pub(crate) fn remember(&self, job: &LockName, attempt: Attempt) {
        let mut histories = lock(&self.local_history);
        let history = histories.entry(job.clone()).or_default();
        history.push_front(attempt);
        history.truncate(usize::try_from(self.terms.history).unwrap_or(usize::MAX));
    }

    pub(crate) fn local_history(&self, job: &LockName, most: usize) -> Vec<Attempt> {
        let histories = lock(&self.local_history);
        histories.get(job).map_or_else(Vec::new, |history| history.iter().take(most).cloned().collect())
    }
}
