//! The driver over the in-memory backend, on one thread.

use divan::{Bencher, counter::ItemsCount};
use lock_core::{Lock, LockFactory, MemoryBackend};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

/// Acquires and releases a free lock.
#[divan::bench]
fn uncontended_cycle(bencher: Bencher<'_, '_>) {
    let (runtime, locks) = world();
    let lock = named(&locks, "stock:42");
    bencher.bench_local(|| runtime.block_on(cycle(&lock)));
}

/// Acquires and releases a new name in each cycle.
#[divan::bench]
fn cycle_on_a_new_name(bencher: Bencher<'_, '_>) {
    let (runtime, locks) = world();
    let mut names = 0_u64..;
    let fresh = || named(&locks, &format!("order:{}", names.next().unwrap_or_default()));
    bencher.with_inputs(fresh).bench_local_values(|lock| runtime.block_on(cycle(&lock)));
}

/// Tries a lock that another task holds.
#[divan::bench]
fn try_of_a_held_lock(bencher: Bencher<'_, '_>) {
    let (runtime, locks) = world();
    let lock = named(&locks, "stock:42");
    let _held = runtime.block_on(lock.acquire()).expect("acquired");
    bencher.bench_local(|| runtime.block_on(lock.try_acquire()).is_ok_and(|guard| guard.is_none()));
}

/// Lets tasks compete for one lock; each acquires it 64 times.
#[divan::bench(args = [2, 16, 128], sample_count = 20)]
fn contended_cycles(bencher: Bencher<'_, '_>, tasks: usize) {
    const EACH: usize = 64;
    let (runtime, locks) = world();
    let lock = named(&locks, "stock:42");
    bencher.counter(ItemsCount::new(tasks * EACH)).bench_local(|| {
        runtime.block_on(async {
            let mut running = JoinSet::new();
            for _ in 0..tasks {
                let lock = lock.clone();
                running.spawn(async move {
                    for _ in 0..EACH {
                        cycle(&lock).await;
                    }
                });
            }
            running.join_all().await;
        });
    });
}

async fn cycle(lock: &Lock) {
    let guard = lock.acquire().await.expect("acquired");
    guard.release().await.expect("released");
}

fn world() -> (Runtime, LockFactory) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    (runtime, LockFactory::new(MemoryBackend::new()))
}

fn named(locks: &LockFactory, name: &str) -> Lock {
    locks.named(name).expect("the name is valid")
}
