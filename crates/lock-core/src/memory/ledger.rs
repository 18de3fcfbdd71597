//! The run ledger in memory: its rules behind a mutex.

use super::MemoryBackend;
use crate::{
    backend::{
        BackendError, Reply,
        ledger::{
            Attempt, ClaimRequest, Claimed, EndRequest, Ended, GroupName, JobId, KeepRun, KeptRun, OpenRun,
            Order, Ordered, Orders, Registered, Registration, RunLedger,
        },
    },
    store::GroupLedger,
    sync::lock,
    time::ServerTime,
};
use async_trait::async_trait;

impl MemoryBackend {
    /// Lets `f` work on what is kept of a group, at a moment of the server.
    fn with_ledger<R>(
        &self,
        group: &GroupName,
        f: impl FnOnce(&mut GroupLedger, ServerTime) -> R,
    ) -> Result<Reply<R>, BackendError> {
        let mut ledgers = lock(&self.inner.ledgers);
        let now = self.inner.now();
        let answer = match ledgers.get_mut(group) {
            Some(ledger) => f(ledger, now),
            None => {
                let mut made = GroupLedger::default();
                let answer = f(&mut made, now);
                if made != GroupLedger::default() {
                    ledgers.insert(group.clone(), made);
                }
                answer
            }
        };
        Ok(Reply::new(now, answer))
    }
}

#[async_trait]
impl RunLedger for MemoryBackend {
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        self.with_ledger(&group, |ledger, now| ledger.register(now, &jobs))
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
        self.with_ledger(&group, |ledger, _| ledger.watermarks(&jobs))
    }

    async fn claim(&self, r: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        self.with_ledger(&r.job.group, |ledger, now| ledger.claim(now, &r))
    }

    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        self.with_ledger(&group, |ledger, now| runs.iter().map(|item| ledger.keep(now, item)).collect())
    }

    async fn end(&self, r: EndRequest) -> Result<Reply<Ended>, BackendError> {
        self.with_ledger(&r.job.group, |ledger, now| ledger.end(now, &r))
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.with_ledger(&group, |ledger, now| ledger.open(now))
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        self.with_ledger(&job.group, |ledger, _| ledger.history(&job.name, most))
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        self.with_ledger(&job.group, |ledger, now| ledger.order(now, &job.name, &order))
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        self.with_ledger(&group, |ledger, _| ledger.orders(known))
    }
}
