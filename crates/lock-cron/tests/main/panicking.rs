//! A backend that panics inside of a task of the scheduler.

use crate::fleet::{Fleet, secs};
use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, LockFactory, LockName, MemoryBackend, ServerTime,
    backend::{
        AcquireRequest, Acquired, Capabilities, ForceRelease, Forced, Inspected, ReleaseRequest, Released,
        RenewItem, Renewed, Reply, Signals, SubscriberId, ledger::RunLedger,
    },
};
use lock_cron::{OnOrphan, RunContext, Schedule, Scheduler};
use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicI64, Ordering},
};
use tokio::time::{sleep, timeout};

/// Panics when the scheduler asks for the ledger for the n-th time.
#[derive(Debug, Clone)]
struct Panicking {
    memory: MemoryBackend,
    calls_left: Arc<AtomicI64>,
}

#[async_trait]
impl Backend for Panicking {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn server_now(&self) -> Option<ServerTime> {
        self.memory.server_now()
    }

    fn attach(&self, signals: Weak<dyn Signals>) -> SubscriberId {
        self.memory.attach(signals)
    }

    async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.memory.watch(subscriber, name).await
    }

    async fn unwatch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.memory.unwatch(subscriber, name).await
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        self.memory.acquire(request).await
    }

    async fn renew(&self, items: Vec<RenewItem>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        self.memory.renew(items).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.memory.release(request).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.memory.inspect(name).await
    }

    async fn force_release(&self, request: ForceRelease) -> Result<Reply<Forced>, BackendError> {
        self.memory.force_release(request).await
    }

    fn ledger(&self) -> Option<&dyn RunLedger> {
        assert_ne!(self.calls_left.fetch_sub(1, Ordering::SeqCst), 0, "a backend with a defect");
        self.memory.ledger()
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_goes_on_and_ends_after_a_panic_in_any_of_its_tasks() {
    for call in 0..40 {
        let fleet = Fleet::new();
        let backend = Panicking { memory: fleet.memory.clone(), calls_left: Arc::new(AtomicI64::new(-1)) };
        let locks = LockFactory::builder(backend.clone()).clock(fleet.clock.clone()).build();
        let cron = Scheduler::builder(locks.expect("good options")).build().expect("good options");
        let started = Arc::new(Mutex::new(Vec::new()));
        let write = started.clone();
        let body = move |run: RunContext| {
            write
                .lock()
                .expect("no test panics while it writes")
                .push(run.scheduled_at().as_millis() / 1000 % 3600);
            async {
                sleep(secs(12)).await;
                Ok(())
            }
        };
        let job = cron.job("job", Schedule::cron("*/20 * * * * *").expect("a pattern"), body);
        job.on_orphan(OnOrphan::Retry { max: 1 }).register().expect("a healthy store");
        backend.calls_left.store(call, Ordering::SeqCst);
        let ended = timeout(secs(300), cron.run_until(sleep(secs(150)))).await;
        ended
            .unwrap_or_else(|_| panic!("the scheduler does not end after a panic in call {call}"))
            .expect("a good end");
        assert!(backend.calls_left.load(Ordering::SeqCst) < 0, "call {call} was reached");
        let started = started.lock().expect("no test panics while it writes");
        assert!(started.ends_with(&[120, 140]), "after a panic in call {call}: {started:?}");
    }
}
