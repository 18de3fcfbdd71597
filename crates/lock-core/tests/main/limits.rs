//! All limits are finite.

use crate::support::{World, millis, secs};
use lock_core::{
    Limits, LockErrorKind, LockFactory, LockOptions, LostReason, MemoryBackend,
    backend::{Applied, BackendErrorKind},
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{Fault, Op};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

#[tokio::test(start_paused = true)]
async fn waiter_10001_of_a_name_is_refused() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiters: Vec<_> = (0..10_000).map(|_| tokio::spawn(lock.acquire())).collect();
    while world.waiters(lock.name()).await < 10_000 {
        tokio::task::yield_now().await;
    }
    let error = lock.acquire_timeout(secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::TooManyWaiters);
    assert!(error.is_retryable() && error.to_string().contains("already has 10000 waiters"), "{error}");
    let another_name = world.locks.named("y").unwrap().acquire().await;
    assert!(another_name.is_ok(), "other names are not affected");
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    drop(guard);
    for waiter in waiters {
        let _ = waiter.await;
    }
    assert!(lock.acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_waiters_of_a_factory_are_limited_too() {
    let world = World::new();
    let locks = LockFactory::builder(world.store.clone())
        .clock(world.clock.clone())
        .limits(Limits::new().waiters(3))
        .build()
        .unwrap();
    let guards = [
        locks.named("a").unwrap().acquire().await.unwrap(),
        locks.named("b").unwrap().acquire().await.unwrap(),
    ];
    let waiters: Vec<_> =
        ["a", "a", "b"].map(|name| tokio::spawn(locks.named(name).unwrap().acquire())).into_iter().collect();
    world.settle().await;
    let error = locks.named("c").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::TooManyWaiters);
    assert!(error.to_string().contains("this factory already has 3 waiters"), "{error}");
    drop(guards);
    for waiter in waiters {
        drop(waiter.await.unwrap().unwrap());
    }
    assert!(locks.named("c").unwrap().acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_outage_budget_ends_an_acquire_while_the_backend_is_down() {
    for fault in [Fault::Hang, Fault::FailBefore(BackendErrorKind::Unavailable), Fault::ApplyThenHang] {
        let world = World::with(LockOptions::new().outage_budget(secs(12)));
        world.faulty.always(Op::Acquire, fault);
        let error = world.locks.named("x").unwrap().acquire().await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{fault:?}");
        assert!(error.is_retryable() && error.backend_error().is_some());
        let took = world.now();
        assert!((secs(12)..secs(13)).contains(&took), "{fault:?}: {took:?}");
        world.faulty.heal();
        tokio::time::sleep(secs(6)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn outage_shorter_than_the_budget_is_survived() {
    let world = World::new();
    world.faulty.always(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    let waiter = tokio::spawn(world.locks.named("x").unwrap().acquire());
    tokio::time::sleep(secs(20)).await;
    world.faulty.heal();
    let guard = waiter.await.unwrap().unwrap();
    assert!(world.now() < secs(23), "soon after the recovery: {:?}", world.now());
    assert!(world.faulty.calls(Op::Acquire) < 30, "and without hammering the backend");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn permanent_error_is_returned_immediately() {
    let world = World::new();
    for kind in [BackendErrorKind::Denied, BackendErrorKind::WrongType] {
        world.faulty.next(Op::Acquire, Fault::Refuse(kind));
        let error = world.locks.named("x").unwrap().acquire().await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Backend);
        assert!(!error.is_retryable() && !error.is_ambiguous());
        assert_eq!(error.backend_error().unwrap().kind(), kind);
        assert_eq!(world.now(), Duration::ZERO);
    }
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn try_with_unknown_outcome_reports_it_and_is_undone() {
    let world = World::new();
    world.faulty.next(Op::Acquire, Fault::ApplyThenLose);
    let error = world.locks.named("x").unwrap().try_acquire().await.unwrap_err();
    assert!(error.is_ambiguous() && error.backend_error().unwrap().applied() == Applied::Unknown);
    tokio::time::sleep(secs(4)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_the_hold_of_a_hung_holder() {
    let world = World::with(LockOptions::new().max_hold(secs(45)));
    let lock = world.locks.named("x").unwrap();
    let hung = lock.acquire().await.unwrap();
    let next = lock.acquire().await.unwrap();
    let took = world.now();
    assert!((secs(45)..millis(45_100)).contains(&took), "{took:?}");
    assert_eq!(hung.lost().await, LostReason::MaxHold);
    assert!(next.is_held() && next.fencing_token() > hung.fencing_token());
}

#[derive(Debug, Default, Clone)]
struct Deadlocks(Arc<Mutex<Vec<Duration>>>);

impl LockObserver for Deadlocks {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEventKind::SelfDeadlock { waited, .. } = &event.kind {
            self.0.lock().unwrap().push(*waited);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn self_deadlock_is_warned_of_once() {
    let world = World::new();
    let warned = Deadlocks::default();
    let locks = LockFactory::builder(world.store.clone())
        .clock(world.clock.clone())
        .observer(warned.clone())
        .build()
        .unwrap();
    let lock = locks.named("x").unwrap();
    let _mine = lock.acquire().await.unwrap();
    let mine_again = lock.acquire_timeout(secs(100)).await;
    assert_eq!(mine_again.unwrap_err().kind(), LockErrorKind::Timeout);
    assert_eq!(*warned.0.lock().unwrap(), [secs(30)]);
}

#[tokio::test(start_paused = true)]
async fn acquire_ends_at_its_time_limit_even_if_the_backend_hangs() {
    let world = World::new();
    world.faulty.always(Op::Acquire, Fault::Hang);
    let error = world.locks.named("x").unwrap().acquire_timeout(millis(1_500)).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "a silent store is no word about other holders");
    let took = world.now();
    assert!((millis(1_500)..millis(1_510)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn loop_of_acquires_lets_other_tasks_run() {
    let locks = LockFactory::new(lock_core::MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    let other = tokio::spawn(async {});
    // On one thread, and never pending: only the cooperative budget makes it yield.
    for _ in 0..1_000 {
        drop(lock.acquire().await.unwrap());
    }
    assert!(other.is_finished());
}

#[tokio::test(start_paused = true)]
async fn the_smallest_options_do_not_spin() {
    let world = World::with(LockOptions::new().operation_timeout(millis(1)).renew_every(millis(10)));
    let (locks, store) = (&world.locks, &world.faulty);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    store.always(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    let failed = locks.named("y").unwrap().acquire_timeout(millis(200)).await;
    assert_eq!(failed.unwrap_err().kind(), LockErrorKind::Unavailable);
    assert!(store.calls(Op::Acquire) < 300, "{} tries in 200 ms", store.calls(Op::Acquire));
    assert!(store.calls(Op::Renew) < 30, "{} renewals in 200 ms", store.calls(Op::Renew));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn remaining_time_is_limited_by_max_hold() {
    let world = World::with(LockOptions::new().operation_timeout(millis(50)).max_hold(secs(1)));
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    assert!(guard.remaining() <= secs(1), "it ends in 1 s, not in {:?}", guard.remaining());
}

#[tokio::test]
async fn hold_is_lost_at_the_first_check_after_a_pause_past_max_hold() {
    let options = LockOptions::new().operation_timeout(millis(50)).max_hold(millis(100));
    let locks = LockFactory::builder(MemoryBackend::new()).options(options).build().unwrap();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    std::thread::sleep(millis(300));
    let first = guard.is_held();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert!(!first, "the hold was over since 200 ms");
}

#[tokio::test(start_paused = true)]
async fn valid_options_leave_time_for_a_second_renewal() {
    let options = LockOptions::new().lease(secs(10)).operation_timeout(secs(1));
    let latest = millis(10_000 - 102 - 2 * 1_000);
    assert!(options.renew_every(latest).check().is_err(), "the second would come too late");
    let options = options.renew_every(latest - millis(1));
    let world = World::with(options);
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.next(Op::Renew, Fault::Hang);
    tokio::time::sleep(secs(15)).await;
    assert!(guard.is_held(), "one renewal was lost, every other call of the store was answered at once");
}
