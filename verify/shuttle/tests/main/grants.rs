//! A grant to a future that is being dropped or moved to another task.

use crate::{
    explore::explore,
    world::{NAME, Pace, World, acquire},
};
use lock_testkit::planted::PlantedBug;
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

#[test]
fn grant_to_a_dropped_future_goes_to_the_next() {
    fn story(pace: Pace) {
        let world = World::new(pace);
        let first = world.runtime.block_on(world.acquire());
        let fickle = world.thread(|locks| async move {
            let mut waits = pin!(locks.named(NAME).unwrap().acquire());
            for _ in 0..2 {
                if let Poll::Ready(guard) = waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    return drop(guard.unwrap());
                }
                shuttle::thread::yield_now();
            }
        });
        let steady = world.thread(|locks| async move { drop(acquire(&locks).await) });
        let _ = world.runtime.block_on(first.release()).unwrap();
        fickle.join().unwrap();
        steady.join().unwrap();
        world.ends_well();
    }
    explore(|| story(Pace::AtOnce), &[PlantedBug::ForgetsGrant]);
    explore(|| story(Pace::Later), &[PlantedBug::ForgetsGrant]);
}

#[test]
fn grant_wakes_the_task_that_polled_last() {
    fn story(pace: Pace) {
        let world = World::new(pace);
        let first = world.runtime.block_on(world.acquire());
        let moved = world.thread(|locks| async move {
            let mut waits = Box::pin(locks.named(NAME).unwrap().acquire());
            match waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(guard) => drop(guard.unwrap()),
                Poll::Pending => drop(waits.await.unwrap()),
            }
        });
        drop(first);
        moved.join().unwrap();
        world.ends_well();
    }
    explore(|| story(Pace::AtOnce), &[PlantedBug::RegistersWakerLate]);
    explore(|| story(Pace::Later), &[PlantedBug::RegistersWakerLate]);
}
