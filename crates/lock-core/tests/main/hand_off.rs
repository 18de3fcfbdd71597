//! The lease passes from task to task of one process, and to other processes when the budget is spent.

use crate::support::{World, millis, name, secs};
use async_trait::async_trait;
use lock_core::{
    LockFactory, LockGuard, LockName, MemoryBackend, ReleaseOutcome, Store,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, Backend as _, BackendError, BackendExt as _, Capabilities,
        ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest, Renewed,
        Reply,
    },
    clock::UtcTime,
    inspect::ForceReleaseOutcome,
    observer::{GrantSource, LockEvent, LockEventKind, LockObserver},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::sleep;

/// Every grant and every release, in order.
#[derive(Debug, Default)]
struct Log(Mutex<Vec<(Option<GrantSource>, Option<ReleaseOutcome>)>>);

impl LockObserver for Log {
    fn on_event(&self, event: &LockEvent<'_>) {
        let seen = match event.kind {
            LockEventKind::Granted { source, .. } => (Some(source), None),
            LockEventKind::GuardReleased { outcome, .. } => (None, outcome),
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

/// A store that receives forced releases late.
#[derive(Debug)]
struct SlowlyForced(MemoryBackend);

/// The time that a forced release takes to reach the store.
const ON_ITS_WAY: Duration = millis(10);

#[async_trait]
impl AsyncBackend for SlowlyForced {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.0.server_now(name)
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        self.0.renew(items).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.0.release(request).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.0.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        sleep(ON_ITS_WAY).await;
        self.0.force_release(request).await
    }
}

/// Returns the first guard of a chain that has just been granted, and the acquires of the tasks behind it.
async fn begun_chain(
    world: &World,
    locks: &LockFactory,
) -> (LockGuard, [tokio::task::JoinHandle<LockGuard>; 3]) {
    let lock = locks.named("x").unwrap();
    let before = lock.acquire().await.unwrap();
    let [first, waiting @ ..] = [(); 4].map(|()| {
        let acquire = lock.acquire();
        tokio::spawn(async { acquire.await.unwrap() })
    });
    world.settle().await;
    tokio::time::advance(millis(2)).await;
    before.release().await.unwrap();
    (first.await.unwrap(), waiting)
}

#[tokio::test(start_paused = true)]
async fn forced_release_ends_the_chain_before_it_is_executed() {
    let world = World::new();
    let backend = Arc::new(SlowlyForced(world.store.clone()));
    let store = Store::polling(backend).pushing(Arc::new(world.store.clone()));
    let locks = LockFactory::builder(store).clock(world.clock.clone()).build().unwrap();
    let (first, [second, ..]) = begun_chain(&world, &locks).await;
    let lease = first.hold().lease_id();
    let force = tokio::spawn({
        let locks = locks.clone();
        async move { locks.force_release("x").await }
    });
    world.settle().await;
    assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released, "the chain has ended");
    let second = second.await.unwrap();
    assert_ne!(second.hold().lease_id(), lease);
    sleep(ON_ITS_WAY).await;
    assert_eq!(force.await.unwrap().unwrap(), ForceReleaseOutcome::HolderChanged);
    assert!(second.is_held(), "another lease than the one that was seen");
}

#[tokio::test(start_paused = true)]
async fn pinned_hold_is_released_in_the_store() {
    let world = World::new();
    let (first, [second, ..]) = begun_chain(&world, &world.locks).await;
    let hold = first.hold();
    assert!(first.pin());
    assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(!hold.pin(), "it has ended");
    assert_ne!(second.await.unwrap().hold().lease_id(), hold.lease_id());
}

/// The forced release of another process frees the lease in the middle of the chain: its holds are valid until the next
/// renewal, and their tokens are below that of the next grant.
#[tokio::test(start_paused = true)]
async fn lease_forced_by_another_process_is_handed_on() {
    let world = World::new();
    let (first, [second, third, _fourth]) = begun_chain(&world, &world.locks).await;
    let other = world.another_process();
    assert!(matches!(other.force_release("x").await.unwrap(), ForceReleaseOutcome::Released { .. }));
    let theirs = other.named("x").unwrap().try_acquire().await.unwrap().expect("it is free");
    assert_eq!(first.release().await.unwrap(), ReleaseOutcome::HandedOn);
    let second = second.await.unwrap();
    assert!(second.is_held() && theirs.is_held() && second.fencing_token() < theirs.fencing_token());
    sleep(millis(40)).await;
    assert!(
        !second.release().await.unwrap().was_held(),
        "the chain ends in the store, which has another lease"
    );
    theirs.release().await.unwrap();
    assert!(third.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn next_holder_does_not_inherit_an_extension() {
    let world = World::new();
    for longer in [false, true] {
        let (first, [second, ..]) = begun_chain(&world, &world.locks).await;
        if longer {
            let options = world.locks.named("x").unwrap().options().lease(secs(3_600));
            let lock = world.locks.named("x").unwrap().with_options(options).unwrap();
            lock.with_owner(first.owner()).unwrap().acquire().await.unwrap().release().await.unwrap();
        } else {
            first.extend(secs(3_600)).await.unwrap();
        }
        world.settle().await;
        assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
        let second = second.await.unwrap();
        let stored = world.locks.inspect("x").await.unwrap().stored.unwrap();
        assert_eq!(stored.remaining, Some(secs(30)), "{longer}");
        assert!(second.remaining() <= secs(30));
        drop(second);
        world.settle().await;
    }
}

/// A store whose replies to acquires take a while.
#[derive(Debug)]
struct SlowToAnswer(MemoryBackend);

#[async_trait]
impl AsyncBackend for SlowToAnswer {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.0.server_now(name)
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let reply = self.0.acquire(request).await;
        sleep(ON_ITS_WAY).await;
        reply
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        self.0.renew(items).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.0.release(request).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.0.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.0.force_release(request).await
    }
}

/// The factory frees its own lease while the reply to the acquire is on its way.
#[tokio::test(start_paused = true)]
async fn forced_release_before_the_reply_to_an_acquire_ends_the_chain() {
    let world = World::new();
    let backend = Arc::new(SlowToAnswer(world.store.clone()));
    let store = Store::polling(backend).pushing(Arc::new(world.store.clone()));
    let locks = LockFactory::builder(store).clock(world.clock.clone()).build().unwrap();
    let lock = locks.named("x").unwrap();
    // The second attempt reserves tokens, since another waits.
    let before = world.another_process().named("x").unwrap().acquire().await.unwrap();
    let waiting = [(); 3].map(|()| tokio::spawn(lock.acquire()));
    world.settle().await;
    sleep(ON_ITS_WAY * 2).await;
    before.release().await.unwrap();
    world.settle().await;
    while !matches!(locks.force_release("x").await.unwrap(), ForceReleaseOutcome::Released { .. }) {
        sleep(millis(1)).await;
    }
    let other = world.another_process().named("x").unwrap().acquire().await.unwrap();
    sleep(secs(1)).await;
    // Whether or not the first was granted the freed lease, nobody was handed it.
    assert!(waiting.iter().filter(|task| task.is_finished()).count() <= 1);
    assert!(other.is_held());
    let [first, ..] = waiting;
    if first.is_finished() {
        let first = first.await.unwrap().unwrap();
        assert_ne!(first.release().await.unwrap(), ReleaseOutcome::HandedOn);
    }
}
