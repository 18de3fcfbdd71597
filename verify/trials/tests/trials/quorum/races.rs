//! Ten clients request one free lock at the same moment: the number of rounds until one of them holds it.

use super::{addresses, start, url};
use crate::{
    figure::{Figure, Run},
    stage::{lock, on_a_runtime, store},
};
use lock_core::{
    LockFactory,
    observer::{LockEvent, LockEventKind, LockObserver},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::{sync::Barrier, task::JoinSet};

const CLIENTS: usize = 10;
const ROUNDS: usize = 5;

/// The rounds of a client for each name, until the name is granted.
#[derive(Debug, Clone, Default)]
struct Rounds(Arc<Mutex<HashMap<String, Count>>>);

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    rounds: usize,
    granted: bool,
}

impl LockObserver for Rounds {
    fn on_event(&self, event: &LockEvent<'_>) {
        let mut counts = self.0.lock().unwrap();
        let count = counts.entry(event.name.to_string()).or_default();
        match &event.kind {
            LockEventKind::Voted { .. } if !count.granted => count.rounds += 1,
            LockEventKind::Granted { .. } => count.granted = true,
            _ => {}
        }
    }
}

pub(crate) fn split_votes(run: &Run) -> Vec<Figure> {
    let races = run.times(50, 1_000);
    let mut rounds = on_a_runtime(all(races));
    rounds.sort_unstable();
    let within = rounds.iter().filter(|rounds| **rounds <= ROUNDS).count();
    assert!(within * 100 >= races * 99, "{within} of {races} within {ROUNDS} rounds: {rounds:?}");
    vec![Figure::new(
        "10 clients ask for one free lock of a quorum of 5 at the same moment, until each has had it",
        races,
        format!("the first holder needs at most {ROUNDS} rounds in 99 % of the races; each has its turn"),
        format!(
            "{:.1} %; rounds p50 {}, most {}",
            within as f64 * 100.0 / races as f64,
            rounds[races / 2],
            rounds[races - 1]
        ),
    )]
}

/// Returns the rounds of the first holder of each race.
async fn all(races: usize) -> Vec<usize> {
    let servers = start();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let store = store(&url(addresses(&servers), "durable=true")).await;
        let rounds = Rounds::default();
        clients.push((LockFactory::builder(store).observer(rounds.clone()).build().unwrap(), rounds));
    }
    let mut first = Vec::new();
    for race in 0..races {
        first.push(one(&clients, &format!("race:{race}")).await);
    }
    first
}

async fn one(clients: &[(LockFactory, Rounds)], name: &str) -> usize {
    let (start, mut running) = (Arc::new(Barrier::new(clients.len())), JoinSet::new());
    for (number, (locks, _)) in clients.iter().enumerate() {
        let (lock, start) = (lock(locks, name), start.clone());
        running.spawn(async move {
            start.wait().await;
            let guard = lock.acquire().await.unwrap();
            let token = guard.fencing_token();
            assert!(guard.release().await.unwrap().was_held());
            (token, number)
        });
    }
    let (_, first) = running.join_all().await.into_iter().min().unwrap();
    clients[first].1.0.lock().unwrap()[name].rounds
}
