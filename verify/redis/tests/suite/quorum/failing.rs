//! Quorums whose nodes die, lose their data and return.

use super::super::support::{answered, assert_no_lock_is_left, calls, grow_old, has, quorum, until};
use lock_core::{LockErrorKind, LockFactory, LockOptions, backend::VoteKind};
use lock_testkit::{RedisQuorum, RedisServer};
use std::time::Duration;

async fn factory(nodes: &RedisQuorum, options: &str, lease: Duration) -> LockFactory {
    let quorum = quorum(&format!("{}?{options}", nodes.url())).await;
    LockFactory::builder(quorum).options(LockOptions::new().lease(lease)).build().unwrap()
}

async fn durable(nodes: &RedisQuorum) -> LockFactory {
    factory(nodes, "durable=true", Duration::from_secs(30)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dead_nodes_of_five_are_tolerated() {
    let nodes = RedisQuorum::start(5);
    let (locks, others) = (durable(&nodes).await, durable(&nodes).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    nodes.servers()[1].stop();
    nodes.servers()[3].stop();
    assert!(others.named("x").unwrap().try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    until("the waiter is subscribed", async || nodes.servers()[0].subscriptions() == 1).await;
    let token = guard.fencing_token();
    assert!(guard.release().await.unwrap().was_held());
    let next = answered("the waiter", waiting).await.unwrap().unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_dead_nodes_of_five_are_an_error_with_the_votes() {
    let nodes = RedisQuorum::start(5);
    let locks = durable(&nodes).await;
    let (dead, living) = nodes.servers().split_at(3);
    let published = || living.iter().map(|server| calls(server, "publish")).collect::<Vec<_>>();
    let released: Vec<_> = published().into_iter().map(|count| count + 1).collect();
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    // The key alone proves nothing: the proposal may reach a node after the majority has decided.
    until("released on every node", async || published() == released).await;
    let addresses: Vec<_> = nodes.servers().iter().map(|server| server.address().to_string()).collect();
    let before = published();
    dead.iter().for_each(RedisServer::stop);
    // A lost round does not wait for all votes, one of which may be missing.
    until("the votes of the living nodes arrive in time", async || {
        let error = answered("the error", locks.named("x").unwrap().try_acquire()).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        let votes = error.backend_error().unwrap().votes();
        let nodes: Vec<_> = votes.iter().map(|vote| &*vote.node).collect();
        assert_eq!(nodes, addresses);
        let (dead, living) = votes.split_at(3);
        assert!(dead.iter().all(|vote| matches!(vote.kind, VoteKind::Failed { .. } | VoteKind::NoAnswer)));
        living.iter().all(|vote| vote.kind == VoteKind::Granted)
    })
    .await;
    until("no lock is left", async || living.iter().all(|server| !has(server, "x"))).await;
    living.iter().for_each(assert_no_lock_is_left);
    assert_eq!(published(), before, "the undo wakes no waiter");
}

/// A new fleet must wait once, and the error says for how long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_fleet_votes_after_its_quarantine() {
    let nodes = RedisQuorum::start(3);
    let lock = factory(&nodes, "max_lease=4100ms", Duration::from_secs(3)).await.named("x").unwrap();
    let error = lock.try_acquire().await.unwrap_err();
    let text = format!("{error} {:?}", error.backend_error());
    assert!(text.contains("have not yet proved that they kept their data: a majority can vote in"), "{text}");
    nodes.servers().iter().for_each(assert_no_lock_is_left);
    until("the fleet has proved itself", async || {
        lock.try_acquire().await.is_ok_and(|guard| guard.is_some())
    })
    .await;
}

/// A lock is held on all three nodes, and one of them returns without its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptied_node_is_healed_and_does_not_vote() {
    let nodes = RedisQuorum::start(3);
    nodes.servers().iter().for_each(grow_old);
    let lease = Duration::from_secs(3);
    let (locks, others) = (factory(&nodes, "", lease).await, factory(&nodes, "", lease).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let (first, emptied) = (&nodes.servers()[0], &nodes.servers()[2]);
    until("every node has the lease", async || has(emptied, "x")).await;
    emptied.restart_empty();
    until("the node is healed", async || has(emptied, "x")).await;
    assert!(guard.is_held());
    // Without the first node, a majority would need the emptied node's vote.
    first.stop();
    until("the emptied node is reported as not voting", async || {
        let error = others.named("y").unwrap().try_acquire().await.unwrap_err();
        matches!(error.backend_error().unwrap().votes()[2].kind, VoteKind::Quarantined { .. })
    })
    .await;
    until("no lock is left", async || nodes.servers()[1..].iter().all(|server| !has(server, "y"))).await;
}
