//! A factory with a worker of its own does not depend on the runtimes in which it is used.

use crate::support::{HANGS, secs, until};
use futures_util::FutureExt;
use lock_core::{
    Connectors, LockErrorKind, LockFactory, LockName, MemoryBackend, Store, Worker,
    backend::{
        Applied, Backend as _, BackendExt as _, LeaseId, LeaseNumber, ProcessId, RenewRequest, Renewed,
    },
};
use lock_testkit::FaultyBackend;
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

/// A wait is not left alone when the runtime of its worker ends.
#[test]
fn acquire_that_waits_on_a_stopped_worker_fails() {
    let ended = multi();
    let locks = locks(Worker::on(ended.handle().clone()));
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire_blocking().unwrap();
    let waits = std::thread::spawn(move || lock.acquire_blocking().map(drop));
    let runtime = multi();
    until("the thread waits", || runtime.block_on(locks.inspect("x")).unwrap().waiters == 1);
    drop(ended);
    assert_eq!(waits.join().unwrap().unwrap_err().kind(), LockErrorKind::NoRuntime);
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
    drop(locks.named("x").unwrap().acquire_blocking().unwrap());
    drop(locks);
    until("the thread has ended", || runtime.upgrade().is_none());
}

/// A runtime ends before the task that gathers renewals has sent them. Those and later ones must not stay unsent.
#[test]
fn renewals_of_an_ended_runtime_do_not_keep_others_unsent() {
    let store = MemoryBackend::new();
    let backend = Store::from(FaultyBackend::new(store.clone())).backend;
    let renewal = |number| RenewRequest {
        name: LockName::new("x").unwrap(),
        lease: LeaseId::new(ProcessId::random(), LeaseNumber::new(number)),
        duration: secs(10),
        not_after: store.server_now(&LockName::new("x").unwrap()).unwrap() + secs(10),
    };
    let first = Builder::new_current_thread().enable_all().build().unwrap();
    let mut unsent = Box::pin(backend.renew(vec![renewal(1)]));
    first.block_on(async {
        let polled = unsent.as_mut().now_or_never();
        assert!(polled.is_none(), "a task sends them after this turn: {polled:?}");
    });
    drop(first);
    multi().block_on(async {
        let unsent = tokio::time::timeout(HANGS, unsent).await.unwrap().remove(0).unwrap_err();
        assert_eq!(unsent.applied(), Applied::Unknown);
        let sent = tokio::time::timeout(HANGS, backend.renew(vec![renewal(2)])).await.unwrap().remove(0);
        assert_eq!(sent.unwrap().outcome, Renewed::Gone);
    });
}
