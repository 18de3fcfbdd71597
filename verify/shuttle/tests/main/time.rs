//! The sleep of the keeper: an uncontended lock does not end it, an earlier time does, and nothing stops the keeper.

use crate::{
    explore::{explore, explore_some},
    world::{NAME, Pace, Store, World, acquire},
};
use lock_explored::{
    LockErrorKind, LockFactory, LockOptions,
    clock::{Clock, Moment, UtcTime},
    explored::{ExploredClock, Runtime, advance, next_timer},
};
use lock_testkit::planted::PlantedBug;
use shuttle::thread;
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Counts the keeper's turns: only the keeper reads the wall clock, once per turn.
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

fn let_others_run() {
    (0..100).for_each(|_| thread::yield_now());
}

#[test]
fn uncontended_lock_does_not_wake_the_keeper() {
    fn story() {
        let (store, turns) = (Store::new(Pace::AtOnce), Arc::new(Turns::default()));
        let locks = LockFactory::builder(Arc::new(store.clone())).clock(turns.clone()).build().unwrap();
        let runtime = Runtime::new(1);
        runtime.block_on(async {
            let lock = locks.named(NAME).unwrap();
            let guard = lock.acquire().await.unwrap();
            let_others_run();
            let before = turns.count();
            guard.release().await.unwrap();
            for _ in 0..3 {
                let guard = lock.acquire().await.unwrap();
                assert!(guard.is_held());
                guard.release().await.unwrap();
            }
            let_others_run();
            assert_eq!(turns.count(), before, "each cycle would cost a switch of threads");
        });
        assert!(runtime.block_on(locks.shutdown()).is_clean());
        runtime.join();
    }
    explore(story, &[PlantedBug::CallersWakeKeeper]);
}

/// The keeper falls asleep while another task begins to wait.
#[test]
fn wait_that_begins_as_the_keeper_falls_asleep_ends_in_time() {
    const WAIT: Duration = Duration::from_millis(100);
    fn story() {
        let world = World::new(Pace::AtOnce);
        let first = world.runtime.block_on(world.acquire());
        let_others_run();
        // The keeper looks at the clock every second while the lock is held.
        advance(Duration::from_secs(1));
        let step = Arc::new(AtomicUsize::new(0));
        let waits = world.thread({
            let step = step.clone();
            |locks| async move {
                let mut wait = Box::pin(locks.named(NAME).unwrap().acquire_timeout(WAIT));
                let first = poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx))).await;
                assert!(first.is_pending());
                step.store(1, Ordering::SeqCst);
                assert_eq!(wait.await.unwrap_err().kind(), LockErrorKind::Timeout);
                step.store(2, Ordering::SeqCst);
            }
        });
        while step.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        advance(WAIT);
        // Less than the second after which the keeper looks at the clock in any case.
        for _ in 0..30 {
            let_others_run();
            if step.load(Ordering::SeqCst) == 2 {
                break;
            }
            advance(Duration::from_millis(20));
        }
        assert_eq!(step.load(Ordering::SeqCst), 2, "it ends only at the keeper's next look at the clock");
        waits.join().unwrap();
        drop(first);
        world.ends_well();
    }
    explore(story, &[PlantedBug::EndsTurnLate]);
}

struct Panics;
impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as planned");
    }
}

#[test]
fn panicking_waker_does_not_stop_the_keeper() {
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
            // Within a few turns of the keeper, the wait ends and then the renewal is due.
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
