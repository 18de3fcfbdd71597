//! Sets that overlap, in every order of their names.

use lock_core::{LockFactory, MemoryBackend};
use lock_testkit::{Seed, contend_for_sets};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_sets_exclude_one_another_without_a_deadlock() {
    let store = MemoryBackend::new();
    let factories = [(); 3].map(|()| LockFactory::new(store.clone()));
    contend_for_sets(&factories, 20_000, Seed::of_this_run()).await;
    for locks in factories {
        assert!(locks.shutdown().await.is_clean());
    }
    assert!(store.held().is_empty());
    assert_eq!(store.watched(), 0);
}
