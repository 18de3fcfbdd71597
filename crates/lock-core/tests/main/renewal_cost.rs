//! The cost of renewals, counted in readings of the clock.

use crate::support::{World, millis, name, secs};
use lock_core::{
    LockFactory,
    backend::BackendErrorKind,
    clock::{Clock, Moment, TestClock, UtcTime},
};
use lock_testkit::{Fault, Op};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts its readings: each event of a lock takes one.
#[derive(Debug)]
struct Counting(Arc<TestClock>, AtomicU64);

impl Clock for Counting {
    fn now(&self) -> Moment {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.now()
    }

    fn wall(&self) -> UtcTime {
        self.0.wall()
    }
}

/// Returns the readings for this many locks, in 15 seconds of failing renewals.
async fn readings_in_an_outage(locks: u64) -> u64 {
    let world = World::new();
    let clock = Arc::new(Counting(world.clock.clone(), AtomicU64::new(0)));
    let factory = LockFactory::builder(world.faulty.clone()).clock(clock.clone()).build().unwrap();
    let mut guards = Vec::new();
    for number in 0..locks {
        guards.push(factory.named(name(&format!("x{number}"))).unwrap().acquire().await.unwrap());
    }
    world.faulty.always(Op::Renew, Fault::FailBefore(BackendErrorKind::Unavailable));
    tokio::time::sleep(millis(9_900)).await;
    let before = clock.1.load(Ordering::Relaxed);
    tokio::time::sleep(secs(15)).await;
    clock.1.load(Ordering::Relaxed) - before
}

#[tokio::test(start_paused = true)]
async fn cost_of_failing_renewals_grows_no_faster_than_the_locks() {
    let (few, many) = (readings_in_an_outage(100).await, readings_in_an_outage(800).await);
    assert!(many < 8 * few, "{few} readings for 100 locks, {many} for 800");
}
