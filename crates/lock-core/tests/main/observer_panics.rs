//! A panic of an observer (an exporter with a poisoned mutex, a tracing layer) ends that call and nothing else.

use lock_core::{
    LockFactory, LockOptions, MemoryBackend,
    clock::TestClock,
    observer::{LockEvent, LockEventKind, LockObserver, WakeSource},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

type Picks = fn(&LockEvent<'_>) -> bool;

/// Panics once, at the first event that it selects.
struct Panics(Picks, AtomicBool);
impl std::fmt::Debug for Panics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Panics")
    }
}
impl LockObserver for Panics {
    fn on_event(&self, event: &LockEvent<'_>) {
        if (self.0)(event) && !self.1.swap(true, Ordering::SeqCst) {
            panic!("as planned");
        }
    }
}

fn world(picks: Picks) -> (MemoryBackend, LockFactory, LockFactory) {
    let clock = Arc::new(TestClock::new());
    let store = MemoryBackend::with_clock(clock.clone());
    let make = || {
        LockFactory::builder(store.clone()).clock(clock.clone()).options(LockOptions::new().lease(secs(10)))
    };
    let (locks, other) = (make().observer(Panics(picks, AtomicBool::new(false))), make());
    (store.clone(), locks.build().unwrap(), other.build().unwrap())
}

#[tokio::test(start_paused = true)]
async fn watchdog_survives_a_panicking_observer() {
    let (_store, locks, _) = world(|e| matches!(e.kind, LockEventKind::Renewal { .. }));
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    tokio::time::sleep(secs(3600)).await;
    assert!(guard.is_held() && !lost.is_finished());
}

#[tokio::test(start_paused = true)]
async fn waiter_survives_a_panicking_observer() {
    let (_store, locks, other) =
        world(|e| matches!(e.kind, LockEventKind::WakeUp { source: WakeSource::Poll, .. }));
    let rival = other.named("x").unwrap().acquire().await.unwrap();
    let lock = locks.named("x").unwrap();
    let waiter = tokio::spawn(lock.acquire());
    tokio::time::sleep(secs(60)).await; // it polls; the observer panics
    drop(rival);
    tokio::time::sleep(secs(600)).await;
    let first = waiter.is_finished();
    waiter.abort();
    let _ = waiter.await;
    let later = tokio::time::timeout(secs(3600), lock.try_acquire()).await;
    eprintln!("waiter done: {first}; a later try: {later:?}; names in use: {}", locks.active_locks());
    assert!(first && later.is_ok(), "the name is dead for this process: its attempt was never sent");
}

#[tokio::test(start_paused = true)]
async fn release_survives_a_panicking_observer() {
    let (store, locks, other) = world(|e| matches!(e.kind, LockEventKind::Ended { .. }));
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    tokio::spawn(guard.release()).await.unwrap().unwrap();
    assert!(store.held().is_empty());
    assert!(other.named("x").unwrap().try_acquire().await.unwrap().is_some(), "the release was never sent");
}

#[tokio::test(start_paused = true)]
async fn waiting_count_survives_a_panicking_observer() {
    let panics = Panics(|e| matches!(e.kind, LockEventKind::WaitStarted), AtomicBool::new(false));
    let limits = lock_core::Limits::new().waiters(1);
    let locks = LockFactory::builder(MemoryBackend::new()).limits(limits).observer(panics).build().unwrap();
    let lock = locks.named("x").unwrap();
    drop(tokio::spawn(lock.acquire()).await.unwrap().unwrap());
    let guard = lock.acquire().await;
    assert!(guard.is_ok(), "nobody waits, and yet: {:?}", guard.err());
}
