//! A store with a pipeline that answers late, never, after the shutdown, or from another thread: one event per
//! operation.

use crate::support::{World, millis, name, secs};
use lock_core::{
    LockErrorKind, LockFactory, LockOptions, MemoryBackend, Store,
    backend::{Backend, BackendErrorKind, Operation, Pipeline},
    clock::TestClock,
};
use lock_testkit::{Fault, FaultyBackend, Op};
use std::{
    sync::{
        Arc, Mutex,
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
async fn pipeline_is_used_instead_of_backend_futures() {
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

/// Keeps the operations until another thread answers them.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Operation>>);

impl Pipeline for Kept {
    fn submit(&self, operation: Operation) {
        self.0.lock().unwrap().push(operation);
    }
}

#[tokio::test(start_paused = true)]
async fn operation_of_a_cancelled_caller_is_still_wanted() {
    let (kept, store) = (Arc::new(Kept::default()), MemoryBackend::new());
    let store = Store::from(store).pipelined(kept.clone());
    let locks = LockFactory::builder(store).clock(Arc::new(TestClock::new())).build().unwrap();
    let gave_up = locks.named("x").unwrap().acquire_timeout(millis(10)).await;
    assert!(gave_up.is_err());
    let mut operations = std::mem::take(&mut *kept.0.lock().unwrap());
    assert!(operations[0].is_wanted(), "the machine has to know whether a lease is left");
    tokio::time::sleep(secs(4)).await;
    assert!(!operations[0].is_wanted(), "its time is over");
    drop(operations.remove(0));
}

/// Answers in a separate thread.
#[derive(Debug)]
struct Threads {
    backend: Arc<dyn Backend>,
    answered: AtomicUsize,
}

impl Pipeline for Threads {
    fn submit(&self, operation: Operation) {
        let backend = self.backend.clone();
        self.answered.fetch_add(1, Ordering::SeqCst);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                match operation {
                    Operation::Acquire(request, completion) => {
                        completion.complete(backend.acquire(request).await)
                    }
                    Operation::Release(request, completion) => {
                        completion.complete(backend.release(request).await)
                    }
                    other => panic!("{other:?}"),
                }
            });
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_come_from_any_thread() {
    let store = MemoryBackend::new();
    let threads = Arc::new(Threads { backend: Arc::new(store.clone()), answered: AtomicUsize::new(0) });
    let faulty = FaultyBackend::new(store.clone());
    // Each hold is requested from the store.
    let options = LockOptions::default().hand_off(0, Duration::ZERO);
    let store_of_locks = Store::from(faulty).pipelined(threads.clone());
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
