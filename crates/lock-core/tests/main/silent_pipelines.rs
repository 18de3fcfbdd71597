//! Stores with a pipeline that answers late, panics, or never answers.

use crate::support::{HANGS, Kept, World, millis, secs, until};
use lock_core::{LockErrorKind, LockFactory, LockOptions, MemoryBackend, Store, backend::Backend};
use std::{future::Future, pin::pin, sync::Arc};

/// Executes all queued operations, from a thread without a runtime.
fn drain_elsewhere(queued: &Arc<Kept>) {
    let queued = queued.clone();
    std::thread::spawn(move || queued.answer_all()).join().unwrap();
}

fn piped(world: &World, options: LockOptions) -> (Arc<Kept>, LockFactory) {
    let memory = world.store.clone();
    let queued = Arc::new(Kept::new(&memory));
    let store = Store::new(queued.clone()).pushing(Arc::new(memory));
    let locks = LockFactory::builder(store).clock(world.clock.clone()).options(options).build().unwrap();
    (queued, locks)
}

/// Executes submitted operations at once, until `done` completes.
async fn with_answers<T>(queued: &Arc<Kept>, done: impl Future<Output = T>) -> T {
    let mut done = pin!(done);
    loop {
        tokio::select! {
            biased;
            value = &mut done => return value,
            () = tokio::time::sleep(millis(1)) => queued.answer_all(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_tasks_take_turns_through_the_pipeline() {
    let world = World::new();
    let (queued, locks) = piped(&world, LockOptions::new());
    let lock = locks.named("x").unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                assert!(guard.is_held());
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            })
        })
        .collect();
    with_answers(&queued, async {
        for task in tasks {
            task.await.unwrap();
        }
        tokio::time::sleep(secs(3)).await;
    })
    .await;
    assert_eq!((world.store.held(), world.store.watched(), locks.active_locks()), (vec![], 0, 0));
}

#[tokio::test(start_paused = true)]
async fn held_lock_is_renewed_through_the_pipeline() {
    let world = World::new();
    let (queued, locks) = piped(&world, LockOptions::new());
    let guard = with_answers(&queued, locks.named("x").unwrap().acquire()).await.unwrap();
    with_answers(&queued, tokio::time::sleep(secs(95))).await;
    assert!(guard.is_held());
    with_answers(&queued, guard.release()).await.unwrap();
    assert_eq!((world.store.held(), locks.active_locks()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn dropped_operations_and_panics_are_unknown_and_repeated() {
    let world = World::new();
    let (queued, locks) = piped(&world, LockOptions::new());
    queued.panics(3);
    let waiter = tokio::spawn(locks.named("x").unwrap().acquire());
    for _ in 0..2000 {
        tokio::time::sleep(millis(1)).await;
        if queued.len() > 0 {
            break;
        }
    }
    drop(queued.next().unwrap());
    let guard = with_answers(&queued, waiter).await.unwrap().unwrap();
    drop(guard);
    with_answers(&queued, tokio::time::sleep(secs(10))).await;
    assert_eq!((world.store.held(), locks.active_locks()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn late_replies_change_nothing_and_are_undone() {
    let world = World::new();
    let (queued, locks) = piped(&world, LockOptions::new());
    let lock = locks.named("x").unwrap();
    let refused = lock.acquire_timeout(millis(100)).await.unwrap_err();
    assert_eq!(refused.kind(), LockErrorKind::Unavailable, "{refused}");
    let late = queued.next().unwrap();
    tokio::time::sleep(millis(2_000)).await;
    world.store.submit(late);
    with_answers(&queued, tokio::time::sleep(secs(10))).await;
    assert_eq!((world.store.held(), locks.active_locks()), (vec![], 0));
    // And one that has timed out.
    let waiter = tokio::spawn(lock.acquire());
    tokio::time::sleep(secs(1)).await;
    let late = queued.next().unwrap();
    tokio::time::sleep(millis(3_000)).await;
    assert!(!late.is_wanted());
    world.store.submit(late);
    let guard = with_answers(&queued, waiter).await.unwrap().unwrap();
    assert!(guard.is_held());
    with_answers(&queued, guard.release()).await.unwrap();
    with_answers(&queued, tokio::time::sleep(secs(10))).await;
    assert_eq!((world.store.held(), locks.active_locks()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_operations_in_flight() {
    let world = World::new();
    let (queued, locks) = piped(&world, LockOptions::new());
    let lock = locks.named("x").unwrap();
    let guard = with_answers(&queued, lock.acquire()).await.unwrap();
    let waiter = tokio::spawn(lock.acquire());
    tokio::time::sleep(millis(1)).await;
    let shutdown = locks.shutdown();
    let report = with_answers(&queued, shutdown).await;
    assert!(report.is_clean(), "{report:?}");
    drop(guard);
    assert!(waiter.await.unwrap().is_err());
    world.settle().await;
    assert_eq!((world.store.held(), locks.active_locks()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn shutdown_with_a_silent_pipeline_ends_and_reports_it() {
    let world = World::new();
    let (queued, locks) = piped(&world, LockOptions::new());
    let lock = locks.named("x").unwrap();
    let guard = with_answers(&queued, lock.acquire()).await.unwrap();
    let report = locks.shutdown().await;
    assert!(!report.is_clean());
    drop((guard, lock, locks));
    tokio::time::sleep(secs(60)).await;
    assert_eq!(queued.wanted(), 0);
}

#[tokio::test(start_paused = true)]
async fn factory_with_pending_operations_is_freed() {
    let world = World::new();
    let (queued, locks) = piped(&world, LockOptions::new());
    let weak = Arc::downgrade(&queued);
    drop(queued);
    let waiter = tokio::spawn(locks.named("x").unwrap().acquire());
    tokio::time::sleep(millis(10)).await;
    waiter.abort();
    drop(locks);
    tokio::time::sleep(secs(600)).await;
    assert!(
        weak.upgrade().is_none(),
        "operations that nobody waits for keep the factory, which keeps their store"
    );
}

#[test]
fn completions_continue_after_the_callers_runtime_is_gone() {
    let memory = MemoryBackend::new();
    let queued = Arc::new(Kept::new(&memory));
    let store = Store::new(queued.clone()).pushing(Arc::new(memory.clone()));
    let locks = LockFactory::builder(store).build().unwrap();
    let lock = locks.named("x").unwrap();
    let first = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let waiter = first.spawn(lock.acquire());
    until("submitted", || queued.len() > 0);
    drop(first);
    drop(waiter);
    drain_elsewhere(&queued);
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    second.block_on(async {
        let mut round = pin!(async {
            lock.acquire().await.unwrap().release().await.unwrap();
        });
        let round = std::future::poll_fn(|cx| {
            drain_elsewhere(&queued);
            cx.waker().wake_by_ref();
            round.as_mut().poll(cx)
        });
        tokio::time::timeout(HANGS, round).await.unwrap();
    });
    assert_eq!(memory.held(), vec![]);
}
