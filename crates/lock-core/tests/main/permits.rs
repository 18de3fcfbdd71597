//! Semaphores, read-write locks and fair locks: limits, order, cancellation, loss and lost replies.

use crate::support::{World, millis, name, secs};
use lock_core::{
    __private::semaphore_name,
    LockError, LockErrorKind, LockFactory, LockName, LockOptions, LostReason, MemoryBackend, Store,
    backend::{Acquired, BackendErrorKind, Place, Share},
    inspect::ForceReleaseOutcome,
    permit::{Permit, Semaphore},
};
use lock_testkit::{Fault, Op, contender::Contender};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinHandle, time::sleep};

type Taken = (usize, Permit);

/// Starts an acquire, whose result is recorded under this number.
fn wait(pool: &Semaphore, number: usize, order: &Arc<Mutex<Vec<usize>>>) -> JoinHandle<Taken> {
    let (waiting, order) = (pool.acquire(), order.clone());
    tokio::spawn(async move {
        let permit = waiting.await.unwrap();
        order.lock().unwrap().push(number);
        (number, permit)
    })
}

#[tokio::test(start_paused = true)]
async fn limit_holds_across_processes() {
    let world = World::new();
    let other = world.another_process();
    let (here, there) = (world.locks.semaphore("api", 3).unwrap(), other.semaphore("api", 3).unwrap());
    let one = here.acquire_many(2).await.unwrap();
    let two = there.acquire().await.unwrap();
    assert!(here.try_acquire().await.unwrap().is_none() && there.try_acquire().await.unwrap().is_none());
    assert_eq!((one.weight(), here.inspect().await.unwrap().used), (2, 3));
    assert!(one.release().await.unwrap().was_held());
    let rest = there.try_acquire_many(2).await.unwrap().expect("two are free");
    drop((two, rest));
    world.settle().await;
    assert!(here.try_acquire_many(3).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn waiters_of_all_processes_are_served_in_order() {
    let world = World::new();
    let other = world.another_process();
    let pools = [world.locks.semaphore("x", 1).unwrap(), other.semaphore("x", 1).unwrap()];
    let first = pools[0].acquire().await.unwrap();
    let order = Arc::default();
    let mut waiting = Vec::new();
    for number in 0..20 {
        waiting.push(wait(&pools[number % 2], number, &order));
        world.settle().await;
    }
    drop(first);
    for task in waiting {
        let (_, permit) = task.await.unwrap();
        sleep(millis(5)).await;
        permit.release().await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn large_request_is_not_overtaken_by_small_ones() {
    let world = World::new();
    let pool = world.locks.semaphore("x", 4).unwrap();
    let small = pool.acquire().await.unwrap();
    let large = tokio::spawn(pool.acquire_many(4));
    world.settle().await;
    // Three permits are free, but the large request came first.
    assert!(pool.try_acquire().await.unwrap().is_none());
    assert_eq!(pool.acquire_timeout(millis(50)).await.unwrap_err().kind(), LockErrorKind::Timeout);
    small.release().await.unwrap();
    assert_eq!(large.await.unwrap().unwrap().weight(), 4);
}

#[tokio::test(start_paused = true)]
async fn one_release_serves_as_many_as_fit() {
    let world = World::new();
    let other = world.another_process();
    let (here, there) = (world.locks.semaphore("x", 20).unwrap(), other.semaphore("x", 20).unwrap());
    let all = here.acquire_many(20).await.unwrap();
    let order = Arc::default();
    let waiting: Vec<_> = (0..20).map(|n| wait(if n % 2 == 0 { &here } else { &there }, n, &order)).collect();
    world.settle().await;
    let begun = world.now();
    all.release().await.unwrap();
    world.settle().await;
    assert_eq!(order.lock().unwrap().len(), 20, "each grant wakes the next waiter");
    assert_eq!(world.now(), begun);
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn writer_waits_for_readers_and_stops_later_ones() {
    let world = World::new();
    let other = world.another_process();
    let (here, there) = (world.locks.rw_lock("x").unwrap(), other.rw_lock("x").unwrap());
    let (one, two) = (here.read().acquire().await.unwrap(), there.read().acquire().await.unwrap());
    let write = here.write().clone();
    let writer = tokio::spawn(write.acquire());
    world.settle().await;
    assert!(there.read().try_acquire().await.unwrap().is_none(), "the writer came first");
    let late = tokio::spawn(there.read().acquire());
    one.release().await.unwrap();
    world.settle().await;
    assert!(!writer.is_finished());
    two.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    world.settle().await;
    assert!(!late.is_finished());
    let token = writer.fencing_token();
    let reader = writer.downgrade();
    let late = late.await.unwrap().unwrap();
    assert!(reader.is_held() && late.is_held(), "a downgraded writer lets readers in");
    assert!(here.write().try_acquire().await.unwrap().is_none());
    reader.release().await.unwrap();
    late.release().await.unwrap();
    assert!(here.write().acquire().await.unwrap().fencing_token() > token);
}

#[tokio::test(start_paused = true)]
async fn kinds_have_names_of_their_own() {
    let world = World::new();
    let locks = &world.locks;
    let lock = locks.named("x").unwrap().acquire().await.unwrap();
    let fair = locks.fair("x").unwrap().acquire().await.unwrap();
    let writer = locks.rw_lock("x").unwrap().write().acquire().await.unwrap();
    let permit = locks.semaphore("x", 1).unwrap().acquire().await.unwrap();
    assert!(lock.is_held() && fair.is_held() && writer.is_held() && permit.is_held());
    assert_eq!((permit.name().as_str(), locks.active_locks()), ("x", 4));
    assert_eq!(locks.holds().len(), 1, "a permit is no lock");
    let error = locks.fair("x").unwrap().acquire_timeout(millis(1)).await.unwrap_err();
    assert!(error.to_string().contains("fair lock `x`"), "{error}");
}

/// A library has one semaphore as a template for all names.
#[tokio::test(start_paused = true)]
async fn acquire_by_name_has_the_limit_and_options_of_its_template() {
    let world = World::new();
    let template = world.locks.semaphore("template", 2).unwrap();
    let template = template.with_options(template.options().max_hold(secs(5))).unwrap();
    let acquire = |text: &str, wait| template.acquire_named(name(text), wait).unwrap();
    let (one, two) = (acquire("x", secs(1)).await.unwrap(), acquire("x", secs(1)).await.unwrap());
    assert_eq!((one.name().as_str(), one.weight()), ("x", 1));
    assert_eq!(world.locks.semaphore("x", 2).unwrap().inspect().await.unwrap().used, 2);
    assert_eq!(template.inspect().await.unwrap().used, 0);
    let begun = world.now();
    for wait in [Duration::ZERO, secs(1)] {
        assert_eq!(acquire("x", wait).await.unwrap_err().kind(), LockErrorKind::Timeout);
    }
    assert!((secs(1)..millis(1_100)).contains(&(world.now() - begun)));
    assert!(acquire("y", Duration::ZERO).await.unwrap().is_held());
    one.start_release();
    assert!(acquire("x", secs(1)).await.unwrap().is_held());
    assert_eq!(two.lost().await, LostReason::MaxHold);

    // The name of the semaphore in the store is longer than the one that was given.
    let longest = name(&"x".repeat(LockName::MAX_BYTES));
    let error = template.acquire_named(longest, secs(1)).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidName);
}

#[tokio::test(start_paused = true)]
async fn given_up_place_is_free_at_once() {
    let world = World::new();
    let other = world.another_process();
    let (here, there) = (world.locks.semaphore("x", 2).unwrap(), other.semaphore("x", 2).unwrap());
    let held = here.acquire().await.unwrap();
    let mut large = Box::pin(here.acquire_many(2));
    tokio::select! { _ = &mut large => unreachable!(), () = sleep(millis(50)) => {} }
    let small = tokio::spawn(there.acquire());
    world.settle().await;
    assert!(!small.is_finished(), "it waits behind the large request");
    let begun = world.now();
    drop(large);
    let small = small.await.unwrap().unwrap();
    assert!(world.now() - begun < millis(100), "{:?}", world.now() - begun);
    assert_eq!(here.inspect().await.unwrap().waiters.len(), 0);
    drop((held, small));
    sleep(secs(3)).await;
    world.assert_nothing_left();
    assert!(here.try_acquire_many(2).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn dead_waiter_delays_by_at_most_its_patience() {
    let world = World::new();
    let (here, other) = (world.locks.semaphore("x", 1).unwrap(), world.another_process());
    let held = here.acquire().await.unwrap();
    // It queues as a process that ends then.
    let dead = Contender::new(&Store::from(world.store.clone()).backend);
    let (share, place) = (Share { weight: 1, limit: 1 }, Place { id: dead.lease(), patience: secs(6) });
    let reply = dead.ask(&pool_name("x"), secs(30), share, Some(place)).await;
    assert!(matches!(reply, Acquired::Queued { .. }), "{reply:?}");
    let there = other.semaphore("x", 1).unwrap();
    let waiting = tokio::spawn(there.acquire());
    world.settle().await;
    let begun = world.now();
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    let waited = world.now() - begun;
    assert!(secs(5) < waited && waited <= secs(8), "{waited:?}: a patience and a third of it");
}

/// Copies of a process that waits have the place of the original, and leases of their own.
#[tokio::test(start_paused = true)]
async fn copies_of_a_process_that_waits_get_one_permit() {
    let backend = Store::from(MemoryBackend::new()).backend;
    let (holder, copies) = (Contender::new(&backend), [Contender::new(&backend), Contender::new(&backend)]);
    let (x, share) = (pool_name("x"), Share { weight: 1, limit: 1 });
    let place = Some(Place { id: copies[0].lease(), patience: secs(6) });
    assert!(matches!(holder.queue(&x, 1, 1).await, Acquired::Granted { .. }));
    for copy in &copies {
        assert!(matches!(copy.ask(&x, secs(30), share, place).await, Acquired::Queued { .. }));
    }
    holder.release(&x, 0).await;
    assert!(matches!(copies[1].ask(&x, secs(30), share, place).await, Acquired::Granted { .. }));
    assert!(matches!(copies[0].ask(&x, secs(30), share, place).await, Acquired::Queued { .. }));
}

fn pool_name(text: &str) -> LockName {
    semaphore_name(&name(text)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_dead_process_expire() {
    let world = World::with(LockOptions::new().lease(secs(10)));
    let other = world.another_process();
    let (here, there) = (world.locks.semaphore("x", 2).unwrap(), other.semaphore("x", 2).unwrap());
    let lost = [here.acquire().await.unwrap(), here.acquire().await.unwrap()];
    world.faulty.always_all(Fault::FailBefore(BackendErrorKind::Unavailable));
    let begun = world.now();
    let waiting = [tokio::spawn(there.acquire()), tokio::spawn(there.acquire())];
    for task in waiting {
        drop(task.await.unwrap().unwrap());
    }
    assert!(world.now() - begun <= secs(11), "{:?}", world.now() - begun);
    for permit in lost {
        assert_eq!(permit.lost().await, LostReason::Expired);
    }
}

#[tokio::test(start_paused = true)]
async fn process_that_waits_sends_one_batch_in_a_third_of_a_patience() {
    let world = World::new();
    let pool = world.locks.semaphore("x", 2).unwrap();
    let held = world.another_process().semaphore("x", 2).unwrap().acquire_many(2).await.unwrap();
    let order = Arc::default();
    let waiting: Vec<_> = (0..30).map(|n| wait(&pool, n, &order)).collect();
    sleep(secs(4)).await;
    let before = world.faulty.calls(Op::Acquire);
    sleep(secs(60)).await;
    // 30 patiences' thirds, in each of which the 16 waiters in the store ask at one time.
    assert_eq!(world.faulty.calls(Op::Acquire) - before, 30 * 16);
    assert_eq!(pool.inspect().await.unwrap().waiters.len(), 16);
    assert_eq!(pool.inspect().await.unwrap().local_waiters, 30);
    drop((held, waiting));
}

#[tokio::test(start_paused = true)]
async fn impossible_requests_are_refused_at_once() {
    let world = World::new();
    for limit in [0, (1 << 30) + 1] {
        let error = world.locks.semaphore("x", limit).unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
        assert_eq!(world.locks.check_limit(limit).unwrap_err().kind(), LockErrorKind::InvalidOptions);
    }
    let pool = world.locks.semaphore("x", 3).unwrap();
    for weight in [0, 4] {
        let error = pool.acquire_many(weight).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
        assert!(format!("{error:#}").contains("1 to 3"), "{error:#}");
        assert!(pool.try_acquire_many(weight).await.is_err());
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
}

#[tokio::test(start_paused = true)]
async fn lower_limit_waits_for_the_higher_one() {
    let world = World::new();
    let (five, three) = (world.locks.semaphore("x", 5).unwrap(), world.locks.semaphore("x", 3).unwrap());
    let held = [five.acquire_many(4).await.unwrap(), five.acquire().await.unwrap()];
    let waiting = tokio::spawn(three.acquire());
    world.settle().await;
    let [four, one] = held;
    one.release().await.unwrap();
    world.settle().await;
    assert!(!waiting.is_finished(), "four of three are held");
    four.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn forced_release_ends_one_permit() {
    let world = World::new();
    let pool = world.locks.semaphore("x", 2).unwrap();
    let (one, two) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let lease = one.hold().lease_id().to_string();
    let outcome = pool.force_release(&lease).await.unwrap();
    assert_eq!(outcome, ForceReleaseOutcome::Released { lease: lease.clone() });
    assert_eq!(one.lost().await, LostReason::Gone);
    assert!(two.is_held());
    assert_eq!(pool.force_release(&lease).await.unwrap(), ForceReleaseOutcome::HolderChanged);
    assert_eq!(pool.inspect().await.unwrap().used, 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_permits_and_waits() {
    let world = World::new();
    let pool = world.locks.semaphore("x", 1).unwrap();
    let held = pool.acquire().await.unwrap();
    let waiting: Vec<_> = (0..20).map(|_| tokio::spawn(pool.acquire())).collect();
    world.settle().await;
    assert!(world.locks.shutdown().await.is_clean());
    assert_eq!(held.lost().await, LostReason::ShutDown);
    for task in waiting {
        assert_eq!(task.await.unwrap().unwrap_err().kind(), LockErrorKind::ShutDown);
    }
    let other = world.another_process();
    assert!(other.semaphore("x", 1).unwrap().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn failing_store_is_reported_to_every_waiter() {
    let world = World::with(LockOptions::new().outage_budget(secs(5)));
    let pool = world.locks.semaphore("x", 1).unwrap();
    world.faulty.always_all(Fault::FailBefore(BackendErrorKind::Unavailable));
    let waiting: Vec<_> = (0..40).map(|_| tokio::spawn(pool.acquire())).collect();
    let begun = world.now();
    for task in waiting {
        assert_eq!(task.await.unwrap().unwrap_err().kind(), LockErrorKind::Unavailable);
    }
    assert!(
        world.now() - begun < secs(8),
        "{:?}: also those without a place in the store",
        world.now() - begun
    );
}

/// The first request of the first waiter fails, so that the second waiter is first in the store's queue.
#[tokio::test(start_paused = true)]
async fn wake_up_reaches_the_first_waiter_of_the_store() {
    let world = World::new();
    let (pool, other) = (world.locks.semaphore("x", 1).unwrap(), world.another_process());
    let held = other.semaphore("x", 1).unwrap().acquire().await.unwrap();
    world.faulty.next(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    let waiting = [tokio::spawn(pool.acquire()), tokio::spawn(pool.acquire())];
    sleep(secs(1)).await;
    assert_eq!(pool.inspect().await.unwrap().waiters.len(), 2);
    let released = world.now();
    held.release().await.unwrap();
    all_served(waiting).await;
    assert!(world.now() - released < millis(100), "{:?}", world.now() - released);
}

/// Waits until all are granted, each of which is released at once.
async fn all_served(waiting: impl IntoIterator<Item = JoinHandle<Result<Permit, LockError>>>) {
    let serve = async |waiting: JoinHandle<Result<Permit, LockError>>| {
        waiting.await.unwrap().unwrap().release().await
    };
    let served: Vec<_> = waiting.into_iter().map(|waiting| tokio::spawn(serve(waiting))).collect();
    for served in served {
        served.await.unwrap().unwrap();
    }
}

/// Places in the store end with the outage. All waiters then queue again, in the order in which their requests succeed.
#[tokio::test(start_paused = true)]
async fn outage_does_not_delay_later_hand_overs() {
    let world = World::with(LockOptions::new().outage_budget(secs(60)));
    let (pool, other) = (world.locks.semaphore("x", 1).unwrap(), world.another_process());
    let held = other.semaphore("x", 1).unwrap().acquire().await.unwrap();
    let waiting: Vec<_> = (0..12).map(|_| tokio::spawn(pool.acquire())).collect();
    world.settle().await;
    world.faulty.always(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    sleep(secs(9)).await;
    world.faulty.heal();
    sleep(secs(6)).await;
    assert_eq!(pool.inspect().await.unwrap().waiters.len(), 12);
    let released = world.now();
    held.release().await.unwrap();
    all_served(waiting).await;
    assert!(world.now() - released < secs(1), "{:?}", world.now() - released);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_limited() {
    let world = World::new();
    let limits = lock_core::Limits::new().waiters_per_name(20);
    let locks =
        LockFactory::builder(world.store.clone()).clock(world.clock.clone()).limits(limits).build().unwrap();
    let pool = locks.semaphore("x", 1).unwrap();
    let held = pool.acquire().await.unwrap();
    let waiting: Vec<_> = (0..20).map(|_| tokio::spawn(pool.acquire())).collect();
    world.settle().await;
    assert_eq!(pool.acquire().await.unwrap_err().kind(), LockErrorKind::TooManyWaiters);
    drop((held, waiting));
}

/// Acquires and releases at random, and checks at each grant that the limit holds.
async fn storm(locks: LockFactory, seed: u64, used: Arc<AtomicU64>, limit: u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let pool = locks.semaphore("storm", limit).unwrap();
    for _ in 0..30 {
        let weight = random.u32(1..=limit);
        let acquired = match random.u32(0..4) {
            0 => pool.try_acquire_many(weight).await.ok().flatten(),
            1 => pool.acquire_many_timeout(weight, millis(random.u64(1..5_000))).await.ok(),
            _ => {
                // Cancelled at any point.
                let patience = millis(random.u64(1..20_000));
                tokio::time::timeout(patience, pool.acquire_many(weight)).await.ok().and_then(Result::ok)
            }
        };
        let Some(permit) = acquired else { continue };
        let now = used.fetch_add(weight.into(), Ordering::SeqCst) + u64::from(weight);
        assert!(now <= limit.into(), "seed {seed}: {now} of {limit}");
        let work = millis(random.u64(0..2_000));
        tokio::select! { _ = permit.lost() => {}, () = sleep(work) => {} }
        used.fetch_sub(weight.into(), Ordering::SeqCst);
        if random.bool() {
            drop(permit);
        } else {
            let _ = permit.release().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn limit_survives_lost_replies_and_no_permit_is_lost() {
    for seed in 0..20 {
        let world = World::with(LockOptions::new().lease(secs(10)).operation_timeout(secs(1)));
        world.faulty.random(seed, 0.2);
        let used = Arc::new(AtomicU64::new(0));
        let other = world.another_process();
        let tasks = (0..8).map(|task| {
            let locks = if task % 3 == 0 { &other } else { &world.locks };
            tokio::spawn(storm(locks.clone(), seed * 100 + task, used.clone(), 5))
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        world.faulty.heal();
        let begun = world.now();
        let all = other.semaphore("storm", 5).unwrap().acquire_many(5).await.unwrap();
        assert!(
            world.now() - begun < secs(20),
            "seed {seed}: a permit was lost for {:?}",
            world.now() - begun
        );
        all.release().await.unwrap();
        sleep(Duration::from_secs(20)).await;
        assert_eq!(world.store.watched(), 0);
        assert_eq!(world.locks.active_locks(), 0, "seed {seed}");
    }
}
