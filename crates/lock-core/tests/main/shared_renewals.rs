//! Holds that were acquired at different times are renewed in common calls.

use crate::support::{World, millis, name, secs};
use lock_core::{
    LockFactory, LockGuard, LockOptions,
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::Op;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

const HOLDS: usize = 100;
/// A third of the default lease of the factory.
const LEASE: Duration = secs(10);

#[derive(Debug, Clone, Default)]
struct Renewals(Arc<AtomicUsize>);

impl LockObserver for Renewals {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Renewal { .. } = &event.kind {
            self.0.fetch_add(1, SeqCst);
        }
    }
}

/// Acquires the locks over one period of renewal, so that each is due at another time.
async fn acquired_apart(world: &World, renewals: &Renewals) -> Vec<LockGuard> {
    let factory = LockFactory::builder(world.faulty.clone()).clock(world.clock.clone());
    let factory = factory.observer(renewals.clone()).build().unwrap();
    let mut guards = Vec::new();
    for number in 0..HOLDS {
        let lock = factory.named(name(&format!("x{number}"))).unwrap();
        let lock = lock.with_options(LockOptions::new().lease(LEASE)).unwrap();
        guards.push(lock.acquire().await.unwrap());
        tokio::time::sleep(millis(35)).await;
    }
    guards
}

/// Returns the shortest time for which one of the holds was valid during this time.
async fn shortest_remaining(guards: &[LockGuard], during: Duration) -> Duration {
    let begun = tokio::time::Instant::now();
    let mut shortest = LEASE;
    while begun.elapsed() < during {
        tokio::time::sleep(millis(5)).await;
        shortest = guards.iter().map(LockGuard::remaining).min().unwrap().min(shortest);
    }
    shortest
}

#[tokio::test(start_paused = true)]
async fn holds_acquired_separately_are_renewed_together_and_never_late() {
    let (world, renewals) = (World::new(), Renewals::default());
    let guards = acquired_apart(&world, &renewals).await;
    let margin = LEASE / 100 + millis(2);
    // Timers are a millisecond late.
    let by_a_third = LEASE - LEASE / 3 - margin - millis(2);
    let shortest = shortest_remaining(&guards, 2 * LEASE / 3).await;
    assert!(shortest >= by_a_third, "{shortest:?} while they come together");

    let before = (world.faulty.calls(Op::Renew), renewals.0.load(SeqCst));
    let shortest = shortest_remaining(&guards, 3 * LEASE).await;
    assert!(shortest >= by_a_third, "{shortest:?} afterwards");
    let (calls, renewed) = (world.faulty.calls(Op::Renew) - before.0, renewals.0.load(SeqCst) - before.1);
    assert!(calls <= 10 * 4, "{calls} calls for {renewed} renewals: at most 4 in a period");
    assert!((8 * HOLDS..=10 * HOLDS).contains(&renewed), "{renewed} renewals: no more than before");
}
