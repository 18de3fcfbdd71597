//! Connecting while some of the slots have no server: the locks of the others can be used, and the rest joins later.

use super::super::support::{answered, redis, until};
use crate::client::RedisBackend;
use lock_core::{LockErrorKind, LockFactory};
use lock_testkit::{RedisCluster, RedisServer};

/// Returns one name per master.
fn names(cluster: &RedisCluster) -> Vec<String> {
    let at = |server: &RedisServer| {
        let mut names = (0..).map(|number| format!("name:{number}"));
        names.find(|name| cluster.server_of(name).port() == server.port()).unwrap()
    };
    cluster.servers()[..3].iter().map(at).collect()
}

async fn cycle(locks: &LockFactory, name: &str) {
    let acquiring = locks.named(name).unwrap().acquire();
    let guard = answered("the acquire", acquiring).await.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    guard.release().await.unwrap();
}

/// Returns the warnings of a start that do not concern settings.
fn warnings(backend: &RedisBackend) -> String {
    backend.warnings().iter().map(|warning| format!("{warning}\n")).collect()
}

/// Stops a master and its replica, and starts processes.
async fn starts_without_a_shard(cluster: &RedisCluster) -> Vec<(LockFactory, String)> {
    let dead = &cluster.servers()[1];
    dead.stop();
    cluster.servers()[4].stop();
    let living = format!("redis-cluster://{}", cluster.servers()[2].address());
    let mut started = Vec::new();
    for url in [cluster.url(), living] {
        let backend = answered("the start", redis(&url)).await;
        let warnings = warnings(&backend);
        assert!(warnings.contains(&dead.address().to_string()), "{warnings}");
        started.push((LockFactory::new(backend), warnings));
    }
    started
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_shard_does_not_stop_a_start() {
    let cluster = RedisCluster::start();
    let names = names(&cluster);
    let started = starts_without_a_shard(&cluster).await;
    let mut waiting = Vec::new();
    for (locks, warnings) in &started {
        assert!(warnings.contains("Connection refused"), "{warnings}");
        cycle(locks, &names[0]).await;
        cycle(locks, &names[2]).await;
        let error = locks.named(names[1].as_str()).unwrap().try_acquire().await.map(drop).unwrap_err();
        assert_eq!((error.kind(), error.is_ambiguous()), (LockErrorKind::Unavailable, false), "{error:#}");
        assert!(format!("{error:#}").contains("Connection refused"), "the cause is named: {error:#}");
        let (locks, name) = (locks.clone(), names[1].clone());
        waiting.push(tokio::spawn(async move { cycle(&locks, &name).await }));
    }
    cluster.servers()[1].restart();
    for waiting in waiting {
        answered("the waiter", waiting).await.expect("the shard is back");
    }
}

/// Then every node refuses every slot, as the default of Redis has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_that_refuses_every_slot_does_not_stop_a_start() {
    let cluster = RedisCluster::with(|server| server.config("cluster-require-full-coverage", "yes"));
    let names = names(&cluster);
    cluster.servers()[1].stop();
    cluster.servers()[4].stop();
    until("the cluster is down", async || {
        let info = cluster.servers()[0].command(&["CLUSTER", "INFO"]).text().to_owned();
        info.contains("cluster_state:fail")
    })
    .await;
    let locks = LockFactory::new(answered("the start", redis(&cluster.url())).await);
    let error = locks.named(names[0].as_str()).unwrap().try_acquire().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:#}");
    assert!(format!("{error:#}").contains("CLUSTERDOWN"), "the cause is named: {error:#}");
    cluster.servers()[1].restart();
    for name in &names {
        cycle(&locks, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_does_not_stop_a_start() {
    let cluster = RedisCluster::start();
    let names = names(&cluster);
    for (end, name) in [RedisServer::stop as fn(&RedisServer), RedisServer::pause].into_iter().zip(&names) {
        end(cluster.server_of(name));
        let locks = LockFactory::new(answered("the start", redis(&cluster.url())).await);
        for name in &names {
            cycle(&locks, name).await;
        }
    }
}
