//! Properties of pools: semaphores, read-write locks and fair locks.
//!
//! Those of one request are compared with the rules by a [`PermitRun`](crate::PermitRun); these are the promises that a
//! user relies on, each with the steps that would break it.

use super::{
    Harness,
    contender::{Contender, LONG, PAST_SHORT, RENEWED, SHORT, look},
    listener::Listener,
};
use lock_core::{
    __private::semaphore_name,
    LockFactory, LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, BackendExt as _, ForceReleaseRequest, ForceReleased,
        Inspected, NotifyWaiters, PermitRequest, Place, ReleaseRequest, Released, RenewRequest, Renewed,
        Share, StoredPool,
    },
};
use std::{sync::Arc, time::Duration};

/// The time after which a lease of [`RENEWED`] has certainly expired.
const SLACK: Duration = Duration::from_millis(100);

/// A store with one pool.
struct Fixture {
    store: lock_core::Store,
    name: LockName,
}

impl Fixture {
    async fn new(h: &impl Harness, hint: &str) -> Self {
        let store = h.store().await;
        assert!(store.backend.capabilities().permits, "the store has no permits");
        Self { store, name: semaphore_name(&h.name(hint)).expect("a short name") }
    }

    fn contender(&self) -> Contender {
        Contender::new(&self.store.backend)
    }

    /// Takes a permit that must be granted.
    async fn take(&self, weight: u32, limit: u32) -> Contender {
        let contender = self.contender();
        let reply = contender.queue(&self.name, weight, limit).await;
        assert!(matches!(reply, Acquired::Granted { .. }), "expected a grant, got {reply:?}");
        contender
    }

    /// Takes a place in the queue.
    async fn wait(&self, weight: u32, limit: u32) -> Contender {
        let contender = self.contender();
        let reply = contender.queue(&self.name, weight, limit).await;
        assert!(matches!(reply, Acquired::Queued { .. }), "expected a place in the queue, got {reply:?}");
        contender
    }

    async fn is_granted(&self, contender: &Contender, weight: u32, limit: u32) -> bool {
        matches!(contender.queue(&self.name, weight, limit).await, Acquired::Granted { .. })
    }

    async fn pool(&self) -> StoredPool {
        match look(&self.store.backend, &self.name).await.outcome {
            Inspected::Pool(pool) => pool,
            Inspected::Free => StoredPool::default(),
            other => panic!("expected a pool, got {other:?}"),
        }
    }

    async fn used(&self) -> u32 {
        self.pool().await.holders.iter().map(|holder| holder.weight).sum()
    }
}

/// The weights of all holders together never exceed the limit.
pub async fn weights_are_bounded_by_the_limit(h: &impl Harness) {
    let f = Fixture::new(h, "bounded").await;
    let (two, _one) = (f.take(2, 3).await, f.take(1, 3).await);
    let waiting = f.wait(1, 3).await;
    two.free(&f.name).await;
    assert!(f.is_granted(&waiting, 1, 3).await);
    assert_eq!(f.used().await, 2);
}

/// Many requests at once are granted up to the limit.
pub async fn of_many_at_once_as_many_as_fit_are_granted(h: &impl Harness) {
    let f = Arc::new(Fixture::new(h, "at-once").await);
    let tasks: Vec<_> = (0..24)
        .map(|_| {
            let f = f.clone();
            tokio::spawn(async move {
                let contender = f.contender();
                f.is_granted(&contender, 1, 7).await
            })
        })
        .collect();
    let mut granted = 0;
    for task in tasks {
        granted += u32::from(task.await.expect("no panic"));
    }
    assert_eq!((granted, f.used().await), (7, 7));
}

/// A repeat is granted again, with a new token, and takes no second permit.
pub async fn repeated_grant_is_one_permit(h: &impl Harness) {
    let f = Fixture::new(h, "repeat").await;
    let a = f.contender();
    let token = |reply| match reply {
        Acquired::Granted { first, last } if first == last => first,
        other => panic!("expected one token, got {other:?}"),
    };
    let first = token(a.queue(&f.name, 1, 2).await);
    let second = token(a.queue(&f.name, 1, 2).await);
    assert!(second > first);
    f.take(1, 2).await;
    f.wait(1, 2).await;
    a.free(&f.name).await;
    assert_eq!(f.used().await, 1, "one release frees all of it");
}

/// Waiters are granted in the order of their arrival, and a newcomer that fits does not overtake them.
pub async fn newcomers_do_not_overtake(h: &impl Harness) {
    let f = Fixture::new(h, "order").await;
    let held = f.take(1, 3).await;
    let large = f.wait(3, 3).await;
    let small = f.wait(1, 3).await;
    let third = f.contender();
    let single = third.ask(&f.name, LONG, Share { weight: 1, limit: 3 }, None).await;
    assert!(matches!(single, Acquired::Busy { .. }), "{single:?}: a single attempt does not overtake either");
    assert!(!f.is_granted(&small, 1, 3).await);
    held.free(&f.name).await;
    assert!(!f.is_granted(&small, 1, 3).await, "the large one came first");
    assert!(f.is_granted(&large, 3, 3).await);
    large.free(&f.name).await;
    assert!(f.is_granted(&small, 1, 3).await);
}

/// Waiters at the head that fit together are granted in any order.
pub async fn heads_that_fit_are_granted_in_any_order(h: &impl Harness) {
    let f = Fixture::new(h, "heads").await;
    let all = f.take(3, 3).await;
    let (a, b, c) = (f.wait(1, 3).await, f.wait(2, 3).await, f.wait(1, 3).await);
    all.free(&f.name).await;
    assert!(f.is_granted(&b, 2, 3).await && !f.is_granted(&c, 1, 3).await && f.is_granted(&a, 1, 3).await);
}

/// Each request is judged by its own limit.
pub async fn each_request_has_its_own_limit(h: &impl Harness) {
    let f = Fixture::new(h, "limits").await;
    let (four, one) = (f.take(4, 5).await, f.take(1, 5).await);
    let low = f.wait(1, 3).await;
    one.free(&f.name).await;
    assert!(!f.is_granted(&low, 1, 3).await);
    four.free(&f.name).await;
    assert!(f.is_granted(&low, 1, 3).await);
}

/// A writer excludes readers, and one that waits stops later ones.
pub async fn waiting_writer_stops_later_readers(h: &impl Harness) {
    let f = Fixture::new(h, "writer").await;
    let (reader, limit) = (f.take(1, Share::MAX_LIMIT).await, Share::MAX_LIMIT);
    f.take(1, limit).await.free(&f.name).await;
    let writer = f.wait(limit, limit).await;
    let late = f.wait(1, limit).await;
    reader.free(&f.name).await;
    assert!(f.is_granted(&writer, limit, limit).await && !f.is_granted(&late, 1, limit).await);
    assert_eq!(writer.release(&f.name, 1).await, Released::Kept, "it becomes a reader");
    assert!(f.is_granted(&late, 1, limit).await);
    assert_eq!(f.used().await, 2);
    assert_eq!(writer.release(&f.name, 7).await, Released::Kept, "a weight never rises");
    assert_eq!(f.used().await, 2);
}

/// The permit of a holder that has ended is free after its lease.
pub async fn ended_lease_is_free(h: &impl Harness) {
    let f = Fixture::new(h, "ended").await;
    let dead = f.contender();
    let share = Share { weight: 2, limit: 2 };
    let place = Some(Place { id: dead.lease(), patience: LONG });
    assert!(matches!(dead.ask(&f.name, RENEWED, share, place).await, Acquired::Granted { .. }));
    let waiting = f.contender();
    match waiting.queue(&f.name, 1, 2).await {
        Acquired::Queued { remaining: Some(left) } => assert!(left <= RENEWED, "{left:?}"),
        other => panic!("expected a place, and the end of the lease, got {other:?}"),
    }
    h.pass(RENEWED + SLACK).await;
    assert!(f.is_granted(&waiting, 1, 2).await);
    assert_eq!(dead.renew(&f.name, LONG).await, Renewed::Gone);
    assert_eq!(f.used().await, 1);
}

/// A waiter that has ended is forgotten after its patience.
pub async fn ended_waiter_is_forgotten(h: &impl Harness) {
    let f = Fixture::new(h, "patience").await;
    let held = f.take(1, 1).await;
    let (dead, share) = (f.contender(), Share { weight: 1, limit: 1 });
    let place = Some(Place { id: dead.lease(), patience: SHORT });
    assert!(matches!(dead.ask(&f.name, LONG, share, place).await, Acquired::Queued { .. }));
    let waiting = f.wait(1, 1).await;
    held.free(&f.name).await;
    h.pass(PAST_SHORT).await;
    assert!(f.is_granted(&waiting, 1, 1).await);
}

/// A waiter that repeats its request keeps its place.
pub async fn repeated_request_keeps_the_place(h: &impl Harness) {
    let f = Fixture::new(h, "keeps").await;
    let held = f.take(1, 1).await;
    let (first, share) = (f.contender(), Share { weight: 1, limit: 1 });
    let place = Some(Place { id: first.lease(), patience: RENEWED });
    assert!(matches!(first.ask(&f.name, LONG, share, place).await, Acquired::Queued { .. }));
    let second = f.wait(1, 1).await;
    assert!(
        matches!(first.queue(&f.name, 1, 1).await, Acquired::Queued { .. }),
        "its patience is now longer"
    );
    h.pass(RENEWED + SLACK).await;
    held.free(&f.name).await;
    assert!(!f.is_granted(&second, 1, 1).await);
    assert!(f.is_granted(&first, 1, 1).await);
}

/// Of two leases with one place, as copies of a process have, one is granted.
pub async fn place_is_granted_once(h: &impl Harness) {
    let f = Fixture::new(h, "copies").await;
    let held = f.take(1, 1).await;
    let (copies, share) = ([f.contender(), f.contender()], Share { weight: 1, limit: 1 });
    let place = Some(Place { id: copies[0].lease(), patience: LONG });
    for copy in &copies {
        assert!(matches!(copy.ask(&f.name, LONG, share, place).await, Acquired::Queued { .. }));
    }
    assert_eq!(f.pool().await.waiters.len(), 1);
    held.free(&f.name).await;
    assert!(matches!(copies[1].ask(&f.name, LONG, share, place).await, Acquired::Granted { .. }));
    assert!(matches!(copies[0].ask(&f.name, LONG, share, place).await, Acquired::Queued { .. }));
}

/// A release also gives up a place, and repeating it changes nothing.
pub async fn release_gives_up_a_place(h: &impl Harness) {
    let f = Fixture::new(h, "gives-up").await;
    let _held = f.take(1, 2).await;
    let large = f.wait(2, 2).await;
    let small = f.wait(1, 2).await;
    large.free(&f.name).await;
    assert!(matches!(large.release(&f.name, 0).await, Released::Gone { held_by_other: true }));
    assert!(f.is_granted(&small, 1, 2).await);
}

/// A request that arrives after its `not_after` takes neither a permit nor a place, and extends nothing.
pub async fn late_request_changes_nothing(h: &impl Harness) {
    let f = Fixture::new(h, "late").await;
    let past = look(&f.store.backend, &f.name).await.now - Duration::from_secs(1);
    let late = f.contender();
    let (share, place) = (Share { weight: 1, limit: 1 }, Some(Place { id: late.lease(), patience: LONG }));
    let mode = AcquireMode::Permit(PermitRequest { share, place, floor: None }.into());
    let request = AcquireRequest { not_after: past, ..late.request(&f.name, LONG, mode).await };
    assert_eq!(late.send(request.clone()).await.outcome, Acquired::Late);
    assert_eq!(f.pool().await, StoredPool::default());
    let held = f.take(1, 1).await;
    assert_eq!(late.send(request).await.outcome, Acquired::Late);
    assert!(f.pool().await.waiters.is_empty());
    let renewal = RenewRequest { not_after: past, ..held.renewal(&f.name, LONG * 3) };
    let mut replies = f.store.backend.renew(vec![renewal]).await;
    assert_eq!(replies.remove(0).expect("a healthy store").outcome, Renewed::Late);
    assert!(f.pool().await.holders[0].remaining <= LONG);
}

/// A renewal extends a permit, never shortens it, and makes none.
pub async fn renewal_only_extends(h: &impl Harness) {
    let f = Fixture::new(h, "renewal").await;
    let (a, share) = (f.contender(), Share { weight: 1, limit: 1 });
    let place = Some(Place { id: a.lease(), patience: LONG });
    assert!(matches!(a.ask(&f.name, RENEWED, share, place).await, Acquired::Granted { .. }));
    assert_eq!(a.renew(&f.name, LONG).await, Renewed::Renewed);
    assert_eq!(a.renew(&f.name, RENEWED).await, Renewed::Renewed);
    let waiting = f.wait(1, 1).await;
    assert_eq!(waiting.renew(&f.name, LONG).await, Renewed::Gone, "a place is not renewed");
    h.pass(RENEWED + SLACK).await;
    assert_eq!(f.used().await, 1);
    a.free(&f.name).await;
    assert_eq!(a.renew(&f.name, LONG).await, Renewed::Gone);
    assert!(f.is_granted(&waiting, 1, 1).await);
}

/// Tokens grow from grant to grant.
pub async fn tokens_of_a_pool_grow(h: &impl Harness) {
    let f = Fixture::new(h, "tokens").await;
    let mut last = None;
    for _ in 0..5 {
        let a = f.contender();
        let Acquired::Granted { first, .. } = a.queue(&f.name, 1, 2).await else {
            panic!("expected a grant")
        };
        assert!(last < Some(first), "{first} after {last:?}");
        last = Some(first);
        a.free(&f.name).await;
    }
}

/// A release wakes waiters, and one without waiters wakes nobody.
pub async fn release_of_a_permit_wakes_waiters(h: &impl Harness) {
    let f = Fixture::new(h, "wakes").await;
    let other = h.another(&f.store).await;
    let Some(listener) = Listener::watching(&other, &f.name).await else { return };
    f.take(1, 2).await.free(&f.name).await;
    listener.must_not_hear_more(h, &f.name, 0).await;
    let (a, b) = (f.take(1, 2).await, f.take(1, 2).await);
    let waiting = f.wait(2, 2).await;
    for (heard, holder) in [(1, a), (2, b)] {
        holder.free(&f.name).await;
        listener.must_hear(h, &f.name, heard).await;
    }
    assert!(f.is_granted(&waiting, 2, 2).await);
    listener.must_not_hear_more(h, &f.name, 2).await;
}

/// A grant that leaves room for the next waiter wakes it: one release may make room for several.
pub async fn grant_that_leaves_room_wakes_the_next(h: &impl Harness) {
    let f = Fixture::new(h, "chain").await;
    let Some(listener) = Listener::watching(&f.store, &f.name).await else { return };
    let all = f.take(3, 3).await;
    let waiting = [f.wait(1, 3).await, f.wait(1, 3).await, f.wait(1, 3).await];
    all.free(&f.name).await;
    for (number, waiter) in waiting.iter().enumerate() {
        listener.must_hear(h, &f.name, number + 1).await;
        assert!(f.is_granted(waiter, 1, 3).await);
    }
    listener.must_not_hear_more(h, &f.name, 3).await;
}

/// A request that finds an ended lease wakes the others.
pub async fn found_end_wakes_the_others(h: &impl Harness) {
    let f = Fixture::new(h, "found").await;
    let Some(listener) = Listener::watching(&f.store, &f.name).await else { return };
    let (dead, share) = (f.contender(), Share { weight: 2, limit: 2 });
    assert!(matches!(dead.ask(&f.name, RENEWED, share, None).await, Acquired::Granted { .. }));
    let (first, second) = (f.wait(1, 2).await, f.wait(1, 2).await);
    h.pass(RENEWED + SLACK).await;
    assert!(f.is_granted(&first, 1, 2).await);
    listener.must_hear(h, &f.name, 1).await;
    assert!(f.is_granted(&second, 1, 2).await);
}

/// A lowered weight wakes waiters, and so does a place that is given up.
pub async fn more_room_wakes_waiters(h: &impl Harness) {
    let f = Fixture::new(h, "room").await;
    let Some(listener) = Listener::watching(&f.store, &f.name).await else { return };
    let writer = f.take(3, 3).await;
    let (large, _small) = (f.wait(3, 3).await, f.wait(1, 3).await);
    writer.release(&f.name, 1).await;
    listener.must_hear(h, &f.name, 1).await;
    large.free(&f.name).await;
    listener.must_hear(h, &f.name, 2).await;
    // A release that must not notify does not.
    let silent = ReleaseRequest {
        name: f.name.clone(),
        lease: writer.lease(),
        depth_left: 0,
        notify: NotifyWaiters::No,
    };
    f.store.backend.release(silent).await.expect("a healthy store");
    listener.must_not_hear_more(h, &f.name, 2).await;
}

/// An inspection shows the holders and the waiters, and a forced release ends the one that was seen.
pub async fn inspection_shows_holders_and_waiters(h: &impl Harness) {
    let f = Fixture::new(h, "inspect").await;
    let (a, b) = (f.take(2, 3).await, f.take(1, 3).await);
    let (c, d) = (f.wait(3, 3).await, f.wait(1, 3).await);
    let StoredPool { mut holders, waiters } = f.pool().await;
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.weight));
    let seen = |of: &[lock_core::backend::StoredPermit]| -> Vec<_> {
        assert!(of.iter().all(|permit| permit.remaining <= LONG && permit.remaining > LONG / 4), "{of:?}");
        of.iter().map(|permit| (permit.lease.clone(), permit.weight)).collect()
    };
    let of = |contender: &Contender, weight| (contender.lease().to_string(), weight);
    assert_eq!(seen(&holders), [of(&a, 2), of(&b, 1)]);
    assert_eq!(seen(&waiters), [of(&c, 3), of(&d, 1)]);
    for (seen, expected) in
        [(&a, ForceReleased::Released), (&a, ForceReleased::HolderChanged), (&c, ForceReleased::Released)]
    {
        let request = ForceReleaseRequest { name: f.name.clone(), seen: seen.lease().to_string() };
        let forced = f.store.backend.force_release(request).await.expect("a healthy store");
        assert_eq!(forced.outcome, expected);
    }
    assert!(f.is_granted(&d, 1, 3).await);
    assert_eq!(f.used().await, 2);
}

/// A pool, and locks and pools of the same name, do not touch one another.
pub async fn pool_and_lock_of_one_name_are_independent(h: &impl Harness) {
    let store = h.store().await;
    let name = h.name("same");
    let pool = semaphore_name(&name).expect("a short name");
    let (lock, permit) = (Contender::new(&store.backend), Contender::new(&store.backend));
    lock.take(&name, LONG).await;
    assert!(matches!(permit.queue(&pool, 1, 1).await, Acquired::Granted { .. }));
    assert!(matches!(permit.release(&name, 0).await, Released::Gone { held_by_other: true }));
    assert!(matches!(lock.release(&pool, 0).await, Released::Gone { held_by_other: true }));
    lock.must_hold(&name, 1).await;
    permit.free(&pool).await;
    lock.free(&name).await;
}

/// An emptied pool grants its whole limit again, after any history.
pub async fn no_permit_is_ever_lost(h: &impl Harness) {
    let f = Fixture::new(h, "never-lost").await;
    for round in 0..10u32 {
        let a = f.take(1 + round % 3, 3).await;
        let b = f.wait(3, 3).await;
        if round % 2 == 0 {
            a.queue(&f.name, 1, 3).await;
        }
        let (first, second) = if round % 4 < 2 { (&a, &b) } else { (&b, &a) };
        first.release(&f.name, 0).await;
        first.release(&f.name, 0).await;
        second.release(&f.name, 0).await;
    }
    f.take(3, 3).await.free(&f.name).await;
    assert_eq!(f.pool().await, StoredPool::default());
}

/// Factories of two processes share the limit, wake one another, and keep their order.
pub async fn processes_share_a_semaphore(h: &impl Harness) {
    let store = h.store().await;
    let other = h.another(&store).await;
    let factory = |store| LockFactory::builder(store).clock(h.clock()).build().expect("valid options");
    let (here, there) = (factory(store), factory(other));
    let name = h.name("shared");
    let (one, two) = (here.semaphore(&name, 2).expect("valid"), there.semaphore(&name, 2).expect("valid"));
    let held = [one.acquire().await.expect("free"), two.acquire().await.expect("free")];
    assert!(one.try_acquire().await.expect("a healthy store").is_none());
    let waiting = tokio::spawn(two.acquire());
    while one.inspect().await.expect("a healthy store").waiters.is_empty() {
        h.pass(Duration::from_millis(5)).await;
    }
    let [first, second] = held;
    assert!(first.release().await.expect("a healthy store").was_held());
    let third = waiting.await.expect("no panic").expect("granted");
    assert_eq!(one.inspect().await.expect("a healthy store").used, 2);
    assert!(second.release().await.expect("a healthy store").was_held());
    assert!(third.release().await.expect("a healthy store").was_held());
    here.shutdown().await;
    there.shutdown().await;
}
