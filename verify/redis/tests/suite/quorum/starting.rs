//! Connecting while a minority is unreachable.

use super::super::support::{answered, quorum, until};
use crate::client::{Redis, RedisBackendBuilder};
use lock_core::{Connectors, LockFactory, Worker};
use lock_testkit::{RedisQuorum, RedisServer, ThreadLog};
use tokio::runtime::Handle;
use tracing::level_filters::LevelFilter;

/// Returns the names of the locks on a server.
fn locks(server: &RedisServer) -> Vec<String> {
    server.keys().into_iter().filter(|key| key == "x").collect()
}

/// The node is dialled until it answers, and votes from then on.
#[tokio::test]
async fn start_does_not_need_a_dead_minority() {
    let nodes = RedisQuorum::start(3);
    let (first, last) = (&nodes.servers()[0], &nodes.servers()[2]);
    last.stop();
    let store = Connectors::default().with(Redis).connect(&format!("{}?durable=true", nodes.url())).await;
    let factory = LockFactory::new(store.unwrap());
    let lock = factory.named("x").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    last.restart_empty();
    // Another process starts while the node has lost its data.
    quorum(&format!("{}?durable=true", nodes.url())).await;
    first.stop();
    // With the second node, there is a majority again.
    until("the last node votes", async || lock.try_acquire().await.is_ok_and(|guard| guard.is_some())).await;
    let guard = lock.acquire().await.unwrap();
    assert_eq!(locks(last), ["x"]);
    guard.release().await.unwrap();
    until("no lock is left", async || locks(last).is_empty()).await;
}

#[tokio::test]
async fn durable_node_that_may_lose_a_second_is_warned_of() {
    for (sync, is_warned_of) in [("everysec", true), ("always", false)] {
        let heard = ThreadLog::listen(LevelFilter::WARN);
        let nodes =
            RedisQuorum::with(3, |server| server.config("appendonly", "yes").config("appendfsync", sync));
        // The log of the test's thread has what happens in its runtime.
        let here = Worker::on(Handle::current());
        let builder = RedisBackendBuilder::from_url(&format!("{}?durable=true", nodes.url())).unwrap();
        builder.worker(here).connect_quorum().await.unwrap();
        assert_eq!(heard.count("`appendfsync` is not `always`") > 0, is_warned_of, "{}", heard.text());
    }
}

/// The minority accepts connections but does not reply.
#[tokio::test]
async fn start_does_not_need_a_silent_minority() {
    let nodes = RedisQuorum::start(5);
    nodes.servers()[1].pause();
    nodes.servers()[4].pause();
    let factory =
        LockFactory::new(answered("the start", quorum(&format!("{}?durable=true", nodes.url()))).await);
    factory.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    nodes.servers()[1].resume();
    nodes.servers()[4].resume();
    until("all nodes are connected", async || nodes.servers().iter().all(|server| server.clients() >= 2))
        .await;
}
