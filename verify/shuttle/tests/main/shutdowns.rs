//! The last release while a shutdown waits for all activity to end.

use crate::{
    explore::explore,
    world::{NAME, Pace, World},
};
use lock_explored::LockErrorKind;
use lock_testkit::planted::PlantedBug;
use std::sync::atomic::Ordering;

#[test]
fn shutdown_during_the_last_release_leaves_nothing() {
    fn story(pace: Pace) {
        let world = World::new(pace);
        let (released, dropped) = world.runtime.block_on(async {
            let other = world.locks.named("y").unwrap().acquire().await.unwrap();
            (world.acquire().await, other)
        });
        let threads = [
            world.thread(|_| async move { drop(released.release().await) }),
            world.thread(|_| async move { drop(dropped) }),
        ];
        let report = world.runtime.block_on(world.locks.shutdown());
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(world.store.memory.held(), []);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        world.ends_well();
    }
    explore(|| story(Pace::AtOnce), &[PlantedBug::CountsInTwoSteps]);
    explore(|| story(Pace::Later), &[PlantedBug::CountsInTwoSteps]);
}

#[test]
fn shutdown_during_an_acquire_leaves_nothing() {
    fn story(pace: Pace) {
        let world = World::new(pace);
        let threads = [(); 2].map(|()| {
            world.thread(|locks| async move {
                match locks.named(NAME).unwrap().acquire().await {
                    Ok(guard) => drop(guard),
                    Err(error) => assert_eq!(error.kind(), LockErrorKind::ShutDown),
                }
            })
        });
        let report = world.runtime.block_on(world.locks.shutdown());
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(world.store.memory.held(), []);
        let asked = world.store.acquires.load(Ordering::SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(world.store.acquires.load(Ordering::SeqCst), asked, "no acquire after the shutdown");
        world.ends_well();
    }
    explore(|| story(Pace::AtOnce), &[PlantedBug::EntersUncounted]);
    explore(|| story(Pace::Later), &[PlantedBug::EntersUncounted]);
}
