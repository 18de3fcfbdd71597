//! Names in many slots: each lock is on its own node, with its counter and its messages.

use super::super::support::{factory, redis, until};
use crate::client::RedisBackendBuilder;
use futures_util::future::join_all;
use lock_core::{LockFactory, LockOptions};
use lock_testkit::RedisCluster;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_all_slots_are_served_at_once() {
    let cluster = RedisCluster::start();
    let locks = factory(&cluster.url(), LEASE).await;
    let names: Vec<_> = (0..300).map(|number| format!("name:{number}")).collect();
    let acquired = join_all(names.iter().map(|name| locks.named(name.as_str()).unwrap().acquire())).await;
    let guards: Vec<_> = acquired.into_iter().map(Result::unwrap).collect();
    for server in &cluster.servers()[..3] {
        let keys = server.keys();
        let held: Vec<_> = keys.iter().filter(|key| key.starts_with("name:")).collect();
        assert!(held.len() > 50, "about a third of the locks: {}", held.len());
        for key in held {
            assert!(keys.contains(&format!("redisson_lock_token:{{{key}}}")), "the counter of {key}");
        }
    }
    for released in join_all(guards.into_iter().map(|guard| guard.release())).await {
        assert!(released.unwrap().was_held());
    }
    assert!(cluster.keys().iter().all(|key| key.starts_with("redisson_lock_token:")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_come_from_the_node_of_the_name() {
    let cluster = RedisCluster::start();
    let (locks, others) = (factory(&cluster.url(), LEASE).await, factory(&cluster.url(), LEASE).await);
    for name in ["a", "b", "c", "d", "{a}x"] {
        let guard = locks.named(name).unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn(others.named(name).unwrap().acquire());
        let server = cluster.server_of(name);
        let old = server.version().starts_with("6.");
        let kind = if old { "CHANNELS" } else { "SHARDCHANNELS" };
        let channel = if name.contains('{') { format!(":{name}") } else { format!(":{{{name}}}") };
        until("the waiter is subscribed on the node of the lock", async || {
            let channels = server.command(&["PUBSUB", kind]);
            channels.list().iter().any(|other| other.text().ends_with(&channel))
        })
        .await;
        guard.release().await.unwrap();
        let begin = std::time::Instant::now();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(begin.elapsed() < LEASE / 3, "woken before it polled");
    }
}

/// For a fleet that shares locks with a Redisson without sharded channels. A message reaches the subscribers of every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_channels_wake_waiters_in_a_cluster() {
    let cluster = RedisCluster::start();
    let plain = async || {
        let builder = RedisBackendBuilder::from_url(&cluster.url()).unwrap().plain_channels(true);
        let options = LockOptions::new().lease(LEASE);
        LockFactory::builder(builder.connect().await.unwrap()).options(options).build().unwrap()
    };
    let (locks, others) = (plain().await, plain().await);
    for name in ["a", "b", "c"] {
        let guard = locks.named(name).unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn(others.named(name).unwrap().acquire());
        let channel = format!("redisson_lock__channel:{{{name}}}");
        // As another program publishes, at any node.
        let reached = || {
            let nodes = cluster.servers()[..3].iter();
            nodes
                .map(|server| server.command(&["PUBSUB", "NUMSUB", &channel]).list()[1].integer())
                .sum::<i64>()
        };
        until("the waiter is subscribed to a plain channel", async || reached() > 0).await;
        guard.release().await.unwrap();
        let begin = std::time::Instant::now();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(begin.elapsed() < LEASE / 3, "woken before it polled");
    }
}

#[tokio::test]
async fn cluster_is_alive_if_all_its_masters_are() {
    let cluster = RedisCluster::start();
    let backend = redis(&cluster.url()).await;
    assert!(backend.is_connected());
    backend.ping().await.unwrap();
    let master = &cluster.servers()[1];
    master.stop();
    until("the death is noticed", async || !backend.is_connected()).await;
    until("the replica replaces it", async || backend.is_connected() && backend.ping().await.is_ok()).await;
    assert_ne!(cluster.server_of("anything").port(), master.port());
}
