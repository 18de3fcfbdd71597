//! A guard may be dropped anywhere, and a factory outlives the runtimes in which it is used.

use crate::support::{HANGS, World, secs, until};
use allocation_counter::measure;
use lock_core::{LockErrorKind, LockFactory, LostReason, MemoryBackend, ReleaseOutcome, Worker};
use lock_testkit::{Fault, FaultyBackend, Op, Phase};
use std::{hint::black_box, sync::OnceLock, time::Duration};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
}

/// A drop may be part of the handling of a lack of memory. Also if the runtime of the factory's worker has ended.
#[test]
fn drop_of_a_guard_allocates_nothing() {
    let ended = runtime();
    let worker = Worker::on(ended.handle().clone());
    let factories = [
        LockFactory::new(MemoryBackend::new()),
        LockFactory::builder(MemoryBackend::new()).worker(worker).build().unwrap(),
    ];
    let guards = factories.each_ref().map(|locks| {
        let take = |number: u32| locks.named(format!("x:{number}")).unwrap().acquire_blocking().unwrap();
        (0..20).map(take).collect::<Vec<_>>()
    });
    drop(ended);
    assert_eq!(measure(|| drop(guards)).count_total, 0);
    assert_eq!(measure(|| drop(black_box(Box::new(1)))).count_total, 1, "allocations are counted");
}

#[test]
fn guard_dropped_outside_a_runtime_is_released_by_the_keeper() {
    let store = MemoryBackend::new();
    let faulty = FaultyBackend::new(store.clone());
    let locks = LockFactory::new(faulty.clone());
    let runtime = runtime();
    for _ in 0..1_000 {
        drop(runtime.block_on(locks.named("x").unwrap().acquire()).unwrap());
    }
    until("all are released", || store.held().is_empty());
    let guard = runtime.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let gate = faulty.gate(Op::Release, Phase::Before);
    drop(guard);
    assert_eq!(store.held().len(), 1, "Drop does not wait for the release");
    drop(gate);
    until("released", || store.held().is_empty());
    assert!(runtime.block_on(locks.shutdown()).is_clean());
}

#[test]
fn guard_that_outlives_its_runtime_drops_without_a_panic() {
    let store = MemoryBackend::new();
    let locks = LockFactory::new(store.clone());
    let first = runtime();
    let guard = first.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let pending = Box::pin(locks.named("x").unwrap().acquire());
    first.block_on(async {
        // The future is queued, and then the runtime is dropped.
        tokio::select! { biased; _ = pending => panic!("held by another"), () = tokio::task::yield_now() => {} }
    });
    drop(first);
    drop(guard);
    until("it is released", || store.held().is_empty());

    let second = runtime();
    let next = second.block_on(locks.named("x").unwrap().acquire()).unwrap();
    assert_eq!(second.block_on(next.release()).unwrap(), ReleaseOutcome::Released);
    assert!(second.block_on(locks.shutdown()).is_clean());
    assert!(store.held().is_empty());
}

#[test]
fn static_factory_works_in_two_successive_runtimes() {
    static LOCKS: OnceLock<LockFactory> = OnceLock::new();
    let locks = LOCKS.get_or_init(|| LockFactory::new(MemoryBackend::new()));
    let mut last = None;
    for _ in 0..2 {
        runtime().block_on(async {
            let lock = locks.named("x").unwrap();
            let guard = lock.acquire().await.unwrap();
            assert!(Some(guard.fencing_token()) > last);
            last = Some(guard.fencing_token());
            // The second waiter needs the keeper: its wait ends by timeout.
            let refused = lock.acquire_timeout(Duration::from_millis(20)).await.unwrap_err();
            assert_eq!(refused.kind(), LockErrorKind::Timeout);
            guard.release().await.unwrap();
        });
    }
}

#[test]
fn waiter_survives_the_end_of_the_first_runtime() {
    let store = MemoryBackend::new();
    let locks = LockFactory::new(store.clone());
    let rival = LockFactory::new(store.clone());
    let (first, second) = (runtime(), runtime());
    let held = second.block_on(rival.named("x").unwrap().acquire()).unwrap();
    // `locks` is first used in the first runtime.
    let warm = first.block_on(locks.named("y").unwrap().acquire()).unwrap();
    let waiter = second.spawn(locks.named("x").unwrap().acquire());
    until("waiting", || store.watched() == 1);
    drop(first);
    second.block_on(held.release()).unwrap();
    let guard = second.block_on(async { tokio::time::timeout(HANGS, waiter).await });
    drop(guard.expect("it is woken").unwrap().unwrap());
    drop(warm);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn panic_releases_its_guard() {
    let store = MemoryBackend::new();
    let locks = LockFactory::new(store.clone());
    let lock = locks.named("x").unwrap();
    for _ in 0..20 {
        let lock = lock.clone();
        let panicked = tokio::spawn(async move {
            let _guard = lock.acquire().await.unwrap();
            std::panic::resume_unwind(Box::new("as planned"));
        });
        assert!(panicked.await.unwrap_err().is_panic());
    }
    // Long before a lease of 30 s would have expired.
    let guard = tokio::time::timeout(secs(20), lock.acquire()).await.expect("it is free").unwrap();
    drop(guard);
    assert!(locks.shutdown().await.is_clean());
    assert!(store.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_holds_refuses_waiters_and_stays_closed() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = tokio::spawn(lock.acquire());
    let remote = world.another_process().named("y").unwrap().acquire().await.unwrap();
    let waiting_for_remote = tokio::spawn(world.locks.named("y").unwrap().acquire());
    world.settle().await;

    let report = world.locks.shutdown().await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), LockErrorKind::ShutDown);
    assert_eq!(waiting_for_remote.await.unwrap().unwrap_err().kind(), LockErrorKind::ShutDown);
    assert_eq!(guard.lost().await, LostReason::ShutDown);
    assert_eq!(lock.acquire().await.unwrap_err().kind(), LockErrorKind::ShutDown);
    assert!(!guard.is_held());
    drop((guard, remote));
    tokio::time::sleep(secs(1)).await;
    world.assert_nothing_left();
    assert!(world.locks.shutdown().await.is_clean(), "twice is once");
}

#[tokio::test(start_paused = true)]
async fn shutdown_with_a_dead_backend_ends_within_its_limit_and_names_what_is_left() {
    let world = World::new();
    let guards = [
        world.locks.named("b").unwrap().acquire().await.unwrap(),
        world.locks.named("a").unwrap().acquire().await.unwrap(),
    ];
    world.faulty.always(Op::Release, Fault::Hang);
    let begin = world.now();
    let report = world.locks.shutdown().await;
    let took = world.now() - begin;
    assert!(took <= secs(10) + Duration::from_millis(10), "the bound is 10 s, here {took:?}");
    let left: Vec<_> = report.unconfirmed.iter().map(|name| name.as_str()).collect();
    assert_eq!(left, ["a", "b"]);
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn last_guard_keeps_its_factory_and_is_released() {
    let world = World::new();
    let store = world.store.clone();
    world.faulty.next(Op::Release, Fault::Delay(Duration::from_millis(50)));
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    drop(world);
    assert!(guard.is_held(), "a guard keeps its factory");
    tokio::time::sleep(secs(60)).await;
    assert!(guard.is_held(), "and its watchdog");
    drop(guard);
    tokio::time::sleep(secs(1)).await;
    assert!(store.held().is_empty());
}
