//! The lease passes from task to task of one process, and to other processes when the budget is spent.

use crate::support::{World, millis, name, secs};
use lock_core::{
    LockFactory, ReleaseOutcome,
    observer::{GrantSource, LockEvent, LockObserver},
};
use std::sync::{Arc, Mutex};

/// Every grant and every release, in order.
#[derive(Debug, Default)]
struct Log(Mutex<Vec<(Option<GrantSource>, Option<ReleaseOutcome>)>>);

impl LockObserver for Log {
    fn on_event(&self, event: &LockEvent<'_>) {
        let seen = match *event {
            LockEvent::Granted { source, .. } => (Some(source), None),
            LockEvent::GuardReleased { result, .. } => (None, result.ok()),
            _ => return,
        };
        self.0.lock().unwrap().push(seen);
    }
}

#[tokio::test(start_paused = true)]
async fn released_lock_passes_to_the_next_task_with_the_next_token() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let locks =
        LockFactory::builder(world.store.clone()).clock(world.clock.clone()).observer(log.clone()).build();
    let lock = locks.unwrap().named("x").unwrap();
    // An acquire without waiters behind it reserves no tokens, so this one ends in the store.
    let first = lock.acquire().await.unwrap();
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(lock.acquire())).collect();
    world.settle().await;
    tokio::time::advance(millis(2)).await;
    assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
    let mut holds = Vec::new();
    for (n, waiter) in waiters.into_iter().enumerate() {
        let guard = waiter.await.unwrap().unwrap();
        let stored = world.locks.inspect("x").await.unwrap().stored.unwrap();
        assert_eq!(stored.lease, guard.hold().lease_id().to_string());
        holds.push((guard.hold().lease_id(), guard.fencing_token().get()));
        assert!(guard.is_held());
        match n {
            0 => drop(guard),
            1 => assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::HandedOn),
            _ => assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released),
        }
    }
    let (lease, token) = holds[0];
    assert_eq!(holds, [(lease, token), (lease, token + 1), (lease, token + 2)]);
    let seen = std::mem::take(&mut *log.0.lock().unwrap());
    let granted: Vec<_> = seen.iter().filter_map(|(source, _)| *source).collect();
    assert_eq!(granted, [GrantSource::Store, GrantSource::Store, GrantSource::HandOff, GrantSource::HandOff]);
    let released: Vec<_> = seen.iter().filter_map(|(_, outcome)| *outcome).collect();
    let (to_store, on) = (ReleaseOutcome::Released, ReleaseOutcome::HandedOn);
    assert_eq!(released, [to_store, on, on, to_store]);
    assert!(world.store.held().is_empty(), "the lease was released once, at the end of the chain");
}

#[tokio::test(start_paused = true)]
async fn cancelled_successor_passes_the_lease_on() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let first = lock.acquire().await.unwrap();
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(lock.acquire())).collect();
    world.settle().await;
    tokio::time::advance(millis(2)).await;
    first.release().await.unwrap();
    let [second, third, fourth] = waiters.try_into().unwrap();
    let second = second.await.unwrap().unwrap();
    // Granted and aborted in one step: nothing is polled in between.
    drop(second);
    third.abort();
    let fourth = fourth.await.unwrap().unwrap();
    assert!(fourth.is_held());
    fourth.release().await.unwrap();
    world.settle().await;
    tokio::time::sleep(secs(3)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn fixed_leases_and_other_options_go_to_the_store() {
    let world = World::new();
    let lock = world.locks.named(name("x")).unwrap();
    let bounded = lock.with_options(lock.options().max_hold(secs(60))).unwrap();
    let fixed = lock.with_fixed_lease(secs(5)).unwrap();
    for [one, other] in [[&lock, &bounded], [&fixed, &fixed]] {
        let first = one.acquire().await.unwrap();
        let waiters = [one.acquire(), other.acquire(), other.acquire()].map(tokio::spawn);
        world.settle().await;
        tokio::time::advance(millis(2)).await;
        first.release().await.unwrap();
        let [second, third, fourth] = waiters;
        assert_eq!(second.await.unwrap().unwrap().release().await.unwrap(), ReleaseOutcome::Released);
        drop((third.await.unwrap().unwrap(), fourth));
        world.settle().await;
    }
}
