//! The cost of a store outage: seconds, however long the leases are; and the errors of callers during the outage.

use crate::support::{World, millis, secs};
use lock_core::{LockErrorKind, LockOptions};
use lock_testkit::{Fault, Op};

const HOUR: std::time::Duration = secs(3_600);

#[tokio::test(start_paused = true)]
async fn name_with_a_long_lease_is_usable_seconds_after_an_outage() {
    let world = World::with(LockOptions::new().lease(HOUR));
    let lock = world.locks.named("x").unwrap();
    // Each leaves an attempt with an unknown outcome.
    world.faulty.always_all(Fault::Hang);
    for _ in 0..20 {
        let tried = tokio::time::timeout(millis(500), lock.try_acquire()).await;
        assert!(tried.map_or(true, |tried| tried.is_err()));
    }
    world.faulty.heal();
    let healed = world.now();
    let guard = lock.acquire().await.unwrap();
    let took = world.now() - healed;
    assert!(took <= secs(6), "a free lock of a healthy store took {took:?}");
    guard.release().await.unwrap();
    tokio::time::sleep(secs(6)).await;
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn undone_attempts_with_replies_do_not_close_a_name() {
    let world = World::with(LockOptions::new().lease(HOUR));
    let lock = world.locks.named("x").unwrap();
    for _ in 0..40 {
        // The acquire is lost, and its undo is answered at once.
        world.faulty.next(Op::Acquire, Fault::LoseRequest);
        let error = lock.try_acquire().await.unwrap_err();
        assert!(error.backend_error().is_some(), "refused without asking the store: {error}");
        tokio::time::sleep(millis(1)).await;
    }
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn release_with_a_long_lease_waits_only_seconds_for_a_silent_store() {
    let world = World::with(LockOptions::new().lease(HOUR));
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.always_all(Fault::Hang);
    let begun = world.now();
    assert_eq!(guard.release().await.unwrap_err().kind(), LockErrorKind::Unconfirmed);
    assert!(world.now() - begun <= secs(6) + millis(1), "{:?}", world.now() - begun);
}

/// Requests that wait for half a second arrive continuously, so that there is always a waiter.
#[tokio::test(start_paused = true)]
async fn waiters_learn_of_an_outage_after_earlier_busy_answers() {
    let world = World::new();
    let _held = world.another_process().named("x").unwrap().acquire().await.unwrap();
    let lock = world.locks.named("x").unwrap();
    let request = || {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire_timeout(millis(500)).await.unwrap_err() })
    };
    let contended: Vec<_> = (0..4).map(|_| request()).collect();
    for error in contended {
        assert_eq!(error.await.unwrap().kind(), LockErrorKind::Timeout, "others hold it");
    }
    let mut requests = vec![request()];
    tokio::time::sleep(millis(100)).await;
    world.faulty.always_all(Fault::Hang);
    for _ in 0..640 {
        requests.push(request());
        tokio::time::sleep(millis(100)).await;
    }
    let mut wrong = Vec::new();
    for (at, request) in requests.into_iter().enumerate() {
        let error = request.await.unwrap();
        if error.kind() != LockErrorKind::Unavailable {
            wrong.push(at);
        }
    }
    // The latest answer is at most 5 s old: until then, others are assumed to hold the lock.
    assert!(wrong.iter().all(|at| *at < 60), "told `Timeout` in an outage: {wrong:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_that_times_out_without_a_reply_learns_of_the_outage() {
    let world = World::new();
    let held = world.another_process().named("x").unwrap().acquire().await.unwrap();
    let lock = world.locks.named("x").unwrap();
    let (front, behind) = (lock.acquire_timeout(secs(20)), lock.acquire_timeout(secs(20)));
    let (front, behind) = (tokio::spawn(front), tokio::spawn(behind));
    tokio::time::sleep(secs(1)).await;
    world.faulty.always_all(Fault::Hang);
    // The message of this release makes the waiter send a request, which is not answered.
    held.release().await.unwrap();
    let error = front.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_ambiguous()), (LockErrorKind::Unavailable, true));
    assert_eq!(behind.await.unwrap().unwrap_err().kind(), LockErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn outcome_of_a_panicking_store_is_unknown() {
    let world = World::new();
    world.faulty.next(Op::Acquire, Fault::ApplyThenPanic);
    let error = world.locks.named("x").unwrap().try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.is_ambiguous()), (LockErrorKind::Unavailable, true));
}

#[tokio::test(start_paused = true)]
async fn the_error_of_another_operation_is_not_the_cause() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    // The release fails for good while the acquire after it is not answered.
    world.faulty.always(Op::Release, Fault::Refuse(lock_core::backend::BackendErrorKind::Denied));
    world.faulty.always(Op::Acquire, Fault::ApplyThenPanic);
    let release = guard.release();
    let next = lock.acquire_timeout(secs(1));
    let (_, next) = tokio::join!(release, next);
    let error = next.unwrap_err();
    assert!(
        error
            .backend_error()
            .is_none_or(|cause| cause.kind() != lock_core::backend::BackendErrorKind::Denied),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_release_does_not_repeat_the_work() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.always_all(Fault::Hang);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unconfirmed);
    assert!(!error.is_retryable(), "the usual wrapper would run the work twice");
}

#[tokio::test(start_paused = true)]
async fn waiters_learn_that_a_store_does_not_reply_to_a_release() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let held = lock.acquire().await.unwrap();
    world.faulty.always_all(Fault::Hang);
    drop(held);
    for wait in [500, 1_000, 2_000] {
        let error = lock.acquire_timeout(millis(wait)).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "nobody holds it: {error}");
    }
}
