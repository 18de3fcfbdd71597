//! Several locks at once, and prefixes, on Redis.

use super::support::{WakeUps, answered, assert_no_lock_is_left, factory, long, redis, until};
use lock_core::{LockErrorKind, LockFactory, LostReason, RunError, observer::WakeSource};
use lock_testkit::{RedisServer, Seed, contend_for_sets};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_sets_exclude_one_another_without_a_deadlock() {
    let server = RedisServer::start();
    let mut factories = Vec::new();
    for _ in 0..4 {
        factories.push(factory(&server.url(), LEASE).await);
    }
    let acquisitions = if long() { 20_000 } else { 2_000 };
    contend_for_sets(&factories, acquisitions, Seed::of_this_run()).await;
    for locks in factories {
        assert!(locks.shutdown().await.is_clean());
    }
    assert_no_lock_is_left(&server);
}

#[tokio::test]
async fn set_that_times_out_or_is_dropped_leaves_no_key() {
    let server = RedisServer::start();
    let (locks, other) = (factory(&server.url(), LEASE).await, factory(&server.url(), LEASE).await);
    for busy in ["a", "b", "c"] {
        let rival = other.named(busy).unwrap().acquire().await.unwrap();
        let set = locks.all(["c", "a", "b"]).unwrap();
        // If a wait is too short for the server to answer, it ends with `Unavailable`.
        until("a wait times out", async || {
            let error = set.acquire_timeout(Duration::from_millis(50)).await.unwrap_err();
            error.kind() == LockErrorKind::Timeout && error.name() == Some(rival.name())
        })
        .await;
        assert!(set.try_acquire().await.unwrap().is_none());
        assert!(tokio::time::timeout(Duration::from_millis(50), set.acquire()).await.is_err());
        rival.release().await.unwrap();
        let guard = answered("the set", set.acquire()).await.unwrap();
        assert!(guard.release().await.iter().all(|(_, outcome)| outcome.as_ref().unwrap().was_held()));
    }
    until("no lock is left", async || locks.active_locks() == 0).await;
    assert_no_lock_is_left(&server);
}

#[tokio::test]
async fn lost_lock_ends_the_work_with_its_name() {
    let server = RedisServer::start();
    let (locks, other) = (factory(&server.url(), LEASE).await, factory(&server.url(), LEASE).await);
    let working = locks.all(["a", "b"]).unwrap();
    let work = tokio::spawn(async move { working.run(|_| std::future::pending::<()>()).await });
    until("the set is held", async || other.inspect("b").await.unwrap().stored.is_some()).await;
    locks.force_release("b").await.unwrap();
    let error = answered("the work", work).await.unwrap().unwrap_err();
    let RunError::MemberLost(lost) = error else { panic!("{error:?}") };
    assert_eq!((lost.name.as_str(), lost.reason), ("b", LostReason::Gone));
    until("no lock is left", async || locks.active_locks() == 0).await;
    assert_no_lock_is_left(&server);
}

#[tokio::test]
async fn prefixes_are_stored_and_wake_waiters() {
    let server = RedisServer::start();
    let woken = WakeUps::default();
    let with_prefix = async |prefix: &str| {
        let builder = LockFactory::builder(redis(&server.url()).await).observer(woken.clone());
        builder.prefix(prefix).build().unwrap()
    };
    let (one, two) = (with_prefix("shop-prod").await, with_prefix("shop-prod").await);
    let staging = with_prefix("shop-staging").await;

    let guard = one.named("{eu}:x").unwrap().acquire().await.unwrap();
    assert!(server.keys().contains(&"shop-prod:{eu}:x".to_owned()), "{:?}", server.keys());
    assert!(server.keys().iter().all(|key| key.contains("shop-prod")), "{:?}", server.keys());
    let elsewhere = staging.named("{eu}:x").unwrap().try_acquire().await.unwrap().unwrap();
    elsewhere.release().await.unwrap();

    let mut held = guard;
    for waiting in [&one, &two].into_iter().cycle().skip(1).take(20) {
        let waiter = tokio::spawn(waiting.named("{eu}:x").unwrap().acquire());
        let waits = async || waiting.inspect("{eu}:x").await.unwrap().waiters > 0;
        until("the acquire waits", waits).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        held.release().await.unwrap();
        held = answered("the waiter", waiter).await.unwrap().unwrap();
    }
    assert!(woken.count("{eu}:x", WakeSource::Push) > 0, "woken by the name without the prefix");
    held.release().await.unwrap();
    assert_no_lock_is_left(&server);
}
