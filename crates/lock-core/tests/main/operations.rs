//! Inspecting locks, and forced releases.

use crate::support::{World, millis, name, secs};
use lock_core::{LockFactory, LostReason, MemoryBackend, inspect::ForceReleaseOutcome};

#[tokio::test(start_paused = true)]
async fn inspection_shows_holder_and_waiters() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let free = world.locks.inspect(lock.name()).await.unwrap();
    assert_eq!((free.stored, free.local), (None, None));

    let guard = lock.acquire().await.unwrap();
    let waiter = tokio::spawn(lock.acquire());
    tokio::time::sleep(secs(4)).await;
    let seen = world.locks.inspect(lock.name()).await.unwrap();
    let stored = seen.stored.unwrap();
    assert_eq!(stored.lease, guard.hold().lease_id().to_string());
    assert_eq!((stored.depth, stored.remaining), (1, Some(secs(26))));
    assert_eq!(seen.waiters, 1);
    let hold = seen.local.unwrap();
    assert_eq!((hold.owner, hold.token, hold.depth), (*guard.owner(), guard.fencing_token(), 1));
    assert!(!hold.suspect);

    let from_outside = world.another_process().inspect(lock.name()).await.unwrap();
    assert_eq!(from_outside.local, None);
    assert!(from_outside.stored.unwrap().lease.starts_with(&world.locks.process_id().to_string()));
    waiter.abort();
}

#[tokio::test(start_paused = true)]
async fn forced_release_notifies_a_holder_in_this_process_immediately() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    let lease = guard.hold().lease_id().to_string();
    let forced = world.locks.force_release(&name("x")).await.unwrap();
    assert_eq!(forced, ForceReleaseOutcome::Released { lease });
    assert_eq!(guard.lost().await, LostReason::Gone);
    assert!(world.now() <= millis(1), "by the next tick of the timer: {:?}", world.now());
    assert_eq!(world.locks.force_release(&name("x")).await.unwrap(), ForceReleaseOutcome::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn next_renewal_detects_a_forced_release_by_another_process() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    let other = world.another_process();
    let waiter = other.named("x").unwrap().acquire();
    let waiter = tokio::spawn(waiter);
    world.settle().await;
    other.force_release(&name("x")).await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(world.now(), secs(0), "the release wakes waiters");
    assert_eq!(guard.lost().await, LostReason::Gone);
    assert!(world.now() <= secs(11));
    assert!(next.is_held() && next.fencing_token() > guard.fencing_token());
}

#[test]
fn lock_shows_its_name_and_the_options_that_were_chosen() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("stock:42").unwrap();
    assert_eq!(format!("{lock:?}"), r#"Lock { name: "stock:42", lease: 30s, .. }"#);
    let chosen = lock.with_options(lock.options().lease(secs(10)).max_hold(secs(60))).unwrap();
    assert_eq!(format!("{chosen:?}"), r#"Lock { name: "stock:42", lease: 10s, max_hold: 60s, .. }"#);
    let owned = lock.with_owner(&locks.owner()).unwrap();
    assert!(format!("{owned:?}").contains("owner: "), "{owned:?}");
}
