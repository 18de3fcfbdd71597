//! A factory with a worker of its own does not depend on the runtimes in which it is used.

use crate::support::{secs, until};
use lock_core::{Connectors, LockErrorKind, LockFactory, MemoryBackend, Worker};
use lock_testkit::{FaultyBackend, Op, Phase};
use std::{
    future::pending,
    sync::{Arc, Weak},
};
use tokio::runtime::{Builder, Runtime};

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn locks(worker: Worker) -> LockFactory {
    LockFactory::builder(MemoryBackend::new()).worker(worker).build().unwrap()
}

/// Starts a task in the runtime of the worker, and returns what is gone when that runtime has ended.
fn runtime_of(worker: &Worker) -> Weak<()> {
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let task = async move {
        tokio::spawn(async move {
            let _alive = alive;
            pending::<()>().await;
        });
    };
    multi().block_on(worker.run(task)).unwrap();
    weak
}

#[test]
fn thread_ends_with_its_last_owner() {
    let worker = Worker::thread().unwrap();
    let runtime = runtime_of(&worker);
    let locks = locks(worker);
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire_blocking().unwrap();
    drop((locks, lock));
    assert!(runtime.upgrade().is_some(), "a guard is left");
    drop(guard);
    until("the thread has ended", || runtime.upgrade().is_none());
}

#[test]
fn thread_of_an_unused_factory_ends() {
    let worker = Worker::thread().unwrap();
    let runtime = runtime_of(&worker);
    let locks = locks(worker.clone());
    drop(worker);
    assert!(runtime.upgrade().is_some(), "the factory is left");
    drop(locks);
    until("the thread has ended", || runtime.upgrade().is_none());
}

#[test]
fn dropped_guard_is_released_before_the_thread_ends() {
    let store = MemoryBackend::new();
    let worker = Worker::thread().unwrap();
    let locks = LockFactory::builder(store.clone()).worker(worker).build().unwrap();
    let guard = locks.named("x").unwrap().acquire_blocking().unwrap();
    drop(locks);
    drop(guard);
    until("it is released", || store.held().is_empty());
}

#[test]
fn attempt_continues_while_the_runtime_of_its_caller_is_idle() {
    let store = FaultyBackend::new(MemoryBackend::new());
    let locks = LockFactory::builder(store.clone()).worker(Worker::thread().unwrap()).build().unwrap();
    let gate = store.gate(Op::Acquire, Phase::Before);
    let idle = Builder::new_current_thread().enable_all().build().unwrap();
    let waiting = idle.spawn(locks.named("x").unwrap().acquire());
    idle.block_on(tokio::task::yield_now());
    until("the worker has sent it", || gate.is_reached());
    drop(gate);
    until("it is granted", || store.calls(Op::Acquire) == 1 && locks_hold(&locks, "x"));
    assert!(idle.block_on(waiting).unwrap().unwrap().is_held());
}

fn locks_hold(locks: &LockFactory, name: &str) -> bool {
    multi().block_on(locks.inspect(name)).unwrap().local.is_some()
}

#[test]
fn factory_outlives_the_runtime_in_which_it_was_used() {
    let locks = locks(Worker::thread().unwrap());
    let lock = locks.named("x").unwrap();
    let (first, second) = (multi(), multi());
    let guard = first.block_on(lock.acquire()).unwrap();
    drop(first);
    assert!(second.block_on(lock.try_acquire()).unwrap().is_none());
    second.block_on(guard.release()).unwrap();
    drop(second.block_on(lock.acquire()).unwrap());
    assert!(second.block_on(locks.shutdown()).is_clean());
}

#[test]
fn worker_on_a_stopped_runtime_fails_with_no_runtime() {
    let ended = multi();
    let worker = Worker::on(ended.handle().clone());
    let locks = locks(worker.clone());
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire_blocking().unwrap();
    drop(ended);
    let runtime = multi();
    let error = runtime.block_on(lock.acquire()).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::NoRuntime);
    assert_eq!(runtime.block_on(worker.run(async {})).unwrap_err().kind(), LockErrorKind::NoRuntime);
    drop(guard);
}

#[test]
fn dropped_call_to_a_worker_is_dropped_there() {
    let worker = Worker::thread().unwrap();
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let work = worker.run(async move {
        let _alive = alive;
        pending::<()>().await;
    });
    let timed_out = multi().block_on(async { tokio::time::timeout(secs(0), work).await });
    assert!(timed_out.is_err());
    until("the work is dropped", || weak.upgrade().is_none());
}

#[test]
fn factory_uses_the_worker_of_its_store() {
    let worker = Worker::thread().unwrap();
    let runtime = runtime_of(&worker);
    let store = multi().block_on(Connectors::default().worker(worker).connect("memory:")).unwrap();
    let locks = LockFactory::builder(store).prefix("shop").build().unwrap();
    drop(locks.named("x").unwrap().acquire_blocking().expect("no runtime was used before"));
    drop(locks);
    until("the thread has ended", || runtime.upgrade().is_none());
}
