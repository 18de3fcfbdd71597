//! The extension of a fixed lease through its guard.

use crate::support::{World, millis, secs};
use lock_core::{LockErrorKind, LockGuard, LockOptions, LostReason, ReleaseOutcome};
use lock_testkit::{Fault, Op, Phase};
use std::time::Duration;
use tokio::time::sleep;

const LEASE: Duration = secs(60);

async fn fixed(world: &World) -> LockGuard {
    world.locks.named("x").unwrap().with_fixed_lease(LEASE).unwrap().acquire().await.unwrap()
}

/// Returns the depth and the remaining lease in the store.
async fn stored(world: &World) -> (u32, Duration) {
    let stored = world.locks.inspect("x").await.unwrap().stored.unwrap();
    (stored.depth, stored.remaining.unwrap())
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_extension_counts_from_now() {
    for world in World::both() {
        let guard = fixed(&world).await;
        sleep(secs(50)).await;
        guard.extend(LEASE).await.unwrap();
        assert_eq!(stored(&world).await.1, LEASE, "by its own length");
        sleep(secs(50)).await;
        guard.extend(secs(20)).await.unwrap();
        world.settle().await;
        assert_eq!(stored(&world).await, (1, secs(20)), "by less than its length");
        guard.extend(secs(200)).await.unwrap();
        assert_eq!(stored(&world).await.1, secs(200), "by more than its length");
        // The margin grows with the lease, since clocks drift for longer.
        assert!(guard.remaining() <= secs(198) && guard.remaining() > secs(197), "{:?}", guard.remaining());
        sleep(secs(190)).await;
        assert!(guard.is_held());
        assert_eq!(guard.lost().await, LostReason::Expired);
        drop(guard);
        world.settle().await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn longer_lease_is_not_shortened() {
    let world = World::new();
    let guard = fixed(&world).await;
    guard.extend(secs(5)).await.unwrap();
    assert_eq!(stored(&world).await.1, LEASE);
    assert!(guard.remaining() > secs(50));
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn extension_leaves_no_guard() {
    let world = World::new();
    let guard = fixed(&world).await;
    for _ in 0..3 {
        guard.extend(LEASE).await.unwrap();
    }
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released, "it is the only guard");
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn reentry_keeps_the_end_of_a_fixed_lease() {
    let world = World::new();
    let guard = fixed(&world).await;
    sleep(secs(50)).await;
    let inner = guard.reenter().await.unwrap();
    assert_eq!(stored(&world).await, (2, secs(10)));
    drop(inner);
}

#[tokio::test(start_paused = true)]
async fn extension_does_not_outlast_max_hold() {
    let world = World::with(LockOptions::new().fixed_lease(LEASE).max_hold(secs(70)));
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    guard.extend(secs(100)).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert_eq!(world.now(), secs(70));
}

#[tokio::test(start_paused = true)]
async fn lost_hold_is_not_extended() {
    let world = World::new();
    let guard = fixed(&world).await;
    sleep(secs(61)).await;
    assert_eq!(guard.extend(LEASE).await.unwrap_err().kind(), LockErrorKind::Lost);
    let other = world.another_process().named("x").unwrap().acquire().await.unwrap();
    assert_eq!(guard.extend(LEASE).await.unwrap_err().kind(), LockErrorKind::Lost);
    assert!(other.is_held());
}

#[tokio::test(start_paused = true)]
async fn lease_lost_by_the_store_is_not_extended() {
    let world = World::new();
    let guard = fixed(&world).await;
    world.store.clear();
    assert_eq!(guard.extend(LEASE).await.unwrap_err().kind(), LockErrorKind::Lost);
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn extension_without_a_reply_is_repeated() {
    for fault in [Fault::Hang, Fault::ApplyThenLose] {
        let world = World::new();
        let guard = fixed(&world).await;
        sleep(secs(30)).await;
        world.faulty.next(Op::Acquire, fault);
        guard.extend(LEASE).await.unwrap();
        assert!(guard.remaining() > secs(50));
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        world.settle().await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn extension_dropped_at_a_gate_leaves_the_hold() {
    for phase in [Phase::Before, Phase::After] {
        let world = World::new();
        let guard = fixed(&world).await;
        let gate = world.faulty.gate(Op::Acquire, phase);
        let extended = tokio::time::timeout(millis(100), guard.extend(secs(100))).await;
        assert!(extended.is_err() && gate.is_reached());
        drop(gate);
        sleep(secs(10)).await;
        assert_eq!(stored(&world).await.0, 1);
        assert!(guard.is_held());
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        world.settle().await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn lease_out_of_range_is_refused() {
    let world = World::new();
    let guard = fixed(&world).await;
    // The margin of its lease alone is 602 ms.
    for lease in [Duration::ZERO, millis(99), millis(600), Duration::MAX] {
        let error = guard.extend(lease).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidOptions, "{lease:?}");
    }
    guard.extend(secs(1)).await.unwrap();
    assert!(guard.is_held());
}
