//! A store with a pipeline that answers late, never, after the shutdown, or from another thread: one event per
//! operation.

use crate::support::{Kept, World, millis, name, secs};
use async_trait::async_trait;
use lock_core::{
    LockErrorKind, LockFactory, LockName, LockOptions, MemoryBackend, Store,
    backend::{
        Backend, BackendError, BackendErrorKind, Capabilities, ForceReleaseRequest, ForceReleased, Inspected,
        Reply, Submission,
    },
    clock::{TestClock, UtcTime},
};
use lock_testkit::{Fault, Op};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Returns the world whose driver submits to a pipeline.
fn submitting() -> World {
    let [_, world] = World::both();
    world
}

#[tokio::test(start_paused = true)]
async fn every_operation_is_submitted() {
    let world = submitting();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    let inner = guard.reenter().await.unwrap();
    tokio::time::sleep(secs(60)).await;
    inner.release().await.unwrap();
    guard.release().await.unwrap();
    assert!(world.faulty.calls(Op::Renew) >= 5, "the watchdog submits as well");
    assert_eq!((world.faulty.calls(Op::Acquire), world.faulty.calls(Op::Release)), (2, 2));
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn reply_after_the_deadline_is_ignored() {
    for op in [Op::Acquire, Op::Renew, Op::Release] {
        let world = submitting();
        world.faulty.next(op, Fault::SlowAnswer(secs(20)));
        let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
        tokio::time::sleep(secs(12)).await;
        assert!(guard.is_held());
        let token = guard.fencing_token();
        let _ = guard.release().await;
        let next = world.locks.named("x").unwrap().acquire().await.unwrap();
        assert!(next.fencing_token() > token);
        tokio::time::sleep(secs(30)).await;
        assert!(next.is_held(), "{op:?}: the late answer belongs to nobody");
        next.release().await.unwrap();
        tokio::time::sleep(secs(10)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_completion_is_an_unknown_outcome() {
    for op in [Op::Acquire, Op::Renew, Op::Release] {
        let world = submitting();
        // The task panics, and the completion is dropped.
        world.faulty.next(op, Fault::ApplyThenPanic);
        let begin = world.now();
        let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
        assert!(world.now() < begin + secs(3), "{op:?}: the deadline is not waited for");
        tokio::time::sleep(secs(12)).await;
        assert!(guard.is_held());
        match guard.release().await {
            Err(error) => assert_eq!((op, error.kind()), (Op::Release, LockErrorKind::Unconfirmed)),
            Ok(outcome) => assert!(outcome.was_held(), "{op:?}"),
        }
        tokio::time::sleep(secs(10)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn certain_failure_is_repeated_without_an_undo() {
    let world = submitting();
    world.faulty.next(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    assert_eq!(world.faulty.calls(Op::Release), 0);
    guard.release().await.unwrap();
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn reply_after_shutdown_wakes_nobody() {
    let world = submitting();
    world.faulty.next(Op::Acquire, Fault::SlowAnswer(secs(2)));
    let waiting = tokio::spawn(world.locks.named("x").unwrap().acquire());
    world.settle().await;
    world.locks.shutdown().await;
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), LockErrorKind::ShutDown);
    tokio::time::sleep(secs(40)).await;
    assert!(world.store.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn operation_of_a_cancelled_caller_is_still_wanted() {
    let memory = MemoryBackend::new();
    let kept = Arc::new(Kept::new(&memory));
    let store = Store::new(kept.clone()).pushing(Arc::new(memory));
    let locks = LockFactory::builder(store).clock(Arc::new(TestClock::new())).build().unwrap();
    let gave_up = locks.named("x").unwrap().acquire_timeout(millis(10)).await;
    assert!(gave_up.is_err());
    let submission = kept.next().unwrap();
    assert!(submission.is_wanted(), "the machine has to know whether a lease is left");
    tokio::time::sleep(secs(4)).await;
    assert!(!submission.is_wanted(), "its time is over");
}

/// Answers in a separate thread.
#[derive(Debug)]
struct Threads {
    memory: MemoryBackend,
    answered: AtomicUsize,
}

#[async_trait]
impl Backend for Threads {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }
    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.memory.server_now(name)
    }
    fn submit(&self, submission: Submission) {
        let memory = self.memory.clone();
        self.answered.fetch_add(1, Ordering::SeqCst);
        std::thread::spawn(move || memory.submit(submission));
    }
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.memory.inspect(name).await
    }
    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        self.memory.force_release(r).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_come_from_any_thread() {
    let store = MemoryBackend::new();
    let threads = Arc::new(Threads { memory: store.clone(), answered: AtomicUsize::new(0) });
    // Each hold is requested from the store.
    let options = LockOptions::default().hand_off(0, Duration::ZERO);
    let store_of_locks = Store::new(threads.clone()).pushing(Arc::new(store));
    let locks = LockFactory::builder(store_of_locks).options(options).build().unwrap();
    let working: Vec<_> = (0..8)
        .map(|_| {
            let lock = locks.named("x").unwrap();
            tokio::spawn(async move {
                for _ in 0..20 {
                    lock.acquire().await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    for work in working {
        work.await.unwrap();
    }
    assert!(threads.answered.load(Ordering::SeqCst) >= 2 * 8 * 20);
    assert!(locks.inspect(&name("x")).await.unwrap().stored.is_none());
}
