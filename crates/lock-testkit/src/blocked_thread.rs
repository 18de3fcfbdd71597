//! A test in which a runtime thread blocks right after using a lock.

use lock_core::{Lock, LockFactory};
use std::time::Duration;
use tokio::runtime::Builder;

/// The last use of a lock before the thread blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastUse {
    /// A guard is dropped.
    Drop,
    /// A guard is released.
    Release,
    /// A lock is acquired and held while the thread blocks.
    Acquire,
    /// [`LockGuard::is_held`](lock_core::LockGuard::is_held) is called in a loop on a lock that is
    /// held while the thread blocks.
    IsHeld,
}

impl LastUse {
    /// Every variant.
    pub const ALL: [Self; 4] = [Self::Drop, Self::Release, Self::Acquire, Self::IsHeld];
}

/// Holds a lock in one task while another task repeatedly uses a second lock and then blocks its thread. Returns
/// `true` if the first lock was held throughout.
///
/// `connect` creates the factory inside the runtime, and `lease` is the duration of its leases. With
/// two or more threads, the thread blocks for two and a half leases. A single thread cannot renew
/// while it is blocked, so it blocks for a quarter of a lease and the watchdog must catch up.
pub fn outlives_a_blocked_thread<F>(threads: usize, last: LastUse, lease: Duration, connect: F) -> bool
where
    F: Future<Output = LockFactory> + Send + 'static,
{
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("failed to build the runtime");
    let block = if threads == 1 { lease / 4 } else { lease * 5 / 2 };
    let held = runtime.block_on(async {
        let locks = tokio::spawn(connect).await.expect("failed to create the factory");
        let kept = lock(&locks, "kept").acquire().await.expect("the lock is uncontended");
        for _ in 0..2 {
            let other = lock(&locks, "other");
            let careless = tokio::spawn(async move {
                let guard = other.acquire().await.expect("the lock is uncontended");
                let guard = match last {
                    LastUse::Drop => {
                        drop(guard);
                        None
                    }
                    LastUse::Release => {
                        let _ = guard.release().await;
                        None
                    }
                    LastUse::Acquire => Some(guard),
                    LastUse::IsHeld => {
                        assert!((0..1_000).all(|_| guard.is_held()));
                        Some(guard)
                    }
                };
                std::thread::sleep(block);
                drop(guard);
            });
            careless.await.expect("the blocking task does not panic");
        }
        let held = !kept.remaining().is_zero();
        drop(kept);
        held
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    held
}

fn lock(locks: &LockFactory, name: &str) -> Lock {
    locks.named(name).expect("a valid name")
}
