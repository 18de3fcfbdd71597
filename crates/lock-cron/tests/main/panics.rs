//! A ledger that panics in a task of the scheduler.

use crate::fleet::{Fleet, secs};
use async_trait::async_trait;
use lock_core::{
    LockFactory,
    backend::{BackendError, Reply},
    clock::UtcTime,
};
use lock_cron::{OnOrphan, RunContext, Schedule, Scheduler};
use lock_ledger::{
    AddReply, AddRequest, Attempt, ClaimReply, ClaimRequest, CommandReply, EndReply, EndRequest,
    FleetControls, GroupName, GroupSummary, HeartbeatReply, HeartbeatRequest, InstanceDetail, Instances,
    InstancesFrom, JobCommand, JobDescription, JobId, MemoryLedger, OpenRun, RegisteredJob, Registration,
    Removal, RemoveReply, RenewRun, RunLedger, RunRenewal,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicI64, Ordering},
};
use tokio::time::{sleep, timeout};

/// Panics at the n-th request from the scheduler.
#[derive(Debug, Clone)]
struct Panicking {
    ledger: MemoryLedger,
    calls_left: Arc<AtomicI64>,
}

impl Panicking {
    fn counted(&self) -> &MemoryLedger {
        assert_ne!(self.calls_left.fetch_sub(1, Ordering::SeqCst), 0, "planned panic of the ledger");
        &self.ledger
    }
}

#[async_trait]
impl RunLedger for Panicking {
    fn server_now(&self, group: &GroupName) -> Option<UtcTime> {
        self.counted().server_now(group)
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError> {
        self.counted().register(group, jobs).await
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError> {
        self.counted().watermarks(group, jobs).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError> {
        self.counted().claim(request).await
    }

    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError> {
        self.counted().renew(group, runs).await
    }

    async fn end(&self, request: EndRequest) -> Result<Reply<EndReply>, BackendError> {
        self.counted().end(request).await
    }

    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.counted().open_runs(group).await
    }

    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        self.counted().history(job, max).await
    }

    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError> {
        self.counted().command(job, command).await
    }

    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError> {
        self.counted().controls(group, known).await
    }

    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError> {
        self.counted().describe(group, jobs).await
    }

    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError> {
        self.counted().summary(group).await
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError> {
        self.counted().heartbeat(request).await
    }

    async fn add(&self, request: AddRequest) -> Result<Reply<AddReply>, BackendError> {
        self.counted().add(request).await
    }

    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError> {
        self.counted().remove(job, removal).await
    }

    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
        self.counted().instance(job).await
    }

    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError> {
        self.counted().instances(group, from).await
    }
}

#[tokio::test(start_paused = true)]
async fn scheduler_survives_a_panic_in_any_ledger_call() {
    for call in 0..40 {
        let fleet = Fleet::new();
        let ledger = Panicking { ledger: fleet.ledger.clone(), calls_left: Arc::new(AtomicI64::new(-1)) };
        let locks = LockFactory::builder(fleet.memory.clone()).clock(fleet.clock.clone()).build();
        let cron = Scheduler::builder(locks.expect("valid options"), ledger.clone());
        let cron = cron.build().expect("valid options");
        let started = Arc::new(Mutex::new(Vec::new()));
        let write = started.clone();
        let body = move |run: RunContext| {
            write.lock().expect("not poisoned").push(run.scheduled_at().as_millis() / 1000 % 3600);
            async {
                sleep(secs(12)).await;
                Ok(())
            }
        };
        let job = cron.job("job", Schedule::cron("*/20 * * * * *").expect("valid schedule"), body);
        job.on_orphan(OnOrphan::Retry { max: 1 }).register().expect("healthy store");
        ledger.calls_left.store(call, Ordering::SeqCst);
        let ended = timeout(secs(300), cron.run_until(sleep(secs(150)))).await;
        ended
            .unwrap_or_else(|_| panic!("the scheduler does not end after a panic in call {call}"))
            .expect("clean shutdown");
        assert!(ledger.calls_left.load(Ordering::SeqCst) < 0, "call {call} was reached");
        let started = started.lock().expect("not poisoned");
        assert!(started.ends_with(&[120, 140]), "after a panic in call {call}: {started:?}");
    }
}
