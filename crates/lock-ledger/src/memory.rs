//! The run ledger in memory: its rules behind a mutex.

use crate::{
    Attempt, ClaimRequest, Claimed, EndRequest, Ended, GroupLedger, GroupName, JobId, KeepRun, KeptRun,
    OpenRun, Order, Ordered, Orders, Registered, Registration, RunLedger,
};
use async_trait::async_trait;
use lock_core::{
    Clock, ServerTime, SteadyClock,
    backend::{BackendError, Reply},
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A run ledger in this process's memory: for tests, for programs of one process, and as the model of every other ledger.
///
/// It answers at once and forgets everything when its last clone is dropped. Clones are the same ledger.
#[derive(Clone)]
pub struct MemoryLedger {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    groups: Mutex<HashMap<GroupName, GroupLedger>>,
}

impl MemoryLedger {
    /// Makes an empty ledger on a wall clock that never steps.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SteadyClock::new()))
    }

    /// Makes an empty ledger whose server time is this clock's [`wall`](Clock::wall).
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { clock, groups: Mutex::default() }) }
    }

    /// Forgets everything, as a server that restarts empty does.
    pub fn clear(&self) {
        self.groups().clear();
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<GroupName, GroupLedger>> {
        self.inner.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `f` to one group, at one moment of the server. A group of which nothing is kept stays unknown.
    fn with<R>(
        &self,
        group: &GroupName,
        f: impl FnOnce(&mut GroupLedger, ServerTime) -> R,
    ) -> Result<Reply<R>, BackendError> {
        let mut groups = self.groups();
        let now = self.inner.clock.wall();
        let answer = match groups.get_mut(group) {
            Some(ledger) => f(ledger, now),
            None => {
                let mut made = GroupLedger::default();
                let answer = f(&mut made, now);
                if made != GroupLedger::default() {
                    groups.insert(group.clone(), made);
                }
                answer
            }
        };
        Ok(Reply::new(now, answer))
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger").field("groups", &self.groups().len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl RunLedger for MemoryLedger {
    fn server_now(&self, _: &GroupName) -> Option<ServerTime> {
        Some(self.inner.clock.wall())
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        self.with(&group, |ledger, now| ledger.register(now, &jobs))
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
        self.with(&group, |ledger, _| ledger.watermarks(&jobs))
    }

    async fn claim(&self, r: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        self.with(&r.job.group, |ledger, now| ledger.claim(now, &r))
    }

    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        self.with(&group, |ledger, now| runs.iter().map(|item| ledger.keep(now, item)).collect())
    }

    async fn end(&self, r: EndRequest) -> Result<Reply<Ended>, BackendError> {
        self.with(&r.job.group, |ledger, now| ledger.end(now, &r))
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.with(&group, |ledger, now| ledger.open(now))
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        self.with(&job.group, |ledger, _| ledger.history(&job.name, most))
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        self.with(&job.group, |ledger, now| ledger.order(now, &job.name, &order))
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        self.with(&group, |ledger, _| ledger.orders(known))
    }
}
