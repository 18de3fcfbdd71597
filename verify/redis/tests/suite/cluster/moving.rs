//! Slots that move while their locks are held, awaited and renewed.

use super::super::support::{answered, factory, redis, until};
use futures_util::future::join_all;
use lock_core::{LockFactory, LockOptions};
use lock_testkit::{RedisCluster, RedisServer};
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(6);

/// Returns the node of a name, and another node.
fn two<'a>(cluster: &'a RedisCluster, name: &str) -> (&'a RedisServer, &'a RedisServer) {
    let from = cluster.server_of(name);
    let to = cluster.servers()[..3].iter().find(|server| server.port() != from.port());
    (from, to.expect("there are three"))
}

/// The keys are on two nodes for longer than the lease. The hold is not lost, and the new node wakes waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_survives_the_move_of_its_slot() {
    let cluster = RedisCluster::start();
    let locks = factory(&cluster.url(), LEASE).await;
    // The waiter cannot be served while the lock and its counter are on two nodes.
    let patient = LockOptions::new().lease(LEASE).outage_budget(10 * LEASE);
    let others = LockFactory::builder(redis(&cluster.url()).await).options(patient).build().unwrap();
    let guard = locks.named("a").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(others.named("a").unwrap().acquire());
    let (slot, (from, to)) = (cluster.slot_of("a"), two(&cluster, "a"));
    cluster.begin_move(slot, from, to);
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "renewed on the old node");
    // From now on the lock is on the new node and its counter on the old one.
    let port = to.port().to_string();
    let migrate = ["MIGRATE", "127.0.0.1", &port, "a", "0", "5000", "AUTH2", "testkit", "testkit"];
    assert_eq!(from.command(&migrate).text(), "OK");
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "renewed with ASKING");
    cluster.end_move(slot, from, to);
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "renewed on the new node");
    let token = guard.fencing_token();
    let begin = Instant::now();
    guard.release().await.unwrap();
    let next = answered("the waiter", waiting).await.unwrap().unwrap();
    assert!(next.fencing_token() > token);
    eprintln!("cluster: the waiter was granted {:?} after the release on the new node", begin.elapsed());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_starts_while_a_slot_is_moved() {
    let cluster = RedisCluster::start();
    let (slot, (from, to)) = (cluster.slot_of("a"), two(&cluster, "a"));
    cluster.begin_move(slot, from, to);
    let locks = factory(&cluster.url(), LEASE).await;
    cluster.end_move(slot, from, to);
    for name in ["a", "b"] {
        let acquiring = locks.named(name).unwrap().acquire();
        answered("the acquire", acquiring).await.unwrap().release().await.unwrap();
    }
}

/// While the keys of a slot are on two nodes, an acquire in it waits, but acquires in other slots do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_in_migration_delays_no_other_slot() {
    let cluster = RedisCluster::start();
    let locks = factory(&cluster.url(), LEASE).await;
    let (slot, (from, to)) = (cluster.slot_of("a"), two(&cluster, "a"));
    // The same node, another slot.
    let other = (0..)
        .map(|number| format!("other:{number}"))
        .find(|name| cluster.server_of(name).port() == from.port());
    let other = other.unwrap();
    locks.named("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    cluster.begin_move(slot, from, to);
    let waiter = || {
        let acquiring = locks.named("a").unwrap().acquire();
        tokio::spawn(async move { acquiring.await.unwrap().release().await.unwrap().was_held() })
    };
    let stuck: Vec<_> = (0..20).map(|_| waiter()).collect();
    let begin = Instant::now();
    for _ in 0..50 {
        locks.named(other.as_str()).unwrap().acquire().await.unwrap().release().await.unwrap();
    }
    let cycle = begin.elapsed() / 50;
    eprintln!("cluster: a cycle in another slot took {cycle:?} during a migration");
    assert!(stuck.iter().all(|task| !task.is_finished()), "acquires wait for the end of the migration");
    cluster.end_move(slot, from, to);
    let ended = Instant::now();
    for task in stuck {
        assert!(answered("a waiter", task).await.unwrap());
    }
    eprintln!(
        "cluster: the waiters of the slot were served within {:?} of the end of its move",
        ended.elapsed()
    );
}

/// Two processes contend for names whose slots move back and forth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_held_once_while_their_slots_move() {
    let cluster = RedisCluster::start();
    let options = LockOptions::new().lease(LEASE).outage_budget(Duration::from_secs(60));
    let process =
        async || LockFactory::builder(redis(&cluster.url()).await).options(options).build().unwrap();
    let processes = [process().await, process().await];
    let names = ["a", "b", "c"];
    let until_then = Instant::now() + Duration::from_secs(4);
    let inside: Vec<_> = names.iter().map(|_| AtomicUsize::new(0)).collect();
    let contend = async |locks: &LockFactory, name: &str, inside: &AtomicUsize| {
        let (mut grants, mut worst, mut token) = (0u32, Duration::ZERO, None);
        while Instant::now() < until_then {
            let begin = Instant::now();
            let guard = locks.named(name).unwrap().acquire().await.unwrap();
            worst = worst.max(begin.elapsed());
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "{name} is held twice");
            assert!(token < Some(guard.fencing_token()), "tokens of {name} rise");
            token = Some(guard.fencing_token());
            inside.fetch_sub(1, SeqCst);
            let _ = guard.release().await;
            grants += 1;
        }
        (grants, worst)
    };
    let pairs = processes.iter().flat_map(|locks| names.iter().zip(&inside).map(move |lock| (locks, lock)));
    let load = join_all(pairs.map(|(locks, (name, inside))| contend(locks, name, inside)));
    let moves = async {
        for round in 0..4 {
            let name = names[round % names.len()];
            let (slot, (from, to)) = (cluster.slot_of(name), two(&cluster, name));
            cluster.begin_move(slot, from, to);
            tokio::time::sleep(Duration::from_millis(300)).await;
            cluster.end_move(slot, from, to);
            until("all nodes know the new owner", async || cluster.server_of(name).port() == to.port()).await;
        }
    };
    let (served, ()) = answered("the load", async { tokio::join!(load, moves) }).await;
    let grants: u32 = served.iter().map(|(grants, _)| grants).sum();
    let worst = served.iter().map(|(_, worst)| *worst).max().unwrap();
    eprintln!("cluster: {grants} grants while slots moved, the longest wait {worst:?}");
    assert!(grants > 100, "{grants}");
}
