//! A guard that is dropped while the keeper processes its entry or falls asleep.

use crate::{
    explore::explore,
    world::{Pace, World, acquire},
};
use lock_testkit::planted::PlantedBug;

#[test]
fn dropped_guard_is_released_in_every_schedule() {
    fn story(pace: Pace) {
        let world = World::new(pace);
        let first = world.runtime.block_on(world.acquire());
        let others = [(); 2].map(|()| world.thread(|locks| async move { drop(acquire(&locks).await) }));
        drop(first);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        world.ends_well();
    }
    explore(|| story(Pace::AtOnce), &[PlantedBug::NotifiesBeforeQueueing, PlantedBug::ClearsQueuedMarkLate]);
    explore(|| story(Pace::Later), &[PlantedBug::NotifiesBeforeQueueing]);
}
