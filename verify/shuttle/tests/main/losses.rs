//! The loss of a hold, noticed without help from any other task.

use crate::{
    explore::explore,
    world::{NAME, Pace, World},
};
use lock_explored::{LostReason, explored::advance};
use lock_testkit::planted::PlantedBug;
use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

#[test]
fn polled_future_reports_the_loss_at_its_next_poll() {
    fn story() {
        let world = World::new(Pace::AtOnce);
        world.runtime.block_on(async {
            let lock = world.locks.named(NAME).unwrap().with_fixed_lease(Duration::from_secs(10)).unwrap();
            let guard = lock.acquire().await.unwrap();
            let mut lost = pin!(guard.lost());
            let first = poll_fn(|cx| Poll::Ready(lost.as_mut().poll(cx))).await;
            assert!(first.is_pending());
            // Since then, no other task has run.
            advance(Duration::from_secs(20));
            let second = poll_fn(|cx| Poll::Ready(lost.as_mut().poll(cx))).await;
            assert_eq!(second, Poll::Ready(LostReason::Expired));
        });
        world.ends_well();
    }
    explore(story, &[PlantedBug::LossNeedsWakeup]);
}
