//! The documented behaviour of handles, under faults.

use lock_core::{
    FencingToken, LockErrorKind, LockFactory, LockGuard, LockOptions, MemoryBackend, clock::TestClock,
};
use lock_testkit::{Fault, FaultyBackend, Op, Phase};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const OPERATION_TIMEOUT: Duration = Duration::from_secs(3);
const SHUTDOWN: Duration = Duration::from_secs(10);

fn scene() -> (FaultyBackend, LockFactory) {
    let clock = Arc::new(TestClock::new());
    let faulty = FaultyBackend::new(MemoryBackend::with_clock(clock.clone()));
    let options = LockOptions::new().operation_timeout(OPERATION_TIMEOUT);
    let locks = LockFactory::builder(faulty.clone()).clock(clock).options(options).build().unwrap();
    (faulty, locks)
}

async fn is_unconfirmed_in_time(guard: LockGuard) {
    let start = Instant::now();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unconfirmed);
    assert!(start.elapsed() <= OPERATION_TIMEOUT * 2, "took {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_at_most_two_operation_timeouts() {
    let (faulty, locks) = scene();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    faulty.always(Op::Release, Fault::Hang);
    is_unconfirmed_in_time(guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_behind_a_hanging_re_entry_is_bounded() {
    let (faulty, locks) = scene();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let gate = faulty.gate(Op::Acquire, Phase::Before);
    let inner = tokio::spawn(guard.reenter());
    gate.reached().await;
    inner.abort();
    assert!(inner.await.is_err(), "the re-entry must be abandoned");
    faulty.always(Op::Release, Fault::Hang);
    is_unconfirmed_in_time(guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_bounded_and_names_unreleased_locks() {
    let (faulty, locks) = scene();
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    faulty.always_all(Fault::Hang);
    let start = Instant::now();
    let report = locks.shutdown().await;
    assert!(start.elapsed() <= SHUTDOWN + Duration::from_millis(1), "took {:?}", start.elapsed());
    assert_eq!(report.unconfirmed, [lock.name().clone()]);
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_custom_lease_keeps_the_token_floor_of_the_factory() {
    let clock = Arc::new(TestClock::new());
    let store = MemoryBackend::with_clock(clock.clone());
    let floor = FencingToken::new(TestClock::WALL_AT_START.as_micros() + 3_600_000_000);
    let options = LockOptions::new().token_floor(floor);
    let locks = LockFactory::builder(store).clock(clock).options(options).build().unwrap();
    let lock = locks.named("x").unwrap().with_fixed_lease(Duration::from_secs(5)).unwrap();
    let token = lock.acquire().await.unwrap().fencing_token();
    assert!(token > floor, "{token:?} must exceed the floor {floor:?}");
}
