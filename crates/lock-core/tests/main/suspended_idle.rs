//! A machine that is suspended while its factory is idle or only waits. Timers stop meanwhile; the clock of the
//! leases advances.

use crate::support::{millis, secs};
use lock_core::{
    LockErrorKind, LockFactory, MemoryBackend,
    clock::{Clock, Moment, TestClock, UtcTime},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Ahead of tokio's time by the seconds for which the machine was suspended.
#[derive(Debug)]
struct BootTime(TestClock, AtomicU64);

impl BootTime {
    fn suspended(&self) -> Duration {
        secs(self.1.load(Ordering::SeqCst))
    }
}

impl Clock for BootTime {
    fn now(&self) -> Moment {
        self.0.now() + self.suspended()
    }
    fn wall(&self) -> UtcTime {
        self.0.wall() + self.suspended()
    }
}

/// Returns two factories on one store. The first one was used, and idle while the machine was suspended for an hour.
async fn resumed() -> [LockFactory; 2] {
    let clock = Arc::new(BootTime(TestClock::new(), AtomicU64::new(0)));
    let store = MemoryBackend::with_clock(clock.clone());
    let factories =
        [(); 2].map(|()| LockFactory::builder(store.clone()).clock(clock.clone()).build().unwrap());
    drop(factories[0].named("warm").unwrap().acquire().await.unwrap());
    tokio::time::sleep(secs(10)).await;
    assert_eq!(factories[0].active_locks(), 0);
    clock.1.store(3_600, Ordering::SeqCst);
    factories
}

#[tokio::test(start_paused = true)]
async fn lock_acquired_after_it_is_renewed() {
    let [locks, _] = resumed().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(secs(120)).await;
    assert!(guard.is_held(), "nobody renewed it");
}

#[tokio::test(start_paused = true)]
async fn wait_started_after_it_ends_in_time() {
    let [locks, others] = resumed().await;
    let _theirs = others.named("x").unwrap().acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    let error = locks.named("x").unwrap().acquire_timeout(secs(2)).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Timeout);
    assert!(begun.elapsed() <= secs(2) + millis(10), "{:?}", begun.elapsed());
}

/// The timer of the watchdog is set: it stopped with the machine, and is not yet due although the clock is long past
/// it.
#[tokio::test(start_paused = true)]
async fn wait_started_after_it_ends_in_time_beside_a_running_timer() {
    let clock = Arc::new(BootTime(TestClock::new(), AtomicU64::new(0)));
    let store = MemoryBackend::with_clock(clock.clone());
    let [locks, others] =
        [(); 2].map(|()| LockFactory::builder(store.clone()).clock(clock.clone()).build().unwrap());
    let _held = locks.named("y").unwrap().acquire().await.unwrap();
    tokio::time::sleep(millis(1_100)).await;
    clock.1.store(3_600, Ordering::SeqCst);
    let _theirs = others.named("x").unwrap().acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    locks.named("x").unwrap().acquire_timeout(millis(100)).await.unwrap_err();
    assert!(begun.elapsed() <= millis(110), "{:?}", begun.elapsed());
}
