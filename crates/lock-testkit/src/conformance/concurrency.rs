//! Properties of concurrent requests. One request wins, and the replies are consistent with some
//! order.

use super::{
    Harness,
    contender::{Contender, LONG, granted, must_be_free},
};
use lock_core::backend::{Acquired, Released};
use std::collections::BTreeSet;
use tokio::task::JoinSet;

const MANY: usize = 32;

/// Of many simultaneous acquires, exactly one is granted. If votes can split, at most one is
/// granted.
pub async fn of_many_acquires_at_once_one_is_granted(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("race"));
    let other = h.another(&store).await.backend;
    let mut race = JoinSet::new();
    for number in 0..MANY {
        let (contender, name) = (Contender::new([&store.backend, &other][number % 2]), name.clone());
        race.spawn(async move { (contender.acquire(&name, LONG).await, contender) });
    }
    let (mut winners, mut split) = (Vec::new(), false);
    while let Some(finished) = race.join_next().await {
        match finished.expect("a contender panicked") {
            (Acquired::Granted { .. }, winner) => winners.push(winner),
            (Acquired::Busy { .. }, _) => {}
            (Acquired::Contended { .. }, _) => split = true,
            (strange, _) => panic!("expected `Granted`, `Busy` or `Contended`, got {strange:?}"),
        }
    }
    assert!(winners.len() <= 1, "{} winners: {winners:?}", winners.len());
    match winners.first() {
        Some(winner) => drop(winner.must_hold(&name, 1).await),
        None => assert!(split, "the lock was free, but no acquire was granted"),
    }
}

/// An acquire sent many times concurrently creates one hold, and no token is granted twice.
pub async fn one_acquire_sent_many_times_at_once_is_one_hold(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("race-repeat"));
    let a = Contender::new(&backend);
    let mut race = JoinSet::new();
    for _ in 0..MANY {
        let (a, name) = (a.clone(), name.clone());
        race.spawn(async move { a.acquire(&name, LONG).await });
    }
    let mut tokens = BTreeSet::new();
    while let Some(finished) = race.join_next().await {
        tokens.insert(granted(finished.expect("a repeated acquire panicked")).first);
    }
    assert_eq!(tokens.len(), MANY, "every reply must have its own token");
    a.must_hold(&name, 1).await;
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}

/// Of many identical simultaneous releases, exactly one frees the lock.
pub async fn of_many_releases_at_once_one_frees(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("race-release"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    let mut race = JoinSet::new();
    for _ in 0..MANY {
        let (a, name) = (a.clone(), name.clone());
        race.spawn(async move { a.release(&name, 0).await });
    }
    let mut freed = 0;
    while let Some(finished) = race.join_next().await {
        match finished.expect("a release panicked") {
            Released::Released { .. } => freed += 1,
            Released::Gone { held_by_other: false } => {}
            strange => panic!("expected `Released` or `Gone`, got {strange:?}"),
        }
    }
    assert_eq!(freed, 1, "exactly one release must free the lock");
    must_be_free(&backend, &name).await;
}

/// Simultaneous acquires of different locks do not affect each other.
pub async fn many_names_at_once_are_all_granted(h: &impl Harness) {
    let backend = h.store().await.backend;
    let mut race = JoinSet::new();
    for number in 0..MANY {
        let (a, name) = (Contender::new(&backend), h.name(&format!("race-{number}")));
        race.spawn(async move {
            a.take(&name, LONG).await;
            a.must_hold(&name, 1).await;
            a.free(&name).await;
        });
    }
    while let Some(finished) = race.join_next().await {
        finished.expect("a task panicked");
    }
}
