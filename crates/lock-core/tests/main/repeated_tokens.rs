//! In the documented residual case, a counter lost while the clock is behind, only the order of tokens may suffer: a
//! guard of a lost hold must not release another hold with the same token.

use lock_core::{LockFactory, LostReason, MemoryBackend, clock::TestClock};
use std::{sync::Arc, time::Duration};

#[tokio::test(start_paused = true)]
async fn old_guard_does_not_free_the_hold_of_another_owner() {
    let server = Arc::new(TestClock::new());
    let store = MemoryBackend::with_clock(server.clone());
    let clock = Arc::new(TestClock::new());
    let make = || LockFactory::builder(store.clone()).clock(clock.clone()).build().unwrap();
    let (locks, other) = (make(), make());
    let lock = locks.named("x").unwrap();
    let old = lock.acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.step_wall(-1_000_000); // exact to the microsecond; a plain Java counter repeats without any luck: it restarts at 1
    store.clear();
    assert_eq!(old.lost().await, LostReason::Gone);
    server.step_wall(-clock_micros(&server, &old));
    let new = lock.acquire().await.unwrap();
    assert_eq!(new.fencing_token(), old.fencing_token(), "the residual");
    assert!(new.is_held());
    drop(old); // the guard of a hold that was lost long ago
    tokio::time::sleep(Duration::from_millis(10)).await;
    let taken = other.named("x").unwrap().try_acquire().await.unwrap();
    assert!(new.is_held() && taken.is_none());
}

fn clock_micros(server: &TestClock, old: &lock_core::LockGuard) -> i64 {
    use lock_core::clock::Clock;
    // The next token of an empty counter is the clock + 1000.
    server.wall().as_micros() as i64 + 1000 - old.fencing_token().get() as i64
}
