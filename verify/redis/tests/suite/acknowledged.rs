//! Replicas that must acknowledge, as real processes: without them nothing is granted or renewed.

use super::support::{answered, until};
use crate::client::{ConnectWarning, RedisBackend, RedisBackendBuilder};
use lock_core::{LockErrorKind, LockFactory, LockOptions};
use lock_testkit::{RedisSentinels, RedisServer};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(6);

async fn connected(url: &str, replicas: u32) -> RedisBackend {
    RedisBackendBuilder::from_url(url).unwrap().replicas(replicas).connect().await.unwrap()
}

fn factory(backend: RedisBackend) -> LockFactory {
    LockFactory::builder(backend).options(LockOptions::new().lease(LEASE)).build().unwrap()
}

/// The replica is suspended for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_replica_nothing_is_granted_and_holds_end() {
    let master = RedisServer::builder().config("min-replicas-to-write", "0").start();
    let replica = RedisServer::builder().replica_of(&master).start();
    let backend = connected(&master.url(), 1).await;
    assert!(matches!(backend.warnings(), [ConnectWarning::WritesAlone { .. }]), "{:?}", backend.warnings());
    let locks = factory(backend);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    assert!(replica.keys().contains(&"x".to_owned()), "acknowledged before the grant");
    replica.pause();
    let error = answered("one try", locks.named("y").unwrap().try_acquire()).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:?}");
    answered("the loss", guard.lost()).await;
    assert!(!guard.is_held());
    replica.resume();
    // Unacknowledged grants are undone.
    until("no lock is left", async || {
        [&master, &replica]
            .iter()
            .all(|server| server.keys().iter().all(|key| key.starts_with("redisson_lock_token:")))
    })
    .await;
    let y = answered("an acquire", locks.named("y").unwrap().acquire()).await.unwrap();
    tokio::time::sleep(LEASE).await;
    assert!(y.is_held(), "renewals are acknowledged again");
    y.release().await.unwrap();
}

/// The master is cut off from its replicas, accepts writes, and dies. Its answers during that time grant nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_master_grants_nothing() {
    let deployment = RedisSentinels::start();
    let locks = factory(connected(&deployment.url(), 2).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let master = deployment.master();
    let port = master.port();
    let replicas: Vec<_> = deployment.servers().iter().filter(|server| server.port() != port).collect();
    for replica in &replicas {
        assert!(replica.keys().contains(&"x".to_owned()), "every replica has the lock");
        replica.pause();
    }
    master.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    for number in 0..3 {
        let trying = locks.named(format!("cut:{number}")).unwrap().try_acquire();
        let error = answered("one try", trying).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:?}");
    }
    answered("the loss", guard.lost()).await;
    master.stop();
    replicas.iter().for_each(|replica| replica.resume());
    until("another server is the master", async || deployment.master().port() != port).await;
    // One replica is left, but two must acknowledge.
    master.restart();
    deployment.settle();
    let next = answered("an acquire", locks.named("x").unwrap().acquire()).await.unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn cluster_refuses_the_option() {
    let builder = RedisBackendBuilder::from_url("redis-cluster://127.0.0.1:1").unwrap().replicas(1);
    let error = builder.connect().await.map(drop).unwrap_err();
    assert!(error.backend_error().unwrap().to_string().contains("not supported for a cluster"), "{error:?}");
}

#[tokio::test]
async fn master_without_replicas_is_warned_of() {
    let server = RedisServer::start();
    let backend = connected(&server.url(), 1).await;
    let [few, alone] = backend.warnings() else { panic!("two: {:?}", backend.warnings()) };
    assert_eq!(*few, ConnectWarning::TooFewReplicas { connected: 0, wanted: 1 });
    assert!(matches!(alone, ConnectWarning::WritesAlone { .. }), "{alone:?}");
}
