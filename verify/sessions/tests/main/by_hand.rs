//! Nodes of ZooKeeper that an operator deletes or reads by hand.

use super::support::Keys;
use lock_core::inspect::ListLimits;
use lock_testkit::ZooKeeper;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use zookeeper_client::Client;

const PATIENCE: Duration = Duration::from_secs(60);

/// Another process gets the lock. The old holder notices, and its release leaves the new one alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_owner_frees_the_lock_and_no_more() {
    let keys = Keys::<ZooKeeper>::new();
    let operator = Client::connect(&Keys::<ZooKeeper>::server().to_string()).await.unwrap();
    let (locks, others) = (keys.locks().await, keys.locks().await);
    for notices in [false, true] {
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        operator.delete(&format!("{}/lock/x/owner", keys.root()), None).await.unwrap();
        let newer = others.named("x").unwrap().acquire_timeout(PATIENCE).await.unwrap();
        if notices {
            timeout(PATIENCE, guard.lost()).await.expect("it notices");
        }
        assert!(!guard.release().await.unwrap().was_held());
        sleep(Duration::from_secs(1)).await;
        assert!(operator.check_stat(&format!("{}/lock/x/owner", keys.root())).await.unwrap().is_some());
        assert!(newer.is_held(), "the next holder was disturbed");
        assert!(newer.release().await.unwrap().was_held());
    }
}

/// The owner is deleted, and nobody else acquires. The release of its holder leaves no node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_after_a_deleted_owner_leaves_no_node() {
    let keys = Keys::<ZooKeeper>::new();
    let operator = Client::connect(&Keys::<ZooKeeper>::server().to_string()).await.unwrap();
    let guard = keys.locks().await.named("x").unwrap().acquire().await.unwrap();
    operator.delete(&format!("{}/lock/x/owner", keys.root()), None).await.unwrap();
    assert!(!guard.release().await.unwrap().was_held());
    let begun = Instant::now();
    while operator.list_children(&format!("{}/lock/x", keys.root())).await.is_ok_and(|left| !left.is_empty())
    {
        assert!(begun.elapsed() < PATIENCE, "the node of the grant is left");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Strange names are single nodes, and are listed as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_escaped() {
    let keys = Keys::<ZooKeeper>::new();
    let locks = keys.locks().await;
    let names = [".", "..", "../card", "a/b", "a%2Fb", "zookeeper", "é ü", "owner", "%", "a.b"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(locks.named(name).unwrap().try_acquire().await.unwrap().expect("it is free"));
    }
    let listing = locks.list("", ListLimits::default()).await.unwrap();
    let mut listed: Vec<_> = listing.names.iter().map(|name| name.as_str().to_owned()).collect();
    listed.sort_unstable();
    let mut expected = names.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(listed, expected);
}
