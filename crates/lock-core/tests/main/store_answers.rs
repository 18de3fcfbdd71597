//! Answers of a store that must not make the library spin, or make one lock affect another.

use crate::support::{HANGS, World, millis, secs};
use lock_core::{
    LockErrorKind, LockFactory, LockName, LockOptions, MemoryBackend, Store,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, Backend as _, BackendError, BackendErrorKind,
        BackendExt as _, Capabilities, ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest,
        Released, RenewRequest, Renewed, Reply,
    },
    clock::{TestClock, UtcTime},
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{Fault, FaultyBackend, Op};
use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

#[derive(Debug, Clone, Default)]
struct Suspects(Arc<AtomicU64>);
impl LockObserver for Suspects {
    fn on_event(&self, e: &LockEvent<'_>) {
        if let LockEventKind::RenewalFailed { .. } = &e.kind
            && e.name.as_str() == "long"
        {
            self.0.fetch_add(1, SeqCst);
        }
    }
}

/// A quorum in which every round is a split vote with "retry at once".
#[derive(Debug)]
struct Contends(MemoryBackend);
#[async_trait::async_trait]
impl AsyncBackend for Contends {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.0.server_now(name)
    }
    async fn acquire(&self, r: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        Ok(Reply::new(
            self.0.server_now(&r.name).unwrap(),
            Acquired::Contended { retry_after: Duration::ZERO },
        ))
    }
    async fn renew(&self, i: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        self.0.renew(i).await
    }
    async fn release(&self, r: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.0.release(r).await
    }
    async fn inspect(&self, n: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.0.inspect(n).await
    }
    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        self.0.force_release(r).await
    }
}

#[test]
fn immediate_contention_does_not_hang_the_caller() {
    let (done, end) = mpsc::channel();
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let locks = LockFactory::new(Store::polling(Arc::new(Contends(MemoryBackend::new()))));
            let _ =
                tokio::time::timeout(Duration::from_millis(100), locks.named("x").unwrap().acquire()).await;
        });
        done.send(()).unwrap();
    });
    assert!(end.recv_timeout(HANGS).is_ok(), "`dispatch` never returns: `retry_after` has no lower bound");
}

/// The store answers renewals after 200 ms. A lease of 30 s (operation timeout 3 s) shares a call with one of 1.5 s
/// (150 ms), which cannot work on this store.
#[tokio::test(start_paused = true)]
async fn long_lease_is_not_affected_by_a_short_one() {
    let clock = Arc::new(TestClock::new());
    let faulty = FaultyBackend::new(MemoryBackend::with_clock(clock.clone()));
    faulty.always(Op::Renew, Fault::SlowAnswer(Duration::from_millis(200)));
    let suspects = Suspects::default();
    let locks = LockFactory::builder(faulty).clock(clock).observer(suspects.clone()).build().unwrap();
    let _long = locks.named("long").unwrap().acquire().await.unwrap();
    for n in 0..20 {
        // every second another short hold, renewed at a third of its lease, until it is lost
        let short = locks
            .named(format!("s{n}"))
            .unwrap()
            .with_options(LockOptions::new().lease(Duration::from_millis(1500)))
            .unwrap();
        drop(short.acquire().await.unwrap());
        let g = short.acquire().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(g);
        let g = short.acquire().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(g);
    }
    assert_eq!(suspects.0.load(SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn old_failure_is_not_the_cause_of_an_error() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let other = world.another_process();
    let held = other.named("x").unwrap().acquire().await.unwrap();
    // There is always a waiter, so the name is never removed.
    let waiting = tokio::spawn(lock.acquire());
    world.settle().await;
    world.faulty.next(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    tokio::time::sleep(secs(60)).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    tokio::time::sleep(secs(3_600)).await;
    // An hour later the store is merely slow, for the next waiter.
    world.faulty.always(Op::Acquire, Fault::Hang);
    let next = tokio::spawn(lock.acquire_timeout(millis(100)));
    world.settle().await;
    guard.release().await.unwrap();
    let error = next.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    assert!(!cause.contains("the request was not sent"), "that was an hour ago: {cause}");
}

#[tokio::test(start_paused = true)]
async fn acquire_that_gives_up_before_its_reply_is_ambiguous() {
    let world = World::new();
    world.faulty.next(Op::Acquire, Fault::ApplyThenHang);
    let error = world.locks.named("x").unwrap().acquire_timeout(millis(100)).await.unwrap_err();
    assert!(!world.store.held().is_empty(), "it was carried out");
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(error.is_ambiguous(), "{error:?}");
}
