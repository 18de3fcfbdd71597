//! Faults of a cluster of three: servers that die, hang or are cut off, and sessions that end.

use super::{
    scenarios,
    support::{Tested, connect},
};
use lock_core::{FencingToken, LockErrorKind, LockFactory, LockGuard, LockOptions};
use lock_testkit::Cluster;
use std::{
    env,
    time::{Duration, Instant},
};
use tokio::{
    task::block_in_place,
    time::{sleep, timeout},
};

scenarios! {
    loss_of_a_server_loses_no_hold
    former_leader_ends_no_hold
    minority_grants_nothing
    restart_of_the_cluster_keeps_holds_and_wakes_waiters
    release_of_a_removed_holder_leaves_the_next_one_alone
}

const PATIENCE: Duration = Duration::from_secs(60);

/// A client of a cluster of this many servers.
async fn client<P: Tested>(cluster: &Cluster<P>, number: usize, session: u32) -> LockFactory {
    let hosts: Vec<_> = (0..number).map(|number| cluster.address(number).to_string()).collect();
    connect::<P>(&P::url(&hosts.join(","), "shop", session)).await
}

/// Releases the lock, whose waiter in another process has it then. Returns the waiter's guard.
async fn hand_over(guard: LockGuard, others: &LockFactory, last: FencingToken) -> LockGuard {
    let lock = others.named(guard.name().as_str()).unwrap();
    let waiting = tokio::spawn(lock.acquire_timeout(PATIENCE));
    sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished(), "two holders");
    assert!(guard.is_held());
    match guard.release().await {
        Ok(outcome) => assert!(outcome.was_held()),
        // An election may take longer than a release waits. It is repeated until it is confirmed.
        Err(error) => assert_eq!(error.kind(), LockErrorKind::Unconfirmed),
    }
    let newer = waiting.await.unwrap().unwrap();
    assert!(newer.fencing_token() > last, "{} after {last}", newer.fencing_token());
    newer
}

/// Whichever server dies, is suspended or comes back, a hold continues, and the next one has a greater token.
async fn loss_of_a_server_loses_no_hold<P: Tested>() {
    let cluster = block_in_place(|| Cluster::<P>::start(3));
    let (locks, others) = (client(&cluster, 3, 30).await, client(&cluster, 3, 30).await);
    let mut guard = locks.named("x").unwrap().acquire().await.unwrap();
    for round in 0..3 {
        let last = guard.fencing_token();
        let leader = block_in_place(|| cluster.leader());
        let follower = (leader + 1) % 3;
        block_in_place(|| match round {
            0 => cluster.stop(leader),
            1 => cluster.stop(follower),
            _ => cluster.pause(leader),
        });
        guard = hand_over(guard, if round % 2 == 0 { &others } else { &locks }, last).await;
        block_in_place(|| match round {
            0 => cluster.restart(&[leader]),
            1 => cluster.restart(&[follower]),
            _ => cluster.resume(leader),
        });
        assert!(guard.is_held());
    }
    guard.release().await.unwrap();
}

/// A leader hangs for longer than the sessions, which its successor renews. When it comes back, it ends those that it knows.
/// The locks are not in them any more, so those that outlived the election of the successor are still held afterwards.
async fn former_leader_ends_no_hold<P: Tested>() {
    let cluster = block_in_place(|| Cluster::<P>::start(3));
    let mut held = Vec::new();
    for number in 0..30 {
        let locks = client(&cluster, 3, 10).await;
        let guard = locks.named(format!("x:{number}")).unwrap().acquire().await.unwrap();
        held.push((locks, guard));
    }
    let others = client(&cluster, 3, 10).await;
    let leader = block_in_place(|| cluster.leader());
    block_in_place(|| cluster.pause(leader));
    sleep(Duration::from_secs(12)).await;
    // On a slow machine, an election can take as long as a session.
    held.retain(|(_, guard)| guard.is_held());
    assert!(!held.is_empty(), "no hold has outlived the election");
    block_in_place(|| cluster.resume(leader));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        for (_, guard) in &held {
            let other = others.named(guard.name().as_str()).unwrap().try_acquire().await;
            assert!(!(guard.is_held() && matches!(other, Ok(Some(_)))), "{} has two holders", guard.name());
        }
        sleep(Duration::from_millis(100)).await;
    }
    for (locks, guard) in held {
        assert!(guard.is_held(), "{} was lost", guard.name());
        assert!(guard.release().await.unwrap().was_held());
        locks.shutdown().await;
    }
}

/// Without a majority, nothing is granted. A hold continues if the majority is back before its lease ends.
async fn minority_grants_nothing<P: Tested>() {
    let cluster = block_in_place(|| Cluster::<P>::start(3));
    let (locks, others) = (client(&cluster, 3, 30).await, client(&cluster, 3, 30).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let last = guard.fencing_token();
    block_in_place(|| (cluster.stop(0), cluster.stop(1)));
    let refused = others.named("y").unwrap().acquire_timeout(Duration::from_secs(4)).await;
    assert!(refused.is_err(), "granted by a minority");
    block_in_place(|| cluster.restart(&[0, 1]));
    let newer = hand_over(guard, &others, last).await;
    newer.release().await.unwrap();
    others.named("y").unwrap().acquire_timeout(PATIENCE).await.unwrap().release().await.unwrap();
}

/// All servers are killed at once, and come back with their data. A waiter is woken by the next release, and does not ask by
/// itself.
async fn restart_of_the_cluster_keeps_holds_and_wakes_waiters<P: Tested>() {
    let cluster = block_in_place(|| Cluster::<P>::start(3));
    let (locks, others) = (client(&cluster, 3, 30).await, client(&cluster, 3, 30).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let options = LockOptions::default().lease(Duration::from_secs(20)).poll_interval(PATIENCE * 10);
    let lock = others.named("x").unwrap().with_options(options).unwrap();
    let waiting = tokio::spawn(lock.acquire_timeout(PATIENCE * 10));
    sleep(Duration::from_secs(1)).await;
    block_in_place(|| cluster.restart(&[0, 1, 2]));
    sleep(Duration::from_secs(1)).await;
    assert!(guard.is_held() && !waiting.is_finished());
    let last = guard.fencing_token();
    let released = Instant::now();
    let outcome = timeout(PATIENCE, guard.release()).await.unwrap();
    assert!(outcome.unwrap().was_held());
    let newer = timeout(PATIENCE, waiting).await.expect("it is woken").unwrap().unwrap();
    let waited = released.elapsed();
    println!("woken {waited:.1?} after the release, 1 s after the restart of all three servers");
    assert!(env::var_os("LOCK_LONG").is_none() || waited < Duration::from_secs(1), "{waited:?}");
    assert!(newer.fencing_token() > last);
}

/// The owner of a lock is removed by hand, and its lock is granted to another process. The old holder notices, and its
/// release leaves the new one alone.
async fn release_of_a_removed_holder_leaves_the_next_one_alone<P: Tested>() {
    let cluster = block_in_place(|| Cluster::<P>::start(1));
    let (locks, others) = (client(&cluster, 1, 8).await, client(&cluster, 1, 8).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let lock = others.named("x").unwrap();
    others.force_release(lock.name()).await.unwrap();
    let newer = lock.acquire_timeout(PATIENCE).await.unwrap();
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("it notices");
    assert!(!guard.release().await.unwrap().was_held());
    sleep(Duration::from_secs(3)).await;
    assert!(newer.is_held(), "the next holder was disturbed");
    assert!(newer.release().await.unwrap().was_held());
}
