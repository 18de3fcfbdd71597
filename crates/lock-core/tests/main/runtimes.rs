//! A factory that is used from several runtimes, one of which ends or is not driven.

use crate::support::until;
use lock_core::{LockFactory, LockOptions, MemoryBackend};
use lock_testkit::{FaultyBackend, Op, Phase};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn multi() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
fn current() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
fn locks() -> LockFactory {
    let options = LockOptions::new().lease(Duration::from_millis(300));
    LockFactory::builder(MemoryBackend::new()).options(options).build().unwrap()
}

/// For five leases.
fn stays_held(guard: &lock_core::LockGuard, lost: &tokio::task::JoinHandle<lock_core::LostReason>) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1_500) {
        // `remaining` only looks; `is_held` would start a worker itself.
        assert!(!lost.is_finished(), "the watchdog keeps it");
        std::thread::yield_now();
    }
    assert!(guard.remaining() > Duration::ZERO);
}

#[test]
fn a_hold_whose_worker_died_with_another_runtime_is_kept() {
    let locks = locks();
    let (first, second) = (multi(), multi());
    // `shutdown_background` below ends the runtime in which the worker was started.
    drop(first.block_on(locks.named("y").unwrap().acquire()).unwrap());
    let guard = second.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let lost = second.spawn(guard.lost());
    drop(first);
    stays_held(&guard, &lost);
}

#[test]
fn work_goes_on_under_its_lock_although_the_worker_died() {
    let locks = locks();
    let (first, second) = (multi(), multi());
    drop(first.block_on(locks.named("y").unwrap().acquire()).unwrap());
    let lock = locks.named("x").unwrap();
    let (begun, begins) = std::sync::mpsc::channel();
    let work = second.spawn(async move {
        lock.run(|_hold| async move {
            begun.send(()).unwrap();
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            "ran to its end"
        })
        .await
    });
    begins.recv().unwrap();
    drop(first);
    let begin = Instant::now();
    let result = second.block_on(work).unwrap();
    assert!(result.is_ok(), "{result:?} after {:?}", begin.elapsed());
}

#[test]
fn a_wait_ends_in_time_although_the_runtime_of_the_worker_is_not_driven() {
    let locks = locks();
    let (idle, busy) = (current(), multi());
    let guard = idle.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let lock = locks.named("x").unwrap();
    let waiter = busy.spawn(async move { lock.acquire_timeout(Duration::from_millis(100)).await.map(drop) });
    until("nothing hangs past its timeout", || waiter.is_finished());
    drop(guard);
}

#[test]
fn a_hold_is_kept_although_the_runtime_of_the_worker_is_not_driven() {
    let locks = locks();
    let (idle, busy) = (current(), multi());
    drop(idle.block_on(locks.named("y").unwrap().acquire()).unwrap());
    let guard = busy.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let lost = busy.spawn(guard.lost());
    stays_held(&guard, &lost);
}

/// Timers inside a call belong to the runtime in which it was polled first; elsewhere they panic when that one goes.
#[test]
fn a_call_stays_in_the_runtime_of_who_began_it() {
    let store = FaultyBackend::new(Arc::new(MemoryBackend::new()));
    let options = LockOptions::new().lease(Duration::from_secs(10));
    let locks = LockFactory::builder(store.clone()).options(options).build().unwrap();
    let (home, guest) = (multi(), multi());
    drop(home.block_on(locks.named("warm").unwrap().acquire()).unwrap());
    let gate = store.gate(Op::Acquire, Phase::Before);
    let first = guest.spawn(locks.named("x").unwrap().acquire());
    until("the attempt is under way", || gate.is_reached());
    // A second waiter of the same name, in the runtime that stays; the attempt in flight is its, too.
    let second = home.spawn(locks.named("x").unwrap().acquire());
    drop(guest);
    drop((first, gate));
    let guard = home.block_on(second).unwrap().unwrap();
    assert!(guard.is_held());
}
