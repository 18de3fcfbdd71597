//! Heartbeats of many groups in one process: they share a call, and each is answered as if sent alone.

use super::support::{answered, calls, redis, until};
use crate::client::{RedisBackend, RedisBackendBuilder};
use futures_util::{future::join_all, join};
use lock_core::{
    Worker,
    backend::{Applied, BackendError, BackendErrorKind, ProcessId, Reply},
};
use lock_ledger::{GroupName, HeartbeatReply, HeartbeatRequest, LiveNode, RunLedger};
use lock_testkit::{RedisCluster, RedisServer};
use std::{collections::BTreeSet, future::Future, time::Duration};
use tokio::runtime::Handle;

type Answer = Result<Reply<HeartbeatReply>, BackendError>;

/// Returns the heartbeat of a separate node.
fn heartbeat(ledger: &RedisBackend, group: &str) -> impl Future<Output = Answer> {
    let node = LiveNode {
        id: *ProcessId::random().as_uuid(),
        name: group.to_owned(),
        jobs: 1,
        room: 1,
        kinds: Vec::new(),
        leading: false,
    };
    let (group, lease) = (GroupName::new(group).unwrap(), Duration::from_secs(60));
    let request = HeartbeatRequest { group, node, lease, known: 0, watermarks: Vec::new() };
    let ledger = ledger.clone();
    async move { ledger.heartbeat(request).await }
}

async fn all(ledger: &RedisBackend, groups: &[&str]) -> Vec<Answer> {
    let all = join_all(groups.iter().map(|group| heartbeat(ledger, group)));
    answered("a heartbeat", all).await
}

/// Returns the names of the live nodes, which equal those of the groups.
fn nodes(answer: &Answer) -> Vec<&str> {
    let reply = answer.as_ref().expect("answered");
    reply.outcome.nodes.iter().map(|node| node.name.as_str()).collect()
}

fn scripts(server: &RedisServer) -> u64 {
    calls(server, "eval") + calls(server, "evalsha")
}

/// Returns the ids of the connections to a server.
fn clients(server: &RedisServer) -> BTreeSet<String> {
    let list = server.command(&["CLIENT", "LIST"]).text().to_owned();
    list.split_whitespace().filter_map(|word| word.strip_prefix("id=")).map(str::to_owned).collect()
}

fn nodes_key(group: &str) -> String {
    format!("distlock:ledger:2:nodes:{{{group}}}")
}

#[tokio::test]
async fn heartbeats_of_many_groups_share_few_calls() {
    let server = RedisServer::start();
    let ledger = redis(&server.url()).await;
    let groups: Vec<_> = (0..100).map(|number| format!("group-{number}")).collect();
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    // The server learns the script.
    all(&ledger, &groups[..2]).await;
    let before = scripts(&server);
    let answers = all(&ledger, &groups).await;
    assert_eq!(scripts(&server) - before, 2, "one call of 64 and one of 36");
    for (group, answer) in groups[2..].iter().zip(&answers[2..]) {
        assert_eq!(nodes(answer), [*group]);
    }
}

#[tokio::test]
async fn wrong_type_in_one_group_does_not_fail_the_others() {
    let server = RedisServer::start();
    let ledger = redis(&server.url()).await;
    server.command(&["SET", &nodes_key("b"), "mine"]);
    let answers = all(&ledger, &["a", "b", "c"]).await;
    let error = answers[1].as_ref().expect_err("the key is a string");
    assert_eq!(error.kind(), BackendErrorKind::WrongType, "{error}");
    assert_eq!((nodes(&answers[0]), nodes(&answers[2])), (vec!["a"], vec!["c"]));
    let alone = all(&ledger, &["b"]).await.remove(0).expect_err("fails alone as well");
    assert_eq!((error.kind(), error.applied()), (alone.kind(), alone.applied()));
}

#[tokio::test]
async fn missing_permission_in_one_group_does_not_fail_the_others() {
    let server = RedisServer::builder().user("user shop on >secret ~* &* +@all").start();
    let ledger = redis(&format!("redis://shop:secret@127.0.0.1:{}", server.port())).await;
    server.command(&["ACL", "SETUSER", "shop", "resetkeys", "~*{a}*", "~*{c}*"]);
    let answers = all(&ledger, &["a", "b", "c"]).await;
    let error = answers[1].as_ref().expect_err("no permission for the keys");
    assert_eq!((error.kind(), error.applied()), (BackendErrorKind::Denied, Applied::No), "{error}");
    assert_eq!((nodes(&answers[0]), nodes(&answers[2])), (vec!["a"], vec!["c"]));
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let server = RedisServer::start();
    let ledger = redis(&server.url()).await;
    for _ in 0..3 {
        assert!(all(&ledger, &["a", "b"]).await.iter().all(Result::is_ok));
        server.command(&["SCRIPT", "FLUSH"]);
    }
}

/// The first request of a batch opens it. Dropping it must not end the wait of the others.
#[tokio::test]
async fn dropped_heartbeats_do_not_affect_the_others() {
    let server = RedisServer::start();
    // In this thread, so that nothing is sent before it waits.
    let here = Worker::on(Handle::current());
    let ledger = RedisBackendBuilder::from_url(&server.url()).unwrap().worker(here).connect().await.unwrap();
    let (mut a, mut b, mut c) = (
        Box::pin(heartbeat(&ledger, "a")),
        Box::pin(heartbeat(&ledger, "b")),
        Box::pin(heartbeat(&ledger, "c")),
    );
    assert!(futures_util::poll!(&mut a).is_pending());
    assert!(futures_util::poll!(&mut b).is_pending());
    assert!(futures_util::poll!(&mut c).is_pending());
    drop(a);
    let (b, c) = answered("a heartbeat", async { join!(b, c) }).await;
    assert_eq!((nodes(&b), nodes(&c)), (vec!["b"], vec!["c"]));
    assert!(!server.keys().contains(&nodes_key("a")), "not sent");
    let mut d = Box::pin(heartbeat(&ledger, "d"));
    assert!(futures_util::poll!(&mut d).is_pending());
    drop(d);
    assert_eq!(nodes(&all(&ledger, &["e"]).await[0]), ["e"]);
    assert!(!server.keys().contains(&nodes_key("d")), "a batch without callers ends");
}

/// A server that became a replica refuses the batch as a whole, so that the connection is replaced.
#[tokio::test]
async fn replica_refuses_all_heartbeats_and_is_replaced() {
    let master = RedisServer::start();
    let server = RedisServer::start();
    let ledger = redis(&server.url()).await;
    let before = clients(&server);
    server.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    for answer in all(&ledger, &["a", "b", "c"]).await {
        let error = answer.expect_err("a replica does not know");
        assert_eq!((error.kind(), error.applied()), (BackendErrorKind::Unavailable, Applied::No), "{error}");
        assert!(error.to_string().contains("READONLY"), "{error}");
    }
    until("the connections are replaced", async || clients(&server).is_disjoint(&before)).await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    until("the master answers", async || all(&ledger, &["a", "b"]).await.iter().all(Result::is_ok)).await;
}

#[tokio::test]
async fn groups_of_all_nodes_of_a_cluster_are_answered() {
    let cluster = RedisCluster::start();
    let ledger = redis(&cluster.url()).await;
    let groups: Vec<_> = (0..30).map(|number| format!("group-{number}")).collect();
    // Two nodes per group: those in one slot share a call.
    let twice: Vec<_> = groups.iter().chain(&groups).map(String::as_str).collect();
    let answers = all(&ledger, &twice).await;
    for (group, answer) in groups.iter().zip(&answers[groups.len()..]) {
        assert_eq!(nodes(answer), [group.as_str(); 2]);
    }
    for server in &cluster.servers()[..3] {
        assert!(server.keys().iter().any(|key| key.contains(":nodes:")), "each node serves some groups");
    }
}
