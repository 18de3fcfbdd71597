//! Nodes that die, lose their data and come back.

use super::super::support::{answered, assert_no_lock_is_left, calls, grow_old, name, quorum, redis, until};
use lock_core::{
    FencingToken, LockErrorKind, LockFactory, LockOptions,
    backend::{
        BackendError, LeaseId, LeaseNumber, NotifyWaiters, ProcessId, ReleaseRequest, Retention, VoteKind,
    },
    clock::{BootClock, Clock},
    quorum::{Proposal, QuorumNode, Vote},
};
use lock_testkit::{RedisQuorum, RedisServer};
use std::time::Duration;

async fn factory(nodes: &RedisQuorum, options: &str, lease: Duration) -> LockFactory {
    let quorum = quorum(&format!("{}?{options}", nodes.url())).await;
    LockFactory::builder(quorum).options(LockOptions::new().lease(lease)).build().unwrap()
}

async fn durable(nodes: &RedisQuorum) -> LockFactory {
    factory(nodes, "durable=true", Duration::from_secs(30)).await
}

fn has(server: &RedisServer, key: &str) -> bool {
    server.keys().iter().any(|other| other == key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dead_of_five_are_not_missed() {
    let nodes = RedisQuorum::start(5);
    let (locks, others) = (durable(&nodes).await, durable(&nodes).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    nodes.servers()[1].stop();
    nodes.servers()[3].stop();
    assert!(others.named("x").unwrap().try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    until("it waits for messages", async || nodes.servers()[0].subscriptions() == 1).await;
    let token = guard.fencing_token();
    assert!(guard.release().await.unwrap().was_held());
    let next = answered("the waiter", waiting).await.unwrap().unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_dead_of_five_are_an_error_with_the_votes() {
    let nodes = RedisQuorum::start(5);
    let locks = durable(&nodes).await;
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    let (dead, living) = nodes.servers().split_at(3);
    until("it is released everywhere", async || living.iter().all(|server| !has(server, "x"))).await;
    let published = || living.iter().map(|server| calls(server, "publish")).collect::<Vec<_>>();
    let before = published();
    dead.iter().for_each(RedisServer::stop);
    let error = answered("the error", locks.named("x").unwrap().try_acquire()).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    let votes = error.backend_error().unwrap().votes();
    assert_eq!(votes.len(), 5);
    for (server, vote) in nodes.servers().iter().zip(votes.iter()) {
        assert_eq!(*vote.node, server.address().to_string());
        let granted = vote.kind == VoteKind::Granted;
        assert_eq!(granted, living.iter().any(|other| other.port() == server.port()), "{vote:?}");
    }
    until("nothing is left", async || living.iter().all(|server| !has(server, "x"))).await;
    living.iter().for_each(assert_no_lock_is_left);
    assert_eq!(published(), before, "the undo wakes nobody");
}

/// Proposes to a node, and says its vote; it must be of this age to vote.
async fn vote(node: &impl QuorumNode, min_age: Duration) -> Result<Vote, BackendError> {
    let (name, lease) = (name("x"), LeaseId::new(ProcessId::random(), LeaseNumber::new(1)));
    let now = node.server_now(&name).unwrap_or_else(|| BootClock::new().wall());
    let token = FencingToken::new(now.as_micros());
    let (duration, not_after) = (Duration::from_secs(30), now + Duration::from_secs(5));
    let (last, floor, retention) = (token, None, Retention::Backend);
    let proposal =
        Proposal { name: name.clone(), lease, duration, not_after, token, last, floor, min_age, retention };
    let reply = node.propose(proposal).await?;
    assert_eq!(reply.outcome == Vote::Quarantined, reply.age < min_age, "{reply:?}");
    let release = ReleaseRequest { name, lease, depth_left: 0, notify: NotifyWaiters::No };
    node.release(release).await?;
    Ok(reply.outcome)
}

/// Whatever takes the data, or may have taken some, makes a node as young as a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_may_have_lost_data_is_young() {
    const LITTLE: Duration = Duration::from_millis(300);
    const MUCH: Duration = Duration::from_secs(60);
    let (server, other) = (RedisServer::builder().persistent().start(), RedisServer::start());
    let node = redis(&server.url()).await;
    // Whether it is young, and then that it grows older.
    let is_young = async |why: &str| {
        until("it answers", async || node.verify().await.is_ok()).await;
        assert_eq!(vote(&node, MUCH).await.unwrap(), Vote::Quarantined, "{why}");
        until("it proves itself", async || vote(&node, LITTLE).await.unwrap() == Vote::Granted).await;
        grow_old(&server);
        assert_eq!(vote(&node, MUCH).await.unwrap(), Vote::Granted, "a node that is old enough votes");
    };
    is_young("it is new").await;
    server.command(&["FLUSHALL"]);
    is_young("it was emptied").await;
    server.restart_empty();
    is_young("it was restarted without its data").await;
    server.command(&["SAVE"]);
    server.restart();
    assert!(has(&server, "distlock:node"), "the marker is in the dump");
    is_young("what came after the dump is lost").await;

    grow_old(&other);
    other.command(&["SET", "of the other", "1"]);
    server.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    until("it has the data of the other", async || has(&server, "of the other")).await;
    let error = vote(&node, Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.contains("this is a replica"), "{error}");
    until("it is refused as a node", async || {
        let error = vote(&node, Duration::ZERO).await.unwrap_err().to_string();
        error.contains(&format!("node {} of the quorum", server.address()))
            && error.contains("a master of its own")
    })
    .await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    until("it may write", async || vote(&node, Duration::ZERO).await.is_ok()).await;
    is_young("it has the data of another").await;
}

/// A new fleet waits once, and says for how long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_fleet_proves_itself_before_it_votes() {
    let nodes = RedisQuorum::start(3);
    let lock = factory(&nodes, "max_lease=4100ms", Duration::from_secs(3)).await.named("x").unwrap();
    let error = lock.try_acquire().await.unwrap_err();
    let text = format!("{error} {:?}", error.backend_error());
    assert!(text.contains("have not proved that they kept their data: they vote in"), "{text}");
    nodes.servers().iter().for_each(assert_no_lock_is_left);
    until("the fleet has proved itself", async || {
        lock.try_acquire().await.is_ok_and(|guard| guard.is_some())
    })
    .await;
}

/// A holder on all three; one of them comes back without its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_node_is_healed_and_does_not_vote() {
    let nodes = RedisQuorum::start(3);
    nodes.servers().iter().for_each(grow_old);
    let lease = Duration::from_secs(3);
    let (locks, others) = (factory(&nodes, "", lease).await, factory(&nodes, "", lease).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let (first, emptied) = (&nodes.servers()[0], &nodes.servers()[2]);
    until("all have it", async || has(emptied, "x")).await;
    emptied.restart_empty();
    until("it is healed", async || has(emptied, "x")).await;
    assert!(guard.is_held());
    // Without the first, only a vote of the emptied one would make a majority.
    first.stop();
    let error = others.named("y").unwrap().try_acquire().await.unwrap_err();
    let votes = error.backend_error().unwrap().votes();
    assert_eq!(votes[1].kind, VoteKind::Granted, "{votes:?}");
    assert!(matches!(votes[2].kind, VoteKind::Quarantined { .. }), "{votes:?}");
    until("nothing is left", async || nodes.servers()[1..].iter().all(|server| !has(server, "y"))).await;
}
