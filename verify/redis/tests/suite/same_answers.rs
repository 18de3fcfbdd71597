//! Redis and the store rules give the same answers, over random sequences of operations.

use super::support::{client, long, name};
use lock_core::backend::BackendExt as _;
use lock_testkit::{PermitRun, RedisServer, RulesRun, Seed, contender::Contender};
use std::{sync::Arc, time::Duration};

const SEQUENCES: u64 = 10;
/// The number of steps in a long run; otherwise half of it.
const STEPS: u64 = 10_000;
/// The number of batches in a long run; otherwise a twentieth of it.
const BATCHES: u64 = 10_000;

/// Loads the scripts into the server. Otherwise a text that is sent after its hash was refused could be overtaken by the
/// next call.
async fn load_scripts(server: &RedisServer) {
    let store = client(&server.url()).await;
    let warm = Contender::new(&store);
    let name = name("warm");
    warm.take(&name, Duration::from_secs(60)).await;
    warm.keep(&name, 2, Duration::from_secs(60)).await;
    for renewals in [1, 3] {
        store.renew(vec![warm.renewal(&name, Duration::from_secs(60)); renewals]).await;
    }
    warm.free(&name).await;
}

fn all_kinds_are_seen(run: &RulesRun, kinds: usize, least: u64) {
    let seen = run.seen();
    assert!(seen.len() >= kinds, "some kinds of answers are missing: {seen:?}");
    assert!(seen.values().all(|&times| times >= least), "some kinds of answers are too rare: {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_batches_are_answered_as_the_store_rules_say() {
    let (server, seed) = (RedisServer::start(), Seed::of_this_run());
    load_scripts(&server).await;
    let mut run = RulesRun::new(client(&server.url()).await, seed);
    let batches = if long() { BATCHES } else { BATCHES / 20 };
    for _ in 0..batches {
        run.batch().await;
    }
    all_kinds_are_seen(&run, 9, batches / 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_on_pools_are_answered_as_the_rules_say() {
    let (server, seed) = (RedisServer::start(), Seed::of_this_run());
    let mut run = PermitRun::new(client(&server.url()).await, seed);
    // The script is loaded by the first one.
    run.step(0).await;
    for _ in 0..if long() { STEPS } else { STEPS / 20 } {
        run.step(40).await;
    }
    let seen = run.seen();
    assert!(seen.len() == 8 && seen.values().all(|&times| times > 50), "{seen:?}");
}

/// Runs several sequences at once, since they mostly wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_are_answered_as_the_store_rules_say() {
    let (server, seed) = (Arc::new(RedisServer::start()), Seed::of_this_run());
    let sequences: Vec<_> = (0..SEQUENCES)
        .map(|number| tokio::spawn(sequence(server.clone(), Seed::new(seed.get() ^ number))))
        .collect();
    for sequence in sequences {
        sequence.await.unwrap();
    }
}

async fn sequence(server: Arc<RedisServer>, seed: Seed) {
    let mut run = RulesRun::new(client(&server.url()).await, seed);
    let steps = if long() { STEPS } else { STEPS / 2 };
    for _ in 0..steps {
        run.step().await;
    }
    all_kinds_are_seen(&run, 11, steps / 500);
}
