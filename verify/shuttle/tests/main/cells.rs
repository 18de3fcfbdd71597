//! A name that is looked up while its entry is being removed.

use crate::{
    explore::explore,
    world::{Pace, World, acquire},
};
use lock_testkit::planted::PlantedBug;

#[test]
fn name_never_has_two_entries() {
    fn story(pace: Pace) {
        let world = World::new(pace);
        let threads = [(); 3].map(|()| {
            world.thread(|locks| async move {
                let guard = acquire(&locks).await;
                // A hold in an entry outside the table would be invisible.
                assert_eq!(locks.active_locks(), 1);
                let _ = guard.release().await.unwrap();
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        world.ends_well();
    }
    explore(|| story(Pace::AtOnce), &[PlantedBug::EntersRemovedEntry]);
    explore(|| story(Pace::Later), &[PlantedBug::EntersRemovedEntry]);
}
