//! Acquires that block their thread: outside of a runtime, and refused inside.

use crate::support::{millis, until};
use lock_core::{Lock, LockError, LockErrorKind, LockFactory, LockGuard, MemoryBackend, ReleaseOutcome};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};
use tokio::runtime::{Builder, Runtime};

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Acquires and releases once, and checks that no other thread is inside.
fn enter(lock: &Lock, inside: &AtomicU32) {
    let guard = lock.acquire_blocking().unwrap();
    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
    thread::yield_now();
    inside.fetch_sub(1, Ordering::SeqCst);
    assert!(guard.release_blocking().unwrap().was_held());
}

fn exclude_each_other(lock: &Lock) {
    let inside = AtomicU32::new(0);
    thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| (0..50).for_each(|_| enter(lock, &inside)));
        }
    });
}

#[test]
fn plain_threads_exclude_each_other() {
    let locks = LockFactory::new(MemoryBackend::new());
    exclude_each_other(&locks.named("x").unwrap());
    assert!(current().block_on(locks.shutdown()).is_clean());
}

#[test]
fn threads_and_tasks_exclude_each_other() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    let runtime = multi();
    let inside = std::sync::Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, inside) = (lock.clone(), inside.clone());
            runtime.spawn(async move {
                for _ in 0..50 {
                    let guard = lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
            })
        })
        .collect();
    (0..50).for_each(|_| enter(&lock, &inside));
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
}

/// A pool keeps its threads, and each of them serves many jobs.
#[test]
fn jobs_of_a_thread_pool_exclude_each_other() {
    let locks = LockFactory::new(MemoryBackend::new());
    let inside = AtomicU32::new(0);
    let (put, jobs) = std::sync::mpsc::channel::<Lock>();
    let jobs = std::sync::Mutex::new(jobs);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                loop {
                    let job = jobs.lock().unwrap().recv();
                    let Ok(lock) = job else { return };
                    enter(&lock, &inside);
                }
            });
        }
        (0..200).for_each(|_| put.send(locks.named("x").unwrap()).unwrap());
        drop(put);
    });
}

fn is_refused(lock: &Lock) {
    let refused = |error: LockError| assert_eq!(error.kind(), LockErrorKind::AsyncContext);
    refused(lock.acquire_blocking().unwrap_err());
    refused(lock.try_acquire_blocking().unwrap_err());
    refused(lock.acquire_timeout_blocking(millis(1)).unwrap_err());
}

#[test]
fn calls_in_an_async_context_are_refused() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    for runtime in [current(), multi()] {
        runtime.block_on(async { is_refused(&lock) });
        let task = lock.clone();
        runtime.block_on(runtime.spawn(async move { is_refused(&task) })).unwrap();
    }
    tokio::task::LocalSet::new().block_on(&current(), async { is_refused(&lock) });
    assert_eq!(locks.active_locks(), 0);
}

#[test]
fn refused_call_does_not_use_the_budget_of_its_task() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    current().block_on(async {
        is_refused(&lock);
        assert!(tokio::task::coop::has_budget_remaining());
    });
}

#[test]
fn task_without_budget_is_refused() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    current().block_on(async {
        let (put, mut take) = tokio::sync::mpsc::unbounded_channel();
        (0..1_000).for_each(|n| put.send(n).unwrap());
        while tokio::task::coop::has_budget_remaining() {
            take.recv().await.unwrap();
        }
        is_refused(&lock);
    });
}

#[test]
fn release_in_an_async_context_is_left_to_the_background() {
    let store = MemoryBackend::new();
    let locks = LockFactory::new(store.clone());
    current().block_on(async {
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        assert_eq!(guard.release_blocking().unwrap_err().kind(), LockErrorKind::AsyncContext);
    });
    until("it is released", || store.held().is_empty());
}

#[test]
fn threads_that_can_block_are_served() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    let once = |lock: &Lock| {
        let guard = lock.acquire_blocking().unwrap();
        assert!(lock.try_acquire_blocking().unwrap().is_none());
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    };
    let runtime = multi();
    let blocking = lock.clone();
    runtime.block_on(async {
        tokio::task::spawn_blocking(move || once(&blocking)).await.unwrap();
        tokio::task::block_in_place(|| once(&lock));
    });
    let _entered = runtime.enter();
    once(&lock);
}

#[test]
fn waiting_thread_gives_up_in_time() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire_blocking().unwrap();
    let error = lock.acquire_timeout_blocking(millis(20)).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Timeout);
    assert!(lock.try_acquire_blocking().unwrap().is_none());
    guard.release_blocking().unwrap();
    drop(lock.acquire_timeout_blocking(millis(20)).unwrap());
}

/// The runtime of a task that releases in its drop ends: the call panics there, and tokio catches it.
#[test]
fn release_while_a_task_is_dropped_is_not_lost_with_its_runtime() {
    struct Releases(Option<LockGuard>);

    impl Drop for Releases {
        fn drop(&mut self) {
            drop(self.0.take().unwrap().release_blocking());
        }
    }

    let store = MemoryBackend::new();
    let locks = LockFactory::new(store.clone());
    for runtime in [current(), multi()] {
        let lock = locks.named("x").unwrap();
        let (holds, held) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let _releases = Releases(Some(lock.acquire().await.unwrap()));
            holds.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        runtime.block_on(held).unwrap();
        assert!(!store.held().is_empty());
        drop(runtime);
        until("it is released", || store.held().is_empty());
    }
}
