//! The prefix of a factory: stored before each name, and shown nowhere else.

use crate::support::{millis, name, secs};
use lock_core::{
    LockErrorKind, LockFactory, LockName, LostReason, MemoryBackend, NameError, Store,
    clock::TestClock,
    inspect::ForceReleaseOutcome,
    observer::{LockEvent, LockObserver},
};
use lock_testkit::{FaultyBackend, Op, Seed};
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex},
};

/// The names of all events.
#[derive(Debug, Clone, Default)]
struct Names(Arc<Mutex<Vec<String>>>);

impl LockObserver for Names {
    fn on_event(&self, event: &LockEvent<'_>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

fn with_prefix(store: impl Into<Store>, prefix: &str) -> LockFactory {
    LockFactory::builder(store).prefix(prefix).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_operation_has_the_stored_name() {
    for pipelined in [false, true] {
        let clock = Arc::new(TestClock::new());
        let store = MemoryBackend::with_clock(clock.clone());
        let faulty = FaultyBackend::new(store.clone());
        let seen = Names::default();
        let tested = if pipelined { faulty.pipelined() } else { faulty.clone().into() };
        let builder = LockFactory::builder(tested).clock(clock.clone()).observer(seen.clone());
        let locks = builder.prefix("shop").build().unwrap();
        let plain = LockFactory::builder(store.clone()).clock(clock).build().unwrap();

        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        assert_eq!(guard.name().as_str(), "x");
        assert_eq!(store.held(), [name("shop:x")]);
        assert!(plain.named("shop:x").unwrap().try_acquire().await.unwrap().is_none());
        assert!(plain.named("x").unwrap().try_acquire().await.unwrap().is_some());
        let inspected = locks.inspect("x").await.unwrap();
        assert!(inspected.stored.is_some() && inspected.local.is_some());
        guard.release().await.unwrap();

        // A waiter is woken by the release.
        let held = plain.named("shop:x").unwrap().acquire().await.unwrap();
        let waiter = tokio::spawn(locks.named("x").unwrap().acquire());
        tokio::time::sleep(millis(5)).await;
        assert_eq!(store.watched(), 1, "subscribed");
        let released = tokio::time::Instant::now();
        held.release().await.unwrap();
        let guard = waiter.await.unwrap().unwrap();
        assert!(released.elapsed() < millis(1), "long before it would ask by itself");
        let renewed = faulty.calls(Op::Renew);
        tokio::time::sleep(secs(60)).await;
        assert!(guard.is_held() && faulty.calls(Op::Renew) > renewed, "renewed under its stored name");

        let forced = locks.force_release("x").await.unwrap();
        assert!(matches!(forced, ForceReleaseOutcome::Released { .. }), "{forced:?}");
        assert_eq!(guard.lost().await, LostReason::Gone);
        drop(guard);
        assert!(locks.shutdown().await.is_clean());
        assert!(store.held().is_empty());
        assert_eq!(store.watched(), 0);
        let events = seen.0.lock().unwrap();
        assert!(events.iter().any(|event| event.contains("\"x\"")), "{events:?}");
        assert!(!events.iter().any(|event| event.contains("shop")), "{events:?}");
    }
}

#[tokio::test]
async fn ten_thousand_pairs_of_prefixes_never_collide() {
    const CHARS: &[u8] = b"ab-_.:{}distlockredisson9Z";
    let mut seed = Seed::new(0x0009_EF1C).stream();
    let mut text = |most: u64| -> String {
        let length = 1 + seed.below(most);
        (0..length)
            .map(|_| char::from(CHARS[usize::try_from(seed.below(CHARS.len() as u64)).unwrap()]))
            .collect()
    };
    let store = MemoryBackend::new();
    let mut stored: HashMap<LockName, (String, LockName)> = HashMap::new();
    let mut pairs = 0;
    while pairs < 10_000 {
        let (prefix, name) = (text(3), text(4));
        let (Ok(locks), Ok(name)) =
            (LockFactory::builder(store.clone()).prefix(&*prefix).build(), LockName::new(name))
        else {
            continue;
        };
        let guard = locks.named(&name).unwrap().acquire().await.unwrap();
        let [held] = &store.held()[..] else { panic!("one lock is held") };
        let this = (prefix, name);
        let before = stored.insert(held.clone(), this.clone());
        assert!(before.as_ref().is_none_or(|before| *before == this), "{before:?} and {this:?} are {held:?}");
        guard.release().await.unwrap();
        pairs += 1;
    }
    assert!(stored.len() > 3_000, "{} different pairs", stored.len());
}

#[tokio::test]
async fn prefix_counts_towards_the_longest_name() {
    let locks = with_prefix(MemoryBackend::new(), "shop");
    let fits = "x".repeat(LockName::MAX_BYTES - 5);
    let guard = locks.named(&fits).unwrap().acquire().await.unwrap();
    guard.release().await.unwrap();

    let long = LockName::new(format!("{fits}x")).unwrap();
    let template = locks.named("x").unwrap();
    for error in [
        locks.named(&long).unwrap_err(),
        template.with_name(long.clone()).acquire().await.unwrap_err(),
        template.with_name(long.clone()).try_acquire().await.unwrap_err(),
        locks.inspect(&long).await.unwrap_err(),
        locks.force_release(&long).await.unwrap_err(),
        locks.all([&long]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), LockErrorKind::InvalidName);
        assert_eq!(error.name(), Some(&long));
        let source = error.source().unwrap().downcast_ref();
        assert_eq!(source, Some(&NameError::TooLong { bytes: LockName::MAX_BYTES + 1 }));
    }
}

#[test]
fn bad_prefixes_are_refused_with_a_remedy() {
    for prefix in ["", "a:b", "a b", "ä", "distlock", "redisson_x", &"x".repeat(65)] {
        let error = LockFactory::builder(MemoryBackend::new()).prefix(prefix).build().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidOptions, "{prefix}");
        assert!(format!("{error:#}").contains("use 1 to 64 ASCII letters"), "{error:#}");
    }
}
