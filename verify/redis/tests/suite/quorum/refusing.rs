//! Unusable nodes are refused in time, with an error that contains the node and the remedy.

use super::super::{
    connecting::refused,
    support::{quorum, redis, until},
};
use crate::client::{Redis, RedisBackendBuilder};
use lock_core::{
    LockErrorKind, LockFactory,
    backend::{BackendErrorKind, VoteKind},
};
use lock_ledger::LedgerConnector;
use lock_quorum::{Member, QuorumBackend, QuorumNode};
use lock_testkit::{RedisCluster, RedisQuorum, RedisSentinels, RedisServer, TcpProxy, unused_address};

/// Returns the URL of a quorum of two suitable nodes and another server.
fn with(nodes: &RedisQuorum, other: &str) -> String {
    format!("{},{other}", nodes.url())
}

/// Asserts that connecting is refused, with the name of the node and this text.
async fn is_no_node(nodes: &RedisQuorum, other: &str, kind: BackendErrorKind, says: &str) {
    for words in [says, &format!("quorum node {other}")] {
        refused(&with(nodes, other), kind, words).await;
    }
}

#[tokio::test]
async fn unreachable_majority_is_named() {
    let nodes = RedisQuorum::start(1);
    let [first, second] = [(); 2].map(|()| unused_address().to_string());
    let url = format!("{},{first},{second}", nodes.url());
    for says in [&format!("node {first}"), &format!("node {second}"), &"1 of 3 nodes respond".to_owned()] {
        refused(&url, BackendErrorKind::Unavailable, says).await;
    }
    let error = RedisBackendBuilder::from_url(&url).unwrap().connect_quorum().await.unwrap_err();
    let votes = error.backend_error().unwrap().votes();
    let failed: Vec<_> = votes.iter().filter(|vote| matches!(vote.kind, VoteKind::Failed { .. })).collect();
    assert_eq!(failed.iter().map(|vote| &*vote.node).collect::<Vec<_>>(), [&*first, &*second]);
}

#[tokio::test]
async fn missing_login_and_permission_are_named() {
    let nodes = RedisQuorum::with(2, |server| server.user("shop on >canary ~* &* +@all"));
    let third = RedisServer::builder().user("shop on >canary ~* &* +@all").start();
    let other = third.address().to_string();
    let url = with(&nodes, &other).replace("://", "://shop:canary@");
    let node = format!("quorum node {other}");
    third.command(&["ACL", "SETUSER", "shop", "resetpass", ">another"]);
    for says in ["use the correct user and password", &node] {
        refused(&url, BackendErrorKind::Denied, says).await;
    }
    third.command(&["ACL", "SETUSER", "shop", "resetpass", ">canary"]);
    for command in ["evalsha", "hset", "hlen", "get", "info", "subscribe"] {
        third.command(&["SCRIPT", "FLUSH"]);
        third.command(&["ACL", "SETUSER", "shop", &format!("-{command}")]);
        for says in ["docs/protocol.md", &node] {
            refused(&url, BackendErrorKind::Denied, says).await;
        }
        third.command(&["ACL", "SETUSER", "shop", &format!("+{command}")]);
    }
    quorum(&url).await;
}

#[tokio::test]
async fn replicas_members_and_sentinels_are_refused() {
    let (nodes, master) = (RedisQuorum::start(2), RedisServer::start());
    let replica = RedisServer::builder().replica_of(&master).start();
    let member = RedisServer::builder().config("cluster-enabled", "yes").start();
    let sentinels = RedisSentinels::start();
    let sentinel = sentinels.sentinels()[0].address();
    for (address, says) in [
        (replica.address(), "this is a replica, but a quorum node must be an independent master"),
        (member.address(), "this is a Redis Cluster node, but a quorum node must be an independent master"),
        (sentinel, "this is a sentinel, but a quorum node must be an independent master"),
    ] {
        is_no_node(&nodes, &address.to_string(), BackendErrorKind::Misconfigured, says).await;
    }
}

#[tokio::test]
async fn server_with_two_names_is_refused() {
    let nodes = RedisQuorum::start(2);
    let other = format!("localhost:{}", nodes.servers()[0].port());
    let url = with(&nodes, &other);
    for says in ["are the same server", &other] {
        refused(&url, BackendErrorKind::Misconfigured, says).await;
    }
}

/// The second address does not answer while connecting. Two votes of one server would be a majority.
#[tokio::test]
async fn server_with_two_names_votes_once() {
    let nodes = RedisQuorum::start(2);
    let [first, second] = nodes.servers() else { panic!("two nodes") };
    let proxy = TcpProxy::start(first.address());
    proxy.refuse();
    let url = format!("{}?durable=true", with(&nodes, &proxy.address().to_string()));
    let locks = LockFactory::new(quorum(&url).await);
    let lock = locks.named("x").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    second.stop();
    proxy.pass();
    until("the second address is refused", async || {
        let tried =
            lock.try_acquire().await.map(|guard| assert!(guard.is_none(), "a majority of one server"));
        tried.is_err_and(|error| format!("{error:?}").contains("are the same server"))
    })
    .await;
}

/// The same if the nodes are created one at a time.
#[tokio::test]
async fn store_of_several_servers_is_refused_as_a_node() {
    let (cluster, sentinels, plain) = (RedisCluster::start(), RedisSentinels::start(), RedisServer::start());
    let acknowledged =
        RedisBackendBuilder::from_url(&plain.url()).unwrap().replicas(1).connect().await.unwrap();
    for (backend, says) in [
        (redis(&cluster.url()).await, "a cluster cannot be a quorum node"),
        (redis(&sentinels.url()).await, "a master behind Sentinel cannot be a quorum node"),
        (acknowledged, "a server with `replicas(n)` cannot be a quorum node"),
    ] {
        let members =
            [Member::new("a", redis(&plain.url()).await), Member::new("b", redis(&plain.url()).await)];
        let error = backend.verify().await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Misconfigured);
        assert!(error.to_string().contains(says), "{error}");
        let quorum = QuorumBackend::builder(members.into_iter().chain([Member::new("c", backend)]));
        let error = quorum.build().unwrap().verify().await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Misconfigured);
        assert!(error.to_string().contains("node c failed the check"), "{error}");
    }
}

#[tokio::test]
async fn quorum_is_refused_as_a_single_store_and_has_no_ledger() {
    let nodes = RedisQuorum::start(3);
    let builder = RedisBackendBuilder::from_url(&nodes.url()).unwrap();
    let error = builder.connect().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert!(error.backend_error().unwrap().to_string().contains("use `connect_quorum`"), "{error:?}");
    let error = Redis.connect_with_ledger(&nodes.url()).await.map(drop).unwrap_err();
    assert!(error.backend_error().unwrap().to_string().contains("no run ledger"), "{error:?}");
    let builder = RedisBackendBuilder::from_url(&nodes.url()).unwrap().replicas(1);
    let error = builder.connect_quorum().await.map(drop).unwrap_err();
    assert!(error.backend_error().unwrap().to_string().contains("not supported for a quorum"), "{error:?}");
    let one = RedisBackendBuilder::from_url(&nodes.servers()[0].url()).unwrap();
    let error = one.connect_quorum().await.map(drop).unwrap_err();
    assert!(error.backend_error().unwrap().to_string().contains("write `redlock://"), "{error:?}");
}
