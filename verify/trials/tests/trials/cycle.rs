//! The cost of a topology for one undisturbed task.

use crate::stage::lock;
use lock_core::{LockFactory, LockOptions, Store};
use std::time::{Duration, Instant};

pub(crate) const CYCLES: usize = 2_000;

/// Returns the median time from the first poll of an acquire to the confirmed release.
pub(crate) async fn median(store: impl Into<Store>) -> Duration {
    let options = LockOptions::new().lease(Duration::from_secs(30));
    let locks = LockFactory::builder(store).options(options).build().unwrap();
    let lock = lock(&locks, "cycle");
    let mut times = Vec::new();
    for _ in 0..CYCLES {
        let begin = Instant::now();
        lock.acquire().await.unwrap().release().await.unwrap();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[CYCLES / 2]
}
