//! Locks that stay taken for a minimum time, in the store and for other processes.

use crate::support::{World, name, secs};
use lock_core::{Lock, LockOptions, ReleaseOutcome};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MINIMUM: Duration = secs(10);

/// Creates a world whose locks stay taken for at least 10 s of a lease of 30 s, with a lock here and in another process.
fn locks() -> (World, Lock, Lock) {
    let world = World::with(LockOptions::new().min_hold(MINIMUM));
    let (here, there) = (world.locks.named("x").unwrap(), world.another_process().named("x").unwrap());
    (world, here, there)
}

#[tokio::test(start_paused = true)]
async fn short_job_runs_once_although_each_process_tries_it() {
    let (world, here, there) = locks();
    assert!(here.try_run(async |_| ()).await.unwrap().is_some());
    for _ in 0..9 {
        sleep(secs(1)).await;
        assert!(there.try_run(async |_| ()).await.unwrap().is_none());
        assert!(here.try_run(async |_| ()).await.unwrap().is_none());
    }
    sleep(secs(2)).await;
    drop(here);
    assert!(there.try_run(async |_| ()).await.unwrap().is_some(), "the next period");
    assert!(world.locks.holds().is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiter_in_another_process_is_woken_when_the_minimum_is_over() {
    let (world, here, there) = locks();
    let began = Instant::now();
    let guard = here.acquire().await.unwrap();
    let waiting = tokio::spawn(there.acquire());
    world.settle().await;
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::StillHeld { depth: 0 });
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), MINIMUM, "not the end of the lease");
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_panicked_and_dropped_work_keeps_the_lock() {
    for end in ["fails", "panics", "is dropped"] {
        let (world, here, there) = locks();
        let task = tokio::spawn(async move {
            let work = async |_| -> Result<(), &'static str> {
                match end {
                    "fails" => Err("failed"),
                    "panics" => std::panic::resume_unwind(Box::new("planned")),
                    _ => std::future::pending().await,
                }
            };
            here.try_run(work).await
        });
        world.settle().await;
        task.abort();
        let _ = task.await;
        sleep(secs(9)).await;
        assert!(there.try_acquire().await.unwrap().is_none(), "work that {end}");
        sleep(secs(2)).await;
        assert!(there.try_acquire().await.unwrap().is_some(), "work that {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_the_minimum_and_the_lease_expires() {
    let (world, here, there) = locks();
    let began = Instant::now();
    here.try_run(async |_| ()).await.unwrap();
    assert!(world.locks.shutdown().await.is_clean());
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(world.store.held(), [name("x")]);
    let _next = there.acquire().await.unwrap();
    assert!(began.elapsed() >= secs(30), "after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn lock_of_a_process_that_exits_expires_with_its_lease() {
    let (World { locks, store, .. }, here, _there) = locks();
    here.try_run(async |_| ()).await.unwrap();
    drop((locks, here));
    sleep(secs(29)).await;
    assert_eq!(store.held(), [name("x")]);
    sleep(secs(2)).await;
    assert!(store.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn forced_release_ends_the_minimum_hold() {
    let (world, here, there) = locks();
    here.try_run(async |_| ()).await.unwrap();
    world.locks.force_release("x").await.unwrap();
    let next = there.try_acquire().await.unwrap().expect("it is free");
    sleep(secs(20)).await;
    assert!(next.is_held(), "the late release of the first frees nobody else's lock");
}

#[tokio::test(start_paused = true)]
async fn reentries_and_renewals_do_not_change_the_minimum() {
    let (_world, here, there) = locks();
    let guard = here.acquire().await.unwrap();
    let inner = guard.reenter().await.unwrap();
    assert_eq!(inner.release().await.unwrap(), ReleaseOutcome::StillHeld { depth: 1 });
    sleep(secs(11)).await;
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(there.try_acquire().await.unwrap().is_some());
}
