//! Many names, many waiters, many failures: costs stay proportional.

use lock_core::{Limits, LockFactory, LockOptions, MemoryBackend, clock::TestClock};
use lock_testkit::{Fault, FaultyBackend, Op};
use rustix::time::{ClockId, clock_gettime};
use std::{sync::Arc, time::Duration};

#[tokio::test(start_paused = true)]
async fn tries_against_a_store_that_fails_do_not_pile_up() {
    let clock = Arc::new(TestClock::new());
    let store = FaultyBackend::new(MemoryBackend::with_clock(clock.clone()));
    let locks = LockFactory::builder(store.clone()).clock(clock.clone()).build().unwrap();
    store.always(Op::Acquire, Fault::LoseRequest);
    store.always(Op::Release, Fault::LoseRequest);
    let lock = locks.named("x").unwrap();
    for _ in 0..8_000 {
        lock.try_acquire().await.unwrap_err();
    }
    assert!(store.calls(Op::Acquire) < 100, "{} requests", store.calls(Op::Acquire));
    let before = store.calls(Op::Release);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let undone = store.calls(Op::Release) - before;
    assert!(undone < 300, "{undone} releases in ten seconds");
    store.heal();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(lock.try_acquire().await.unwrap().is_some());
}

/// Returns the CPU time of this thread, which excludes the load of other processes.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

async fn shutdown_of(names: u64) -> (Duration, usize) {
    let store = FaultyBackend::new(MemoryBackend::new());
    let locks = LockFactory::new(store.clone());
    let mut guards = Vec::new();
    for n in 0..names {
        guards.push(locks.named(format!("order:{n}")).unwrap().acquire().await.unwrap());
    }
    // Answers arrive one by one, as on a connection: spread over 500 ms.
    store.script(
        Op::Release,
        (0..names).map(|n| Fault::SlowAnswer(Duration::from_micros(500_000 * n / names))),
    );
    let begin = worked();
    let report = locks.shutdown().await;
    (worked() - begin, report.unconfirmed.len())
}

#[tokio::test]
async fn shutdown_time_is_proportional_to_its_releases() {
    let mut took = Vec::new();
    for names in [1_000, 40_000] {
        let (time, left) = shutdown_of(names).await;
        took.push((time, left));
    }
    assert!(took.iter().all(|(_, left)| *left == 0), "a healthy store, and locks are left behind");
    // Forty times the names. If each answer iterated over all of them, it would be 1,600 times the work.
    assert!(took[1].0 < took[0].0 * 240, "{took:?}");
}

async fn drain(n: usize, owned: bool) -> Duration {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..n {
        let lock = if owned { lock.with_owner(&locks.owner()).unwrap() } else { lock.clone() };
        tasks.push(tokio::spawn(async move { drop(lock.acquire().await.unwrap().release().await) }));
    }
    while locks.inspect("x").await.unwrap().waiters < n {
        tokio::task::yield_now().await;
    }
    let begin = worked();
    drop(guard);
    for task in tasks {
        task.await.unwrap();
    }
    worked() - begin
}

#[tokio::test]
async fn owned_waiters_cost_about_as_much_as_others() {
    let (plain, owned) = (drain(9_999, false).await, drain(9_999, true).await);
    let ratio = owned.as_secs_f64() / plain.as_secs_f64();
    assert!(ratio < 10.0, "{ratio} times");
}

/// The in-memory store completes each operation within its submission. If those completions were nested, a small stack would
/// overflow.
#[test]
fn immediate_replies_do_not_grow_the_stack() {
    let waiters = if std::env::var_os("LOCK_LONG").is_some() { 100_000 } else { 5_000 };
    let hand_through = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = LockOptions::new().hand_off(0, Duration::ZERO);
            let limits = Limits::new().waiters(waiters).waiters_per_name(waiters);
            let locks = LockFactory::builder(MemoryBackend::new()).options(options).limits(limits);
            let lock = locks.build().unwrap().named("x").unwrap();
            let first = lock.acquire().await.unwrap();
            let tasks: Vec<_> = (0..waiters)
                .map(|number| {
                    let acquire = lock.acquire();
                    tokio::spawn(async move {
                        let guard = acquire.await.unwrap();
                        // Half of them leave the release to the factory.
                        if number % 2 == 0 { drop(guard) } else { drop(guard.release().await) }
                    })
                })
                .collect();
            first.release().await.unwrap();
            for task in tasks {
                task.await.unwrap();
            }
        });
    };
    std::thread::Builder::new().stack_size(256 * 1_024).spawn(hand_through).unwrap().join().unwrap();
}
