//! The in-memory run ledger, with the rules behind a mutex.

use crate::{
    control::{CommandReply, FleetControls, JobCommand},
    group::{GroupSummary, HeartbeatReply, HeartbeatRequest, JobDescription},
    ids::{GroupName, JobId},
    instance::{AddReply, AddRequest, InstanceDetail, Instances, InstancesFrom, Removal, RemoveReply},
    request::{
        ClaimReply, ClaimRequest, EndReply, EndRequest, RegisteredJob, Registration, RenewRun, RunRenewal,
    },
    rules::GroupLedger,
    run::{Attempt, OpenRun},
    run_ledger::RunLedger,
};
use async_trait::async_trait;
use lock_core::{
    __private::lock,
    backend::{BackendError, Reply},
    clock::{Clock, SteadyClock, UtcTime},
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

/// An in-memory run ledger, for tests and single-process programs, and as the reference for other
/// ledgers.
///
/// It replies immediately. Clones share the data, which is dropped with the last clone.
#[derive(Clone)]
pub struct MemoryLedger {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    groups: Mutex<HashMap<GroupName, GroupLedger>>,
}

impl MemoryLedger {
    /// Creates an empty ledger that takes its time from a wall clock that never steps.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SteadyClock::new()))
    }

    /// Creates an empty ledger whose server time is this clock's [`wall`](Clock::wall).
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { clock, groups: Mutex::default() }) }
    }

    /// Removes all data, like a server that restarts empty.
    pub fn clear(&self) {
        self.groups().clear();
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<GroupName, GroupLedger>> {
        lock(&self.inner.groups)
    }

    /// Applies `f` to one group, at a single server time. Empty groups are not stored.
    fn with<R>(
        &self,
        group: &GroupName,
        f: impl FnOnce(&mut GroupLedger, UtcTime) -> R,
    ) -> Result<Reply<R>, BackendError> {
        let mut groups = self.groups();
        let now = self.inner.clock.wall();
        let answer = match groups.get_mut(group) {
            Some(ledger) => {
                ledger.expire(now);
                f(ledger, now)
            }
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
    fn server_now(&self, _: &GroupName) -> Option<UtcTime> {
        Some(self.inner.clock.wall())
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError> {
        self.with(&group, |ledger, now| ledger.register(now, &jobs))
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError> {
        self.with(&group, |ledger, _| ledger.watermarks(&jobs))
    }

    async fn claim(&self, r: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError> {
        self.with(&r.job.group, |ledger, now| ledger.claim(now, &r))
    }

    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError> {
        self.with(&group, |ledger, now| runs.iter().map(|item| ledger.renew(now, item)).collect())
    }

    async fn end(&self, r: EndRequest) -> Result<Reply<EndReply>, BackendError> {
        self.with(&r.job.group, |ledger, now| ledger.end(now, &r))
    }

    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.with(&group, |ledger, now| ledger.open_runs(now))
    }

    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        self.with(&job.group, |ledger, _| ledger.history(&job.name, max))
    }

    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError> {
        self.with(&job.group, |ledger, now| ledger.command(now, &job.name, &command))
    }

    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError> {
        self.with(&group, |ledger, _| ledger.controls(known))
    }

    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError> {
        self.with(&group, |ledger, now| ledger.describe(now, &jobs))
    }

    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError> {
        self.with(&group, |ledger, now| ledger.summary(now))
    }

    async fn heartbeat(&self, r: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError> {
        self.with(&r.group, |ledger, now| ledger.heartbeat(now, &r))
    }

    async fn add(&self, r: AddRequest) -> Result<Reply<AddReply>, BackendError> {
        self.with(&r.job.group, |ledger, now| ledger.add(now, &r))
    }

    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError> {
        self.with(&job.group, |ledger, now| ledger.remove(now, &job.name, removal))
    }

    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
        self.with(&job.group, |ledger, _| ledger.instance(&job.name))
    }

    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError> {
        self.with(&group, |ledger, _| ledger.instances(&from))
    }
}
