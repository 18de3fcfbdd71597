//! The tools with which users test that their programs notice a lost lock.

use crate::support::{name, secs};
use lock_core::{LockFactory, LostReason, ReleaseOutcome};

#[tokio::test(start_paused = true)]
async fn lost_lock_is_detected_at_the_next_renewal_and_keeps_its_counter() {
    let (locks, store, _) = LockFactory::paused();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    assert!(store.lose(guard.name()));
    assert!(store.held().is_empty() && guard.is_held(), "the holder does not know it yet");
    assert_eq!(guard.lost().await, LostReason::Gone);
    assert_eq!(begun.elapsed(), secs(10), "a third of the lease");
    let next = locks.named("x").unwrap().acquire().await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn free_lock_cannot_be_lost() {
    let (locks, store, _) = LockFactory::paused();
    assert!(!store.lose(&name("x")), "never held");
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    assert!(!store.lose(&name("x")), "released");
}

#[tokio::test(start_paused = true)]
async fn suspended_process_loses_its_locks_to_another() {
    let (here, store, clock) = LockFactory::paused();
    let there = LockFactory::builder(store.clone()).clock(clock.clone()).build().unwrap();
    let guard = here.named("x").unwrap().acquire().await.unwrap();
    clock.suspend(secs(25));
    assert!(guard.is_held(), "25 s of a lease of 30 s");
    tokio::time::sleep(secs(20)).await;
    assert!(guard.is_held(), "it was renewed when the process continued");
    clock.suspend(secs(31));
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, LostReason::Expired);
    let next = there.named("x").unwrap().try_acquire().await.unwrap().expect("the lease has expired");
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
    assert!(next.is_held());
}
