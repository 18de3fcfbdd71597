//! Failovers: planned ones, after a death, after a silence, and one that loses a write.

use super::super::support::{WakeUps, answered, factory, until, until_renewed};
use lock_core::{LockErrorKind, LockFactory, observer::WakeSource};
use lock_testkit::{RedisSentinels, RedisServer};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(30);

/// Returns every server except the master.
fn replicas(deployment: &RedisSentinels) -> Vec<&RedisServer> {
    let master = deployment.master().port();
    deployment.servers().iter().filter(|server| server.port() != master).collect()
}

async fn has(server: &RedisServer, key: &str) -> bool {
    server.keys().iter().any(|other| other == key)
}

/// Tries until the lock is granted, and returns the time that this took.
async fn served(locks: &LockFactory, lock: &str) -> Duration {
    let begin = Instant::now();
    until("a lock is granted again", async || match locks.named(lock).unwrap().try_acquire().await {
        Ok(guard) => match guard {
            Some(guard) => guard.release().await.is_ok(),
            None => false,
        },
        Err(error) => {
            assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:?}");
            false
        }
    })
    .await;
    begin.elapsed()
}

/// The old master stays up as a replica. Nothing is restarted, and no hold is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotion_is_followed_by_holder_and_waiter() {
    let deployment = RedisSentinels::start();
    let wakes = WakeUps::default();
    let (locks, others) = (factory(&deployment.url(), LEASE).await, wakes.of(&deployment.url(), LEASE).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    let old = deployment.master();
    until("the waiter is subscribed", async || old.subscriptions() == 2).await;
    for replica in replicas(&deployment) {
        until("the replica has the lease", async || has(replica, "x").await).await;
    }
    deployment.fail_over();
    let new = deployment.master();
    assert_ne!(new.port(), old.port());
    // The connections of both clients, for requests and for messages.
    until("all connections lead to the new master", async || new.clients() >= 4 && new.subscriptions() == 2)
        .await;
    until_renewed(new, "x", LEASE).await;
    assert!(guard.is_held());
    let before = wakes.count("x", WakeSource::Push);
    guard.release().await.unwrap();
    answered("the waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
    assert!(wakes.count("x", WakeSource::Push) > before, "woken by a message from the new master");
}

/// Kills the old master, or suspends it with its connections open.
async fn dies(end: fn(&RedisServer)) {
    let deployment = RedisSentinels::start();
    let locks = factory(&deployment.url(), LEASE).await;
    let others = factory(&deployment.url(), LEASE).await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    for replica in replicas(&deployment) {
        until("the replica has the lease", async || has(replica, "x").await).await;
    }
    let old = deployment.master();
    end(old);
    let outage = served(&others, "y").await;
    eprintln!("sentinel: a lock was granted {outage:?} after the end of its master");
    until("all sentinels know the new master", async || deployment.master().port() != old.port()).await;
    until_renewed(deployment.master(), "x", LEASE).await;
    assert!(guard.is_held());
    let token = guard.fencing_token();
    assert!(guard.release().await.unwrap().was_held());
    let next = answered("the waiter", waiting).await.unwrap().unwrap();
    assert!(next.fencing_token() > token);
    assert!(deployment.master().port() != old.port());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_master_is_replaced() {
    dies(RedisServer::stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_master_is_replaced() {
    dies(RedisServer::pause).await;
}

/// The grant was acknowledged but is on no replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_grant_is_reported_and_tokens_rise() {
    let deployment = RedisSentinels::start();
    let locks = factory(&deployment.url(), LEASE).await;
    let others = factory(&deployment.url(), LEASE).await;
    served(&locks, "x").await;
    let replicas = replicas(&deployment);
    // Otherwise they would read the data under way to them when they are resumed.
    replicas.iter().for_each(|replica| replica.pause());
    deployment.master().command(&["CLIENT", "KILL", "TYPE", "replica"]);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let token = guard.fencing_token();
    deployment.master().stop();
    for replica in &replicas {
        replica.resume();
        assert!(!has(replica, "x").await, "the write is lost");
    }
    // Another client is granted the lock, since the new master does not know the first hold.
    served(&others, "y").await;
    let next = answered("another", others.named("x").unwrap().acquire()).await.unwrap();
    assert!(next.fencing_token() > token, "{:?} after {token:?}", next.fencing_token());
    answered("the loss", guard.lost()).await;
    assert!(!guard.is_held() && next.is_held());
    served(&factory(&deployment.url(), LEASE).await, "z").await;
    next.release().await.unwrap();
}
