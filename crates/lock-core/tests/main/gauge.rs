//! Every hold is reported, even one whose first waiter has just left. Otherwise counts of holds would be wrong
//! forever. (With two threads this happens occasionally; the observer makes it happen every time.)

use lock_core::{
    Lock, LockFactory, MemoryBackend,
    clock::TestClock,
    future::AcquireFuture,
    observer::{LockEvent, LockEventKind, LockObserver, ReleaseKind},
};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

#[derive(Debug, Default)]
struct State {
    held: AtomicI64,
    lock: OnceLock<Lock>,
    armed: AtomicBool,
    kept: Mutex<Vec<Pin<Box<AcquireFuture>>>>,
}
#[derive(Debug, Clone, Default)]
struct Gauge(Arc<State>);
impl LockObserver for Gauge {
    fn on_event(&self, e: &LockEvent<'_>) {
        match &e.kind {
            LockEventKind::Granted { .. } => drop(self.0.held.fetch_add(1, SeqCst)),
            LockEventKind::Ended { .. } => drop(self.0.held.fetch_sub(1, SeqCst)),
            LockEventKind::GuardReleased { kind: ReleaseKind::Dropped, .. }
                if self.0.armed.swap(false, SeqCst) =>
            {
                let mut c = Box::pin(self.0.lock.get().unwrap().acquire());
                let _ = c.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                self.0.kept.lock().unwrap().push(c);
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_held_gauge_returns_to_zero() {
    let clock = Arc::new(TestClock::new());
    let store = MemoryBackend::with_clock(clock.clone());
    let gauge = Gauge::default();
    let locks =
        LockFactory::builder(store.clone()).clock(clock.clone()).observer(gauge.clone()).build().unwrap();
    let rival = LockFactory::builder(store.clone()).clock(clock.clone()).build().unwrap();
    let lock = locks.named("x").unwrap();
    gauge.0.lock.set(lock.clone()).unwrap();
    let ghost = lock.acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.clear();
    ghost.lost().await;
    let theirs = rival.named("x").unwrap().acquire().await.unwrap();
    let mine = lock.with_owner(&locks.owner()).unwrap();
    let (mut a, mut b) = (Box::pin(mine.acquire()), Box::pin(mine.acquire()));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(a.as_mut().poll(&mut cx).is_pending() && b.as_mut().poll(&mut cx).is_pending());
    tokio::time::sleep(Duration::from_millis(10)).await;
    theirs.release().await.unwrap();
    drop(ghost);
    gauge.0.armed.store(true, SeqCst);
    drop(a);
    if let Poll::Ready(Ok(guard)) = b.as_mut().poll(&mut cx) {
        guard.release().await.unwrap();
    } else {
        drop(b);
    }
    gauge.0.kept.lock().unwrap().clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(gauge.0.held.load(SeqCst), 0);
}
