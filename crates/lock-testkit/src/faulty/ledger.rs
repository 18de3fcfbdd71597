//! The run ledger, passed on through [`carry_out`] where faults are planned.

use super::{FaultyBackend, call::carry_out, fault::Op};
use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, ServerTime,
    backend::{
        Reply,
        ledger::{
            Attempt, ClaimRequest, Claimed, EndRequest, Ended, GroupName, JobId, KeepRun, KeptRun, OpenRun,
            Order, Ordered, Orders, Registered, Registration, RunLedger,
        },
    },
};
use std::sync::Arc;

/// The ledger inside; whoever got here through [`Backend::ledger`] knows that there is one.
fn inside(backend: &Arc<dyn Backend>) -> &dyn RunLedger {
    backend.ledger().expect("a faulty ledger has one inside")
}

#[async_trait]
impl RunLedger for FaultyBackend {
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        let register = || {
            let (inner, group, jobs) = (self.inner.clone(), group.clone(), jobs.clone());
            async move { inside(&inner).register(group, jobs).await }
        };
        carry_out(&self.desk, Op::Register, register, Err).await
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
        inside(&self.inner).watermarks(group, jobs).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        let claim = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inside(&inner).claim(request).await }
        };
        carry_out(&self.desk, Op::Claim, claim, Err).await
    }

    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        let keep = || {
            let (inner, group, runs) = (self.inner.clone(), group.clone(), runs.clone());
            async move { inside(&inner).keep(group, runs).await }
        };
        carry_out(&self.desk, Op::KeepRuns, keep, Err).await
    }

    async fn end(&self, request: EndRequest) -> Result<Reply<Ended>, BackendError> {
        let end = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inside(&inner).end(request).await }
        };
        carry_out(&self.desk, Op::EndRun, end, Err).await
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        inside(&self.inner).open(group).await
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        inside(&self.inner).history(job, most).await
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        inside(&self.inner).order(job, order).await
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        let orders = || {
            let (inner, group) = (self.inner.clone(), group.clone());
            async move { inside(&inner).orders(group, known).await }
        };
        carry_out(&self.desk, Op::Orders, orders, Err).await
    }
}
