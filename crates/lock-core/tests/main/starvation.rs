//! A process that repeatedly acquires a lock regularly leaves it to other processes.

use crate::support::{World, millis, secs};
use lock_core::LockOptions;
use lock_testkit::{Fault, Op};
use std::time::Duration;

/// One task acquires the lock, works, releases it and acquires it again, closer to the store than the other process.
async fn lone_task_lets_another_process_in(options: LockOptions) {
    let world = World::with(options);
    let near = lock_core::LockFactory::builder(world.store.clone()).clock(world.clock.clone());
    let near = near.options(options).build().unwrap().named("x").unwrap();
    let busy = tokio::spawn(async move {
        loop {
            let guard = near.acquire().await.unwrap();
            tokio::time::sleep(millis(7)).await;
            guard.release().await.unwrap();
            tokio::time::sleep(millis(1)).await;
        }
    });
    world.faulty.always(Op::Acquire, Fault::Delay(millis(3)));
    let far = world.locks.named("x").unwrap();
    let guard = far.acquire_timeout(secs(60)).await;
    busy.abort();
    assert!(guard.is_ok(), "starved: {guard:?}");
}

#[tokio::test(start_paused = true)]
async fn single_task_in_a_loop_lets_another_process_in() {
    lone_task_lets_another_process_in(LockOptions::new()).await;
    lone_task_lets_another_process_in(LockOptions::new().hand_off(0, Duration::ZERO)).await;
}
