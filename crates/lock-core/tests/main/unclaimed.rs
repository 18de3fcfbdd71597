//! A lock granted to a future that is not polled: `select!` over `&mut acquire` whose other branch takes long.

use crate::support::{World, secs};
use lock_core::{LockGuard, LockOptions};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

fn poll_now(
    f: std::pin::Pin<&mut impl Future<Output = Result<LockGuard, lock_core::LockError>>>,
) -> Poll<LockGuard> {
    f.poll(&mut Context::from_waker(Waker::noop())).map(Result::unwrap)
}

/// A future that waits, is granted the lock, and is not polled.
#[tokio::test(start_paused = true)]
async fn unpolled_grant_passes_to_another_process() {
    for options in [LockOptions::new(), LockOptions::new().fixed_lease(secs(30))] {
        let world = World::with(options);
        let lock = world.locks.named("x").unwrap();
        let held = lock.acquire().await.unwrap();
        let mut unpolled = pin!(lock.acquire());
        assert!(poll_now(unpolled.as_mut()).is_pending());
        held.release().await.unwrap();
        let released = world.now();
        let other = world.another_process();
        let wait = tokio::spawn(async move { other.named("x").unwrap().acquire_timeout(secs(3_600)).await });
        let theirs = wait.await.unwrap().expect("the other process gets it");
        let took = world.now() - released;
        assert!(took <= secs(16), "after half a lease, here {took:?}");
        // Once polled, the future continues to wait, and gets a new hold.
        assert!(poll_now(unpolled.as_mut()).is_pending());
        theirs.release().await.unwrap();
        let ours = unpolled.await.unwrap();
        assert!(ours.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn grant_that_is_polled_in_time_is_kept() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let held = lock.acquire().await.unwrap();
    let mut late = pin!(lock.acquire());
    assert!(poll_now(late.as_mut()).is_pending());
    held.release().await.unwrap();
    tokio::time::sleep(secs(14)).await;
    let guard = late.await.unwrap();
    tokio::time::sleep(secs(120)).await;
    assert!(guard.is_held());
}

/// The guard that was taken is released; the unpolled re-entry must not keep the hold alive.
#[tokio::test(start_paused = true)]
async fn unpolled_reentry_does_not_keep_the_hold() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(secs(60)).await;
    world.faulty.next(lock_testkit::Op::Acquire, lock_testkit::Fault::Delay(secs(1)));
    let mut again = pin!(guard.reenter());
    assert!(poll_now(again.as_mut()).is_pending());
    tokio::time::sleep(secs(2)).await;
    drop(guard);
    let other = world.another_process();
    let theirs = other.named("x").unwrap().acquire_timeout(secs(3_600)).await;
    assert!(theirs.is_ok(), "the hold is kept for a future that is not polled");
}

/// Two futures of one owner are granted together, and neither is polled in time.
#[tokio::test(start_paused = true)]
async fn owner_that_never_took_its_guards_has_lost_nothing() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let owned = lock.with_owner(&world.locks.owner()).unwrap();
    let held = lock.acquire().await.unwrap();
    let (mut first, mut second) = (pin!(owned.acquire()), pin!(owned.acquire()));
    assert!(poll_now(first.as_mut()).is_pending() && poll_now(second.as_mut()).is_pending());
    held.release().await.unwrap();
    tokio::time::sleep(secs(40)).await;
    assert_eq!(world.store.held(), [], "given back");
    let third = owned.acquire().await.expect("the owner holds nothing");
    drop(third);
    let (first, second) = tokio::join!(first, second);
    assert!(first.expect("it keeps waiting").is_held() && second.expect("it keeps waiting").is_held());
}

#[tokio::test(start_paused = true)]
async fn grant_is_not_released_while_its_owner_reenters() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let owned = lock.with_owner(&world.locks.owner()).unwrap();
    let held = lock.acquire().await.unwrap();
    let mut unpolled = pin!(owned.acquire());
    assert!(poll_now(unpolled.as_mut()).is_pending());
    held.release().await.unwrap();
    tokio::time::sleep(secs(14)).await;
    world.faulty.next(lock_testkit::Op::Acquire, lock_testkit::Fault::Delay(secs(2)));
    let guard = owned.acquire().await.expect("nobody took the lock from its owner");
    tokio::time::sleep(secs(60)).await;
    assert!(guard.is_held());
}
