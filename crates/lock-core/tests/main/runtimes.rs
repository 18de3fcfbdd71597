//! A factory that is used from several runtimes, one of which ends or is not driven.

use crate::support::{HANGS, millis, secs, until};
use futures_util::FutureExt;
use lock_core::{
    LockErrorKind, LockFactory, LockName, LockOptions, MemoryBackend, Store,
    backend::{
        Applied, Backend as _, BackendExt as _, LeaseId, LeaseNumber, ProcessId, RenewRequest, Renewed,
    },
};
use lock_testkit::{Fault, FaultyBackend, Op, Phase};
use std::time::{Duration, Instant};

fn multi() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
fn current() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
/// Renewed every second, even on a busy machine.
const LEASE: Duration = Duration::from_secs(3);
fn locks() -> LockFactory {
    let options = LockOptions::new().lease(LEASE);
    LockFactory::builder(MemoryBackend::new()).options(options).build().unwrap()
}

/// Checks that the hold lasts for two leases.
fn stays_held(guard: &lock_core::LockGuard, lost: &tokio::task::JoinHandle<lock_core::LostReason>) {
    let begin = Instant::now();
    while begin.elapsed() < 2 * LEASE {
        // `remaining` has no side effect; `is_held` would start a worker itself.
        assert!(!lost.is_finished(), "the watchdog keeps it");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(guard.remaining() > Duration::ZERO);
}

#[test]
fn hold_survives_the_death_of_its_worker_with_another_runtime() {
    let locks = locks();
    let (first, second) = (multi(), multi());
    // The first worker is started in the runtime that ends.
    drop(first.block_on(locks.named("y").unwrap().acquire()).unwrap());
    let guard = second.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let lost = second.spawn(guard.lost());
    drop(first);
    stays_held(&guard, &lost);
}

#[test]
fn work_continues_under_its_lock_after_the_worker_died() {
    let locks = locks();
    let (first, second) = (multi(), multi());
    drop(first.block_on(locks.named("y").unwrap().acquire()).unwrap());
    let lock = locks.named("x").unwrap();
    let (begun, begins) = std::sync::mpsc::channel();
    let work = second.spawn(async move {
        lock.run(|_hold| async move {
            begun.send(()).unwrap();
            tokio::time::sleep(2 * LEASE).await;
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
fn wait_ends_in_time_while_the_worker_runtime_is_not_driven() {
    let locks = locks();
    let (idle, busy) = (current(), multi());
    let guard = idle.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let lock = locks.named("x").unwrap();
    let waiter = busy.spawn(async move { lock.acquire_timeout(Duration::from_millis(100)).await.map(drop) });
    until("nothing hangs past its timeout", || waiter.is_finished());
    drop(guard);
}

#[test]
fn hold_survives_while_the_worker_runtime_is_not_driven() {
    let locks = locks();
    let (idle, busy) = (current(), multi());
    drop(idle.block_on(locks.named("y").unwrap().acquire()).unwrap());
    let guard = busy.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let lost = busy.spawn(guard.lost());
    stays_held(&guard, &lost);
}

/// Timers inside a call belong to the runtime that polled it first; elsewhere they panic when that runtime ends.
#[test]
fn call_stays_in_the_runtime_that_first_polled_it() {
    let (store, locks) = store_and_locks();
    let (home, guest) = (multi(), multi());
    drop(home.block_on(locks.named("warm").unwrap().acquire()).unwrap());
    let gate = store.gate(Op::Acquire, Phase::Before);
    let first = guest.spawn(locks.named("x").unwrap().acquire());
    until("the attempt is under way", || gate.is_reached());
    // A second waiter of the same name, in the runtime that stays; it also owns the attempt in flight.
    let second = home.spawn(locks.named("x").unwrap().acquire());
    drop(guest);
    drop((first, gate));
    let guard = home.block_on(second).unwrap().unwrap();
    assert!(guard.is_held());
}

/// A runtime that lives but is not driven between two `block_on`s carries a call.
#[test]
fn attempt_started_in_a_now_idle_runtime_does_not_block_the_name() {
    let (store, locks) = store_and_locks();
    let (idle, busy) = (current(), multi());
    let lock = locks.named("x").unwrap();
    store.next(Op::Acquire, Fault::SlowAnswer(Duration::from_millis(600)));
    let gave_up =
        idle.block_on(async { tokio::time::timeout(Duration::from_millis(20), lock.acquire()).await });
    assert!(gave_up.is_err());
    let guard = busy.block_on(async { tokio::time::timeout(HANGS, lock.acquire()).await });
    assert!(guard.is_ok(), "the name is dead for the whole process until `idle` is driven again");
}

#[test]
fn release_started_in_a_now_idle_runtime_is_repeated() {
    let (store, locks) = store_and_locks();
    let (idle, busy) = (current(), multi());
    let lock = locks.named("x").unwrap();
    let guard = busy.block_on(lock.acquire()).unwrap();
    store.next(Op::Release, Fault::Hang);
    let _ = idle.block_on(async { tokio::time::timeout(Duration::from_millis(20), guard.release()).await });
    let next = busy.block_on(async { tokio::time::timeout(HANGS, lock.acquire()).await });
    assert!(next.is_ok(), "the lease of ten minutes had to end by itself");
}

/// A long lease, with an operation timeout of 1 s.
fn store_and_locks() -> (FaultyBackend, LockFactory) {
    let store = FaultyBackend::new(MemoryBackend::new());
    let options = LockOptions::new().lease(secs(600)).operation_timeout(secs(1));
    let locks = LockFactory::builder(store.clone()).options(options).build().unwrap();
    (store, locks)
}

/// `Handle::block_on` continues to poll in a runtime that has ended, where no worker can run.
#[test]
fn acquire_in_a_stopped_runtime_fails_without_spinning() {
    let store = MemoryBackend::new();
    let backend = FaultyBackend::new(store.clone());
    let (locks, others) = (LockFactory::new(backend.clone()), LockFactory::new(store));
    let lock = locks.named("x").unwrap();
    let (living, ended) = (multi(), multi());
    let held = living.block_on(others.named("x").unwrap().acquire()).unwrap();
    let handle = ended.handle().clone();
    let waiting = std::thread::spawn({
        let (handle, lock) = (handle.clone(), lock.clone());
        move || handle.block_on(lock.acquire())
    });
    until("it waits", || backend.calls(Op::Subscribe) == 1 && backend.calls(Op::Acquire) == 2);
    ended.shutdown_background();
    let error = waiting.join().unwrap().map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::NoRuntime, "while it waited");
    let error = handle.block_on(lock.acquire()).map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::NoRuntime, "from the beginning");
    // A release that is not answered at once is not confirmed.
    living.block_on(held.release()).unwrap();
    let guard = living.block_on(lock.acquire()).unwrap();
    backend.next(Op::Release, Fault::Hang);
    let error = handle.block_on(guard.release()).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unconfirmed);
    // The living runtime continues.
    drop(living.block_on(lock.acquire()).unwrap());
    assert!(living.block_on(locks.shutdown()).is_clean());
}

#[test]
fn views_that_outlive_the_factory_runtime_learn_of_the_end_of_a_hold() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let hold = first.block_on(async {
        let options = LockOptions::new().lease(millis(500));
        let locks = LockFactory::builder(MemoryBackend::new()).options(options).build().unwrap();
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        guard.hold()
    });
    drop(first);
    runtime().block_on(async {
        let ended = tokio::time::timeout(HANGS, hold.ended()).await;
        assert!(!hold.is_held(), "its lease is over since seconds");
        assert!(ended.is_ok(), "`ended()` still waits");
    });
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
    let first = current();
    let mut unsent = Box::pin(backend.renew(vec![renewal(1)]));
    first.block_on(async {
        let polled = unsent.as_mut().now_or_never();
        assert!(polled.is_none(), "a task sends them after this turn: {polled:?}");
    });
    drop(first);
    current().block_on(async {
        let unsent = tokio::time::timeout(HANGS, unsent).await.unwrap().remove(0).unwrap_err();
        assert_eq!(unsent.applied(), Applied::Unknown);
        let sent = tokio::time::timeout(HANGS, backend.renew(vec![renewal(2)])).await.unwrap().remove(0);
        assert_eq!(sent.unwrap().outcome, Renewed::Gone);
    });
}

/// The request to subscribe came from a runtime that is not driven. It still ends, and a runtime that is driven repeats it.
#[test]
fn subscription_of_an_idle_runtime_ends_and_is_repeated() {
    let memory = MemoryBackend::new();
    let other = LockFactory::new(memory.clone());
    let store = FaultyBackend::new(memory);
    store.always(Op::Subscribe, Fault::Hang);
    let locks = LockFactory::new(store.clone());
    let (idle, driven) = (current(), multi());
    let holder = driven.block_on(other.named("x").unwrap().acquire()).unwrap();
    let mut first = Box::pin(locks.named("x").unwrap().acquire());
    idle.block_on(async { assert!(first.as_mut().now_or_never().is_none()) });
    assert_eq!(store.calls(Op::Subscribe), 1);
    let second = driven.spawn(locks.named("x").unwrap().acquire());
    until("asked again", || store.calls(Op::Subscribe) > 1);
    second.abort();
    drop((first, idle));
    driven.block_on(holder.release()).unwrap();
}
