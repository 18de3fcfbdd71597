//! Tests that unneeded subscriptions are ended even if the store does not reply. Otherwise, every
//! lock name ever used would stay subscribed until the process exits.

use lock_core::{LockFactory, LockOptions, MemoryBackend, clock::TestClock};
use lock_testkit::{Fault, FaultyBackend, Op};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

const LEASE: Duration = Duration::from_secs(3);

/// Lets a waiter for a held lock time out while `op` has `fault`, then removes the fault. Returns
/// the number of remaining subscriptions.
async fn left_behind(op: Op, fault: Fault) -> usize {
    let clock = Arc::new(TestClock::new());
    let memory = MemoryBackend::with_clock(clock.clone());
    let faulty = FaultyBackend::new(memory.clone());
    let options = LockOptions::new().lease(LEASE);
    let holder = LockFactory::builder(memory.clone()).clock(clock.clone()).options(options).build().unwrap();
    let waiter = LockFactory::builder(faulty.clone()).clock(clock).options(options).build().unwrap();
    let _guard = holder.named("x").unwrap().acquire().await.unwrap();

    faulty.always(op, fault);
    waiter.named("x").unwrap().acquire_timeout(LEASE / 30).await.unwrap_err();
    sleep(LEASE).await;
    assert!(faulty.calls(op) > 0, "the operation was not called");
    faulty.heal();
    sleep(LEASE * 4).await;
    assert_eq!(waiter.active_locks(), 0, "the factory must drop the lock's entry");
    memory.watched()
}

#[tokio::test(start_paused = true)]
async fn a_healthy_subscription_is_ended() {
    assert_eq!(left_behind(Op::Unsubscribe, Fault::None).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_whose_acknowledgement_was_lost_is_ended() {
    assert_eq!(left_behind(Op::Subscribe, Fault::ApplyThenLose).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_whose_acknowledgement_hangs_is_ended() {
    assert_eq!(left_behind(Op::Subscribe, Fault::ApplyThenHang).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_unsubscribe_is_repeated() {
    assert_eq!(left_behind(Op::Unsubscribe, Fault::LoseRequest).await, 0);
}
