//! Shutdowns at the worst moment.

use crate::support::{World, millis, name, secs, until};
use lock_core::{
    LockErrorKind, LockFactory, LockName, LockOptions, MemoryBackend, ReleaseOutcome, Store, Worker,
    clock::TestClock,
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{Fault, FaultyBackend, Op, Phase};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

/// Shuts the factory down exactly between the check and the enter, as another thread might.
#[derive(Default)]
struct ShutsDown(OnceLock<LockFactory>, AtomicBool);
impl std::fmt::Debug for ShutsDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShutsDown")
    }
}
#[derive(Debug, Clone)]
struct Shared(Arc<ShutsDown>);
impl LockObserver for Shared {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEventKind::WaitStarted = &event.kind
            && event.name.as_str() == "x"
            && !self.0.1.swap(true, Ordering::SeqCst)
        {
            let locks = self.0.0.get().unwrap().clone();
            std::thread::spawn(move || {
                let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let report = rt.block_on(locks.shutdown());
                assert!(report.is_clean());
            })
            .join()
            .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_that_races_with_shutdown_leaves_no_orphan() {
    let memory = MemoryBackend::new();
    let store = FaultyBackend::new(memory.clone());
    let observer = Shared(Arc::default());
    let locks = LockFactory::builder(store.clone()).observer(observer.clone()).build().unwrap();
    assert!(observer.0.0.set(locks.clone()).is_ok());
    drop(locks.named("warm").unwrap().acquire().await.unwrap());
    store.always(Op::Acquire, Fault::SlowAnswer(Duration::from_millis(20)));
    let asked = store.calls(Op::Acquire);
    let error = locks.named("x").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::ShutDown);
    assert_eq!(store.calls(Op::Acquire), asked, "after the shutdown the store may be gone");
    assert!(locks.shutdown().await.is_clean());
    assert_eq!(memory.held(), Vec::<LockName>::new(), "an orphan for a whole lease");
    assert_eq!(locks.active_locks(), 0);
}

/// Without any race: a guard is released after the runtime of the worker ended.
#[test]
fn factory_is_freed_even_if_its_last_release_had_no_runtime() {
    let memory = MemoryBackend::new();
    let store = Arc::new(FaultyBackend::new(memory.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store_on = Store::polling(store.clone()).pushing(Arc::new(memory));
    let locks = LockFactory::new(store_on.on(Worker::on(runtime.handle().clone())));
    let guard = runtime.block_on(locks.named("x").unwrap().acquire()).unwrap();
    drop(runtime);
    store.always(Op::Release, Fault::Hang);
    {
        let mut release = std::pin::pin!(guard.release());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        // There is no worker that could continue it.
        let Poll::Ready(Err(error)) = release.as_mut().poll(&mut cx) else { panic!("it is not confirmed") };
        assert_eq!(error.kind(), LockErrorKind::Unconfirmed);
    }
    drop(locks);
    assert_eq!(
        Arc::strong_count(&store),
        1,
        "Driver → inbox → Call → Driver: the backend and its connection stay for ever"
    );
}

#[tokio::test]
async fn worker_ends_after_shutdown() {
    let worker = Worker::on(tokio::runtime::Handle::current());
    let locks = LockFactory::builder(MemoryBackend::new()).worker(worker).build().unwrap();
    drop(locks.named("x").unwrap().acquire().await.unwrap().release().await);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tasks(), 1, "the keeper's");
    assert!(locks.shutdown().await.is_clean());
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        tasks(),
        0,
        "it would keep the factory's memory, and its runtime busy, for as long as that lives"
    );
}

#[tokio::test(start_paused = true)]
async fn second_shutdown_finishes_what_the_first_could_not() {
    let clock = Arc::new(TestClock::new());
    let memory = MemoryBackend::with_clock(clock.clone());
    let store = FaultyBackend::new(memory.clone());
    let locks = LockFactory::builder(store.clone()).clock(clock).build().unwrap();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    store.always(Op::Release, Fault::Hang);
    let first = locks.shutdown().await;
    assert_eq!(first.unconfirmed.len(), 1);
    store.heal();
    let second = locks.shutdown().await;
    drop(guard);
    assert!(second.is_clean(), "the store is healthy again, and nothing is sent");
}

#[tokio::test(start_paused = true)]
async fn inner_guard_released_in_time_was_held_even_if_shutdown_follows() {
    let world = World::new();
    let outer = world.locks.named("x").unwrap().acquire().await.unwrap();
    let inner = outer.reenter().await.unwrap();
    let gate = world.faulty.gate(Op::Release, Phase::Before);
    let releasing = tokio::spawn(inner.release());
    gate.reached().await;
    let locks = world.locks.clone();
    let closing = tokio::spawn(async move { locks.shutdown().await });
    world.settle().await;
    drop(gate);
    assert_eq!(releasing.await.unwrap().unwrap(), ReleaseOutcome::StillHeld { depth: 1 });
    closing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_bounded_regardless_of_lease_length() {
    for (within, most) in [(None, secs(10)), (Some(secs(2)), secs(2)), (Some(secs(25)), secs(25))] {
        let world = World::new();
        let nightly = world.locks.named("nightly").unwrap();
        let nightly = nightly.with_options(LockOptions::new().lease(secs(24 * 60 * 60))).unwrap();
        let _nightly = nightly.acquire().await.unwrap();
        world.faulty.always_all(Fault::Hang);
        let begun = world.now();
        let report = match within {
            None => world.locks.shutdown().await,
            Some(within) => world.locks.shutdown_within(within).await,
        };
        let took = world.now() - begun;
        assert_eq!(report.unconfirmed, [name("nightly")]);
        assert!(took <= most + Duration::from_millis(1), "{took:?} of {most:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_store_that_returns_within_the_limit() {
    let world = World::new();
    let _guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.always_all(Fault::Hang);
    let locks = world.locks.clone();
    let closing = tokio::spawn(async move { locks.shutdown_within(secs(25)).await });
    tokio::time::sleep(secs(20)).await;
    world.faulty.heal();
    assert!(closing.await.unwrap().is_clean());
    assert!(world.store.held().is_empty());
}

#[test]
fn shutdown_outside_a_runtime_leaves_late_releases_to_the_keeper() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let memory = MemoryBackend::new();
    let store = FaultyBackend::new(memory.clone());
    let locks = LockFactory::builder(store.clone()).build().unwrap();
    let guard = runtime.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let asked = store.gate(Op::Release, Phase::Before);
    let report = smol::block_on(locks.shutdown_within(millis(50)));
    assert_eq!(report.unconfirmed, [name("x")]);
    asked.open();
    until("released by the keeper", || memory.held().is_empty());
    assert!(!guard.is_held());
}
