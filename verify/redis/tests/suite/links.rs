//! Connections: none is left behind, and no useless one is kept.

use super::support::{answered, client, factory, name, redis, until};
use crate::client::{RedisBackend, RedisBackendBuilder};
use lock_core::{
    LockErrorKind, LockFactory, LockOptions,
    backend::{Acquired, Applied, BackendErrorKind, BackendExt as _, Renewed},
};
use lock_testkit::{
    Direction, RedisServer, TcpProxy,
    contender::{Contender, next},
};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(6);

/// A client library may leave a task behind that reconnects forever, as fred's own `init` does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_connect_leaves_no_connection() {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    proxy.delay(Duration::from_millis(10));
    for patience in (5..100).step_by(5) {
        let patience = Duration::from_millis(patience);
        let _ = tokio::time::timeout(patience, RedisBackend::connect(&proxy.url())).await;
        let own = RedisBackendBuilder::from_url(&proxy.url()).unwrap().connect_timeout(patience);
        drop(own.connect().await);
    }
    until("all connections are closed", async || server.clients() == 0).await;
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.clients(), 0, "no connection is reopened");
}

/// A planned failover: the new master has all data, the address leads to it, and the old connections stay open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_and_waiters_follow_the_address_to_the_new_master() {
    let old = RedisServer::start();
    let new = RedisServer::builder().replica_of(&old).start();
    let front = TcpProxy::start(old.address());
    let (locks, others) = (factory(&front.url(), LEASE).await, factory(&front.url(), LEASE).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    until("the waiter is subscribed", async || old.subscriptions() == 1).await;
    until("the replica has the lease", async || new.keys().contains(&"x".to_owned())).await;

    front.retarget(new.address());
    new.command(&["REPLICAOF", "NO", "ONE"]);
    old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "noticed by the renewals");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    // The old server only has its replication link left.
    until("all connections lead to the new master", async || old.clients() == 1 && new.clients() >= 4).await;
}

/// The server checks the permissions for all keys of a script before it runs.
#[tokio::test]
async fn one_forbidden_lease_of_a_batch_does_not_fail_the_others() {
    let server = RedisServer::builder().user("shop on >secret ~* &* +@all").start();
    let store = client(&format!("redis://shop:secret@127.0.0.1:{}", server.port())).await;
    let leases = ["stock:1", "retired:1", "stock:2"].map(|lock| (Contender::new(&store), name(lock)));
    for (lease, lock) in &leases {
        lease.take(lock, LEASE).await;
    }
    server.command(&["ACL", "SETUSER", "shop", "resetkeys", "~stock:*", "~redisson_lock_token:*"]);
    let items = leases.iter().map(|(lease, lock)| lease.renewal(lock, LEASE)).collect();
    let answers = store.renew(items).await;
    assert_eq!(answers[0].as_ref().unwrap().outcome, Renewed::Renewed);
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), BackendErrorKind::Denied);
    assert_eq!(answers[2].as_ref().unwrap().outcome, Renewed::Renewed);
}

/// Values that no server could store are refused on connecting, or before anything is written.
#[tokio::test]
async fn out_of_range_numbers_are_refused() {
    let server = RedisServer::start();
    for retention in [Duration::ZERO, Duration::MAX] {
        let builder = RedisBackendBuilder::from_url(&server.url()).unwrap().retention(Some(retention));
        assert_eq!(builder.connect().await.map(drop).unwrap_err().kind(), LockErrorKind::Backend);
    }
    let never = RedisBackendBuilder::from_url(&server.url()).unwrap().connect_timeout(Duration::ZERO);
    assert_eq!(never.connect().await.map(drop).unwrap_err().kind(), LockErrorKind::Backend);

    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    let floor = lock_core::FencingToken::new((1 << 53) - 1);
    let request = a.request(&name("x"), LEASE, next(0, Some(floor))).await;
    let error = store.acquire(request).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (BackendErrorKind::Misconfigured, Applied::No));
    // Less than a millisecond becomes one millisecond instead of forever.
    let request = a.request(&name("y"), Duration::from_micros(900), next(0, None)).await;
    assert!(matches!(store.acquire(request).await.unwrap().outcome, Acquired::Granted { .. }));
    until("the lease has ended", async || server.keys() == ["redisson_lock_token:{y}"]).await;
}

#[tokio::test]
async fn dead_connection_is_replaced_even_with_long_leases() {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    // One request may take five minutes, longer than this test waits.
    let (lease, operation) = (Duration::from_secs(3_600), Duration::from_secs(300));
    let options = LockOptions::new().lease(lease).operation_timeout(operation);
    let locks = LockFactory::builder(redis(&proxy.url()).await).options(options).build().unwrap();
    // Only the connection for requests matters here; the other one is pinged independently.
    drop(locks.named("warm").unwrap().acquire().await.unwrap());
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.stall(Direction::Both);
    // After two seconds of silence.
    let trying = tokio::spawn(locks.named("x").unwrap().try_acquire());
    let error = answered("one try on a dead connection", trying).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
}
