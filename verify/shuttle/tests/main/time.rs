//! The timekeeper: only time wakes it, and nothing stops it.

use crate::{
    explore::{explore, explore_some},
    world::{NAME, Pace, Store, World, acquire},
};
use lock_explored::{
    LockFactory, LockOptions,
    clock::{Clock, Moment, UtcTime},
    explored::{ExploredClock, Runtime, advance, next_timer},
};
use lock_testkit::planted::PlantedBug;
use shuttle::thread;
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

/// Counts the timekeeper's turns: only the timekeeper reads the wall clock, once per turn.
#[derive(Debug, Default)]
struct Turns(AtomicUsize);

impl Turns {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for Turns {
    fn now(&self) -> Moment {
        ExploredClock.now()
    }

    fn wall(&self) -> UtcTime {
        self.0.fetch_add(1, Ordering::SeqCst);
        ExploredClock.wall()
    }
}

#[test]
fn no_use_of_a_lock_wakes_the_timekeeper() {
    fn story() {
        let (store, turns) = (Store::new(Pace::AtOnce), Arc::new(Turns::default()));
        let locks = LockFactory::builder(Arc::new(store.clone())).clock(turns.clone()).build().unwrap();
        let runtime = Runtime::new(1);
        runtime.block_on(async {
            let lock = locks.named(NAME).unwrap();
            let guard = lock.acquire().await.unwrap();
            // Its first turns, before any lock is used.
            while turns.count() < 2 {
                thread::yield_now();
            }
            let before = turns.count();
            assert!(guard.is_held());
            guard.release().await.unwrap();
            drop(lock.acquire().await.unwrap());
            let quick = lock.with_fixed_lease(Duration::from_millis(100)).unwrap();
            drop(quick.acquire().await.unwrap());
            (0..50).for_each(|_| thread::yield_now());
            assert_eq!(turns.count(), before, "a thread that blocks here would stop the timekeeper");
        });
        assert!(runtime.block_on(locks.shutdown()).is_clean());
        runtime.join();
    }
    explore(story, &[PlantedBug::CallersWakeTimekeeper]);
}

struct Panics;
impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as planned");
    }
}

#[test]
fn panicking_waker_does_not_stop_the_timekeeper() {
    fn story() {
        let world = World::new(Pace::AtOnce);
        let options = LockOptions::new().lease(Duration::from_millis(300));
        world.runtime.block_on(async {
            let kept =
                world.locks.named("y").unwrap().with_options(options).unwrap().acquire().await.unwrap();
            let held = acquire(&world.locks).await;
            let mut waits =
                pin!(world.locks.named(NAME).unwrap().acquire_timeout(Duration::from_millis(100)));
            let waker = Waker::from(Arc::new(Panics));
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            // Within a few turns of the timekeeper, the wait ends and then the renewal is due.
            for _ in 0..200 {
                if let Some(next) = next_timer().filter(|next| *next < Duration::from_millis(90)) {
                    advance(next);
                } else {
                    advance(Duration::from_millis(1));
                }
                (0..20).for_each(|_| thread::yield_now());
                if world.store.renewals.load(Ordering::SeqCst) > 1 {
                    break;
                }
            }
            assert!(world.store.renewals.load(Ordering::SeqCst) > 0, "the hold is renewed");
            assert!(kept.is_held());
            drop((kept, held));
        });
        world.ends_well();
    }
    explore_some(10, story, &[PlantedBug::WakerPanicEndsWorker]);
}
