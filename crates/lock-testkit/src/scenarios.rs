//! Whole scenarios that a lock must survive: a blocked runtime thread, and tasks that contend for overlapping sets.

use crate::seed::{Seed, Stream};
use lock_core::{FencingToken, Lock, LockFactory, LockName};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Builder;

const TASKS: usize = 32;
const NAMES: usize = 8;
/// The time after which a waiting set counts as deadlocked. An acquisition normally takes
/// milliseconds.
const DEADLOCK: Duration = Duration::from_secs(60);

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
/// `connect` creates the factory inside the runtime, and `lease` is the duration of its leases. The
/// thread blocks for two and a half leases.
pub fn outlives_a_blocked_thread<F>(threads: usize, last: LastUse, lease: Duration, connect: F) -> bool
where
    F: Future<Output = LockFactory> + Send + 'static,
{
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("failed to build the runtime");
    let block = lease * 5 / 2;
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

/// A record of the held locks and the last token of each.
#[derive(Debug, Default)]
struct Referee {
    locks: Mutex<BTreeMap<LockName, (bool, Option<FencingToken>)>>,
}

impl Referee {
    fn enter(&self, name: &LockName, token: FencingToken) {
        let mut locks = self.locks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (is_held, last) = locks.entry(name.clone()).or_default();
        assert!(!*is_held, "two sets hold `{name}`");
        assert!(*last < Some(token), "`{name}`: token {token} was issued after {last:?}");
        (*is_held, *last) = (true, Some(token));
    }

    fn leave(&self, name: &LockName) {
        let mut locks = self.locks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        locks.entry(name.clone()).or_default().0 = false;
    }
}

/// Runs 32 tasks that acquire random sets of up to 4 of 8 names, in random order and with
/// duplicates, `acquisitions` times in total. The factories must share a store. Each factory is used
/// by some of the tasks.
///
/// # Panics
/// Panics if two sets hold one lock, a token does not increase, a set waits for a minute, or a lock
/// is no longer held when it is released.
pub async fn contend_for_sets(factories: &[LockFactory], acquisitions: u64, seed: Seed) {
    let (referee, left) = (Arc::new(Referee::default()), Arc::new(AtomicU64::new(acquisitions)));
    let mut seeds = seed.stream();
    let mut tasks = tokio::task::JoinSet::new();
    for locks in factories.iter().cycle().take(TASKS) {
        let (referee, left, random) = (referee.clone(), left.clone(), Seed::new(seeds.number()).stream());
        tasks.spawn(contend(locks.clone(), referee, left, random));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
}

async fn contend(locks: LockFactory, referee: Arc<Referee>, left: Arc<AtomicU64>, mut random: Stream) {
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let size = 1 + random.below(4);
        let names: Vec<_> = (0..size).map(|_| format!("set:{}", random.below(NAMES as u64))).collect();
        let set = locks.all(&names).expect("the names are valid");
        let acquired = tokio::time::timeout(DEADLOCK, set.acquire()).await;
        let guard =
            acquired.unwrap_or_else(|_| panic!("deadlock while acquiring {set:?}")).expect("acquire failed");
        for hold in guard.holds() {
            referee.enter(hold.name(), hold.fencing_token());
        }
        tokio::task::yield_now().await;
        guard.names().for_each(|name| referee.leave(name));
        if random.chance(0.2) {
            drop(guard);
            continue;
        }
        for (name, outcome) in guard.release().await {
            assert!(outcome.as_ref().is_ok_and(|how| how.was_held()), "`{name}`: {outcome:?}");
        }
    }
}
