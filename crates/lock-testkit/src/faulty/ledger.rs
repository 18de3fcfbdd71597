//! The run ledger, passed on through [`carry_out`] where faults are planned.

use super::{call::carry_out, desk::Desk, fault::Op};
use async_trait::async_trait;
use lock_core::{BackendError, ServerTime, backend::Reply};
use lock_ledger::{
    Attempt, ClaimRequest, Claimed, EndRequest, Ended, GroupName, JobId, KeepRun, KeptRun, OpenRun, Order,
    Ordered, Orders, Registered, Registration, RunLedger,
};
use std::{fmt, sync::Arc};

/// Any run ledger, with the faults of a [`FaultyBackend`](super::FaultyBackend); made by
/// [`FaultyBackend::ledger`](super::FaultyBackend::ledger). What only reads, and what orders, is passed on.
#[derive(Clone)]
pub struct FaultyLedger {
    pub(super) inner: Arc<dyn RunLedger>,
    pub(super) desk: Arc<Desk>,
}

impl fmt::Debug for FaultyLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyLedger").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl RunLedger for FaultyLedger {
    fn server_now(&self, group: &GroupName) -> Option<ServerTime> {
        self.inner.server_now(group)
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        let register = || {
            let (inner, group, jobs) = (self.inner.clone(), group.clone(), jobs.clone());
            async move { inner.register(group, jobs).await }
        };
        carry_out(&self.desk, Op::Register, register, Err).await
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
        self.inner.watermarks(group, jobs).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        let claim = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.claim(request).await }
        };
        carry_out(&self.desk, Op::Claim, claim, Err).await
    }

    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        let keep = || {
            let (inner, group, runs) = (self.inner.clone(), group.clone(), runs.clone());
            async move { inner.keep(group, runs).await }
        };
        carry_out(&self.desk, Op::KeepRuns, keep, Err).await
    }

    async fn end(&self, request: EndRequest) -> Result<Reply<Ended>, BackendError> {
        let end = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.end(request).await }
        };
        carry_out(&self.desk, Op::EndRun, end, Err).await
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.inner.open(group).await
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        self.inner.history(job, most).await
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        self.inner.order(job, order).await
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        let orders = || {
            let (inner, group) = (self.inner.clone(), group.clone());
            async move { inner.orders(group, known).await }
        };
        carry_out(&self.desk, Op::Orders, orders, Err).await
    }
}
