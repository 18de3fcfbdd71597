//! One Redis as a node: its votes, its age, and its answers to many simultaneous requests.

use super::super::support::{calls, grow_old, has, name, redis, until};
use crate::client::RedisBackend;
use lock_core::{
    FencingToken, LockName, Retention,
    backend::{
        Backend, BackendError, BackendErrorKind, BackendExt as _, LeaseId, LeaseNumber, NotifyWaiters,
        ProcessId, ReleaseRequest,
    },
    clock::{BootClock, Clock, UtcTime},
};
use lock_quorum::{Extended, Extension, NodeReply, Proposal, QuorumNode, Vote};
use lock_testkit::RedisServer;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

fn now(node: &RedisBackend) -> UtcTime {
    node.server_now(&name("x")).unwrap_or_else(|| BootClock::new().wall())
}

async fn propose(
    node: &RedisBackend,
    name: LockName,
    lease: LeaseId,
    min_age: Duration,
) -> Result<NodeReply<Vote>, BackendError> {
    let (now, token) = (now(node), FencingToken::new(now(node).as_micros()));
    let (duration, not_after) = (LEASE, now + Duration::from_secs(5));
    let (last, floor, retention) = (token, None, Retention::Backend);
    let proposal = Proposal { name, lease, duration, not_after, token, last, floor, min_age, retention };
    node.propose(proposal).await
}

fn some_lease() -> LeaseId {
    LeaseId::new(ProcessId::random(), LeaseNumber::new(1))
}

/// Proposes to a node, returns its vote, and releases the lock. The node must have this age to vote.
async fn vote(node: &RedisBackend, min_age: Duration) -> Result<Vote, BackendError> {
    let lease = some_lease();
    // A separate name, since the token is the estimated server time, which may be corrected downwards.
    let name = name(&format!("x:{lease}"));
    let reply = propose(node, name.clone(), lease, min_age).await?;
    assert_eq!(reply.outcome == Vote::Quarantined, reply.age < min_age, "{reply:?}");
    let release = ReleaseRequest { name, lease, depth_left: 0, notify: NotifyWaiters::No };
    node.release(release).await?;
    Ok(reply.outcome)
}

/// Anything that removes data, or may have removed some, makes a node as young as a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_may_have_lost_data_is_young() {
    const LITTLE: Duration = Duration::from_millis(300);
    const MUCH: Duration = Duration::from_secs(60);
    let (server, other) = (RedisServer::builder().persistent().start(), RedisServer::start());
    let node = redis(&server.url()).await;
    // Asserts that the node is young and grows older.
    let is_young = async |why: &str| {
        until("the node answers", async || node.verify().await.is_ok()).await;
        assert_eq!(vote(&node, MUCH).await.unwrap(), Vote::Quarantined, "{why}");
        until("the node is old enough", async || vote(&node, LITTLE).await.unwrap() == Vote::Granted).await;
        grow_old(&server);
        assert_eq!(vote(&node, MUCH).await.unwrap(), Vote::Granted, "a node that is old enough votes");
    };
    is_young("new server").await;
    server.command(&["FLUSHALL"]);
    is_young("emptied server").await;
    server.restart_empty();
    is_young("restarted without its data").await;
    server.command(&["SAVE"]);
    server.restart();
    assert!(has(&server, "distlock:node"), "the marker is in the dump");
    is_young("data newer than the dump is lost").await;

    grow_old(&other);
    other.command(&["SET", "of the other", "1"]);
    server.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    until("the data of the other server arrives", async || has(&server, "of the other")).await;
    let error = vote(&node, Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.contains("this is a replica"), "{error}");
    until("refused as a node", async || {
        let error = vote(&node, Duration::ZERO).await.unwrap_err().to_string();
        error.contains(&format!("quorum node {}", server.address()))
            && error.contains("an independent master")
    })
    .await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    until("the server accepts writes", async || vote(&node, Duration::ZERO).await.is_ok()).await;
    is_young("data of another server").await;
}

/// The server is verified before the first request of a connection, and not again.
#[tokio::test]
async fn node_is_checked_once_per_connection() {
    /// The test's own request, which is counted after its answer.
    const OWN: u64 = 1;
    let server = RedisServer::start();
    let node = redis(&server.url()).await;
    let before = calls(&server, "info");
    for _ in 0..10 {
        vote(&node, Duration::ZERO).await.unwrap();
    }
    assert_eq!(calls(&server, "info") - before, OWN + 1);
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    let before = calls(&server, "info");
    until("connected again", async || vote(&node, Duration::ZERO).await.is_ok()).await;
    assert!(calls(&server, "info") - before > OWN);
}

#[tokio::test]
async fn key_of_another_type_is_kept_and_not_granted() {
    let server = RedisServer::start();
    let node = redis(&server.url()).await;
    server.command(&["SET", "text", "mine"]);
    server.command(&["HSET", "cart", "apples", "3", "pears", "many"]);
    server.command(&["SET", "redisson_lock_token:{count}", "1e15"]);
    for (lock, says) in [("text", "WRONGTYPE"), ("count", "not a number below 2^53")] {
        let error = propose(&node, name(lock), some_lease(), Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::WrongType, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let reply = propose(&node, name("cart"), some_lease(), Duration::ZERO).await.unwrap();
    assert_eq!(reply.outcome, Vote::Busy { holder: String::new(), remaining: None, counter: 0 });
    assert_eq!(server.command(&["GET", "text"]).text(), "mine");
    assert_eq!(server.command(&["HLEN", "cart"]).integer(), 2);
    assert!(!has(&server, "count"));
}

/// Forty extensions take two calls. A denied one does not affect the others.
#[tokio::test]
async fn extensions_share_calls_and_fail_alone() {
    let rights = "shop on >secret resetkeys ~may:* ~redisson_lock_token:* ~distlock:* allchannels +@all";
    let server = RedisServer::builder().user(rights).start();
    let node = redis(&format!("redis://shop:secret@127.0.0.1:{}", server.port())).await;
    let lease = some_lease();
    let mut items = Vec::new();
    for number in 0..40 {
        let name = name(&format!("may:{number}"));
        let reply = propose(&node, name.clone(), lease, Duration::ZERO).await.unwrap();
        assert_eq!(reply.outcome, Vote::Granted);
        let (duration, not_after) = (2 * LEASE, now(&node) + Duration::from_secs(5));
        items.push(Extension { name, lease, duration, not_after, depth: (number % 2 == 0).then_some(3) });
    }
    node.extend(items.clone()).await;
    let before = calls(&server, "evalsha");
    let replies = node.extend(items.clone()).await;
    assert_eq!(calls(&server, "evalsha") - before, 2);
    assert!(replies.iter().all(|reply| reply.as_ref().unwrap().outcome == Extended::Extended));
    let depths = ["may:0", "may:1"].map(|lock| server.command(&["HVALS", lock]).list()[0].text().to_owned());
    assert_eq!(depths, ["3", "1"]);
    let left = server.command(&["PTTL", "may:39"]).integer();
    assert!(u128::try_from(left).unwrap() > LEASE.as_millis(), "{left} ms are left");

    server.command(&["SET", "may:text", "mine"]);
    let item = |lock: &str| Extension { name: name(lock), ..items[0].clone() };
    let others = [item("may:text"), item("not:mine"), item("may:gone")];
    let replies = node.extend(others.into_iter().chain(items.clone()).collect()).await;
    let kinds = [0, 1].map(|at: usize| replies[at].as_ref().unwrap_err().kind());
    assert_eq!(kinds, [BackendErrorKind::WrongType, BackendErrorKind::Denied]);
    assert_eq!(replies[2].as_ref().unwrap().outcome, Extended::Gone);
    assert!(replies[3..].iter().all(|reply| reply.as_ref().unwrap().outcome == Extended::Extended));
    assert_eq!(replies.len(), 43);
}
