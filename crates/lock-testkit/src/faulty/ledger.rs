//! The `RunLedger` implementation. Operations with planned faults go through [`carry_out`].

use super::{
    fault::Op,
    plan::{FaultPlan, carry_out},
};
use async_trait::async_trait;
use lock_core::{
    backend::{BackendError, Reply},
    clock::UtcTime,
};
use lock_ledger::{
    AddReply, AddRequest, Attempt, ClaimReply, ClaimRequest, CommandReply, EndReply, EndRequest,
    FleetControls, GroupName, GroupSummary, HeartbeatReply, HeartbeatRequest, InstanceDetail, Instances,
    InstancesFrom, JobCommand, JobDescription, JobId, OpenRun, RegisteredJob, Registration, Removal,
    RemoveReply, RenewRun, RunLedger, RunRenewal,
};
use std::{fmt, sync::Arc};

/// A run ledger with the faults of a [`FaultyBackend`](super::FaultyBackend), created by
/// [`FaultyBackend::ledger`](super::FaultyBackend::ledger). Operations that are not listed in
/// [`Op`], such as commands, have no faults.
#[derive(Clone)]
pub struct FaultyLedger {
    pub(super) inner: Arc<dyn RunLedger>,
    pub(super) plan: Arc<FaultPlan>,
}

impl fmt::Debug for FaultyLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyLedger").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl RunLedger for FaultyLedger {
    fn server_now(&self, group: &GroupName) -> Option<UtcTime> {
        self.inner.server_now(group)
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError> {
        let register = || {
            let (inner, group, jobs) = (self.inner.clone(), group.clone(), jobs.clone());
            async move { inner.register(group, jobs).await }
        };
        carry_out(&self.plan, Op::Register, register, Err).await
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError> {
        self.inner.watermarks(group, jobs).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError> {
        let claim = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.claim(request).await }
        };
        carry_out(&self.plan, Op::Claim, claim, Err).await
    }

    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError> {
        let renew = || {
            let (inner, group, runs) = (self.inner.clone(), group.clone(), runs.clone());
            async move { inner.renew(group, runs).await }
        };
        carry_out(&self.plan, Op::RenewRuns, renew, Err).await
    }

    async fn end(&self, request: EndRequest) -> Result<Reply<EndReply>, BackendError> {
        let end = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.end(request).await }
        };
        carry_out(&self.plan, Op::EndRun, end, Err).await
    }

    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.inner.open_runs(group).await
    }

    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        self.inner.history(job, max).await
    }

    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError> {
        self.inner.command(job, command).await
    }

    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError> {
        let controls = || {
            let (inner, group) = (self.inner.clone(), group.clone());
            async move { inner.controls(group, known).await }
        };
        carry_out(&self.plan, Op::Controls, controls, Err).await
    }

    async fn add(&self, request: AddRequest) -> Result<Reply<AddReply>, BackendError> {
        let add = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.add(request).await }
        };
        carry_out(&self.plan, Op::AddInstance, add, Err).await
    }

    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError> {
        self.inner.remove(job, removal).await
    }

    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
        self.inner.instance(job).await
    }

    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError> {
        let instances = || {
            let (inner, group, from) = (self.inner.clone(), group.clone(), from.clone());
            async move { inner.instances(group, from).await }
        };
        carry_out(&self.plan, Op::Instances, instances, Err).await
    }

    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError> {
        self.inner.describe(group, jobs).await
    }

    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError> {
        let summary = || {
            let (inner, group) = (self.inner.clone(), group.clone());
            async move { inner.summary(group).await }
        };
        carry_out(&self.plan, Op::Summary, summary, Err).await
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError> {
        let heartbeat = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.heartbeat(request).await }
        };
        carry_out(&self.plan, Op::Heartbeat, heartbeat, Err).await
    }
}
