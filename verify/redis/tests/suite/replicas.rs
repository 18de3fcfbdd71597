//! A replica behind the address that lost its master: it answers reads with stale data and refuses writes.

use super::support::{calls, client, factory, name, until};
use lock_core::backend::{
    AcquireMode, Applied, Backend, BackendError, BackendErrorKind, BackendExt as _, ForceReleaseRequest,
    NotifyWaiters, ReleaseRequest,
};
use lock_testkit::{
    RedisServer, TcpProxy,
    contender::{Contender, next},
};
use std::{sync::Arc, time::Duration};

/// Returns a master, and a replica that has its current data and receives no further updates.
fn detached() -> (RedisServer, RedisServer) {
    let master = RedisServer::start();
    let replica = RedisServer::builder().replica_of(&master).start();
    replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
    (master, replica)
}

/// Returns the number of scripts that the server was asked to run.
fn scripts(server: &RedisServer) -> u64 {
    calls(server, "eval") + calls(server, "evalsha")
}

/// Holds x and y on the master while the address leads to the replica for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_replica_ends_no_hold_and_leaves_no_lease() {
    let (master, replica) = detached();
    let front = TcpProxy::start(master.address());
    let renewing = factory(&front.url(), Duration::from_secs(6)).await;
    let releasing = factory(&front.url(), Duration::from_secs(600)).await;
    let x = renewing.named("x").unwrap().acquire().await.unwrap();
    let y = releasing.named("y").unwrap().acquire().await.unwrap();
    front.retarget(replica.address());
    front.cut();
    let release = tokio::spawn(y.release());
    let asked = scripts(&replica);
    // A renewal of x is due after 2 s.
    until("the replica was asked", async || scripts(&replica) >= asked + 4).await;
    assert!(tokio::time::timeout(Duration::from_millis(2_500), x.lost()).await.is_err(), "x is lost");
    front.retarget(master.address());
    front.cut();
    until("y is free on the master", async || !master.keys().contains(&"y".to_owned())).await;
    let released = release.await.unwrap();
    assert!(!matches!(released, Ok(outcome) if !outcome.was_held()), "y was lost: {released:?}");
    assert!(x.is_held());
    assert!(x.release().await.unwrap().was_held());
}

/// Repeats the request until the replica answers, and asserts that it refuses.
async fn is_read_only<T: std::fmt::Debug>(mut ask: impl AsyncFnMut() -> Result<T, BackendError>) {
    until("the replica refuses", async || {
        let error = ask().await.expect_err("only the master knows");
        assert_eq!((error.kind(), error.is_retryable()), (BackendErrorKind::Unavailable, true), "{error}");
        let refused = error.to_string().contains("READONLY");
        assert!(!refused || error.applied() == Applied::No, "{error}");
        refused
    })
    .await;
}

#[tokio::test]
async fn no_operation_is_answered_from_the_data_of_a_replica() {
    let master = RedisServer::start();
    let (a, b) = {
        let store = client(&master.url()).await;
        (Contender::new(&store), Contender::new(&store))
    };
    a.take(&name("held"), Duration::from_secs(600)).await;
    let replica = RedisServer::builder().replica_of(&master).start();
    replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
    a.free(&name("held")).await;
    let front = TcpProxy::start(master.address());
    let store: Arc<dyn Backend> = client(&front.url()).await;
    let requests = [
        a.request(&name("held"), Duration::from_secs(6), AcquireMode::Reenter { depth: 2 }).await,
        a.request(&name("gone"), Duration::from_secs(6), AcquireMode::Reenter { depth: 2 }).await,
        b.request(&name("held"), Duration::from_secs(6), next(0, None)).await,
        b.request(&name("gone"), Duration::from_secs(6), next(0, None)).await,
    ];
    front.retarget(replica.address());
    front.cut();
    until("the connections leave the master", async || master.clients() == 2).await;
    for request in requests {
        is_read_only(async || store.acquire(request.clone()).await).await;
    }
    for lock in ["held", "gone"] {
        is_read_only(async || {
            store.renew(vec![b.renewal(&name(lock), Duration::from_secs(6))]).await.remove(0)
        })
        .await;
        for (depth_left, notify) in
            [(0, NotifyWaiters::Yes), (0, NotifyWaiters::EvenIfGone), (1, NotifyWaiters::Yes)]
        {
            let lease = b.lease();
            let request = ReleaseRequest { name: name(lock), lease, depth_left, notify };
            is_read_only(async || store.release(request.clone()).await).await;
        }
        let request = ForceReleaseRequest { name: name(lock), seen: b.lease().to_string() };
        is_read_only(async || store.force_release(request.clone()).await).await;
    }
}
