//! Exclusion, over real threads.

use crate::support::{HANGS, World, secs};
use lock_core::{FencingToken, LockErrorKind, LockFactory, MemoryBackend};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A counter that loses increments without exclusion: read, let others run, write.
#[derive(Default)]
struct Unguarded(AtomicU64);

impl Unguarded {
    async fn increment(&self) {
        let read = self.0.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.0.store(read + 1, Ordering::Relaxed);
    }
}

const TASKS: u64 = 256;
const SECTIONS: u64 = 20_000;

/// Runs `SECTIONS` sections over `factories` in `TASKS` tasks. Returns the final count, and the tokens in the order
/// of the sections.
async fn sections(factories: Vec<LockFactory>) -> (u64, Vec<u64>) {
    let counter = Arc::new(Unguarded::default());
    let tokens = Arc::new(std::sync::Mutex::new(Vec::new()));
    let left = Arc::new(AtomicU64::new(SECTIONS));
    let tasks = (0..TASKS).map(|task| {
        let locks = &factories[usize::try_from(task).unwrap() % factories.len()];
        let lock = locks.named("counter").unwrap();
        let (counter, tokens, left) = (counter.clone(), tokens.clone(), left.clone());
        tokio::spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                let guard = lock.acquire().await.unwrap();
                counter.increment().await;
                tokens.lock().unwrap().push(guard.fencing_token().get());
                match guard.fencing_token().get() % 2 {
                    0 => drop(guard),
                    _ => drop(guard.release().await.unwrap()),
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let tokens = std::mem::take(&mut *tokens.lock().unwrap());
    (counter.0.load(Ordering::Relaxed), tokens)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_lock_the_counter_loses_increments() {
    let counter = Arc::new(Unguarded::default());
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let counter = counter.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    counter.increment().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(counter.0.load(Ordering::Relaxed) < 6_400, "the counter-test can fail");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_of_one_process_lose_nothing() {
    let locks = LockFactory::new(MemoryBackend::new());
    let (counted, tokens) = sections(vec![locks.clone()]).await;
    assert_eq!(counted, SECTIONS);
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens rise strictly");
    assert!(locks.shutdown().await.is_clean());
    assert_eq!(locks.active_locks(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_factories_of_one_process_exclude_one_another() {
    let store = MemoryBackend::new();
    let factories = vec![LockFactory::new(store.clone()), LockFactory::new(store.clone())];
    let (counted, tokens) = sections(factories.clone()).await;
    assert_eq!(counted, SECTIONS);
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens rise strictly");
    for locks in factories {
        assert!(locks.shutdown().await.is_clean());
    }
    assert!(store.held().is_empty());
    assert_eq!(store.watched(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_names_do_not_wait_for_one_another() {
    let locks = LockFactory::new(MemoryBackend::new());
    let _a = locks.named("a").unwrap().acquire().await.unwrap();
    let b = locks.named("b").unwrap().acquire_timeout(HANGS).await;
    assert!(b.is_ok());
}

#[test]
fn handles_are_send_and_sync() {
    fn send_sync<T: Send + Sync + 'static>() {}
    fn send<T: Send + 'static>(_: &T) {}
    send_sync::<lock_core::LockGuard>();
    send_sync::<lock_core::Hold>();
    send_sync::<lock_core::Lock>();
    send_sync::<LockFactory>();
    send_sync::<lock_core::Owner>();
    send_sync::<lock_core::future::AcquireFuture>();
    send_sync::<lock_core::LockError>();
    let lock = LockFactory::new(MemoryBackend::new()).named("x").unwrap();
    send(&lock.acquire());
    send(&lock.try_acquire());
}

#[tokio::test(start_paused = true)]
async fn floors_never_repeat_a_token() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let above = |floor| lock.with_options(lock.options().token_floor(FencingToken::new(floor)));
    for floor in [u64::MAX, u64::MAX - 1, 1 << 53, (1 << 53) - 1] {
        let error = above(floor).unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidOptions, "{floor}");
        assert!(format!("{error:#}").contains("use a floor below"), "{error:#}");
    }
    let mut last = FencingToken::new(8_000_000_000_000_000);
    let mut high = above(last.get()).unwrap();
    for _ in 0..3 {
        let guard = high.acquire().await.unwrap();
        assert!(guard.fencing_token() > last, "{} after {last}", guard.fencing_token());
        last = guard.fencing_token();
        guard.release().await.unwrap();
        high = lock.clone();
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_keep_rising_after_a_floor_when_the_counter_is_forgotten() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    // Continues a sequence of another store whose clock was an hour ahead.
    let now = lock.acquire().await.unwrap().fencing_token().get();
    let floor = FencingToken::new(now + 3_600_000_000);
    let first = lock.with_options(lock.options().token_floor(floor)).unwrap().acquire().await.unwrap();
    let first_token = first.fencing_token();
    first.release().await.unwrap();
    tokio::time::advance(secs(62)).await;
    let second = lock.acquire().await.unwrap();
    assert!(second.fencing_token() > first_token, "{} after {first_token}", second.fencing_token());
}
