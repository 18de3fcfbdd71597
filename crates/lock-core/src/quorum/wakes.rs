//! Wake-ups of a quorum: a name is watched on all nodes, and a release is reported when a majority reported it.

use super::{
    background::go_on,
    burst::{Burst, Message},
    gather::Gather,
    member::Member,
    shared::{STRAGGLER_TIMEOUT, Shared},
    tally::{Ruling, Tally, Word},
    timer::pause,
};
use crate::{
    backend::{
        Applied, BackendError, MissedWakes, SubscriberId, SubscriptionRegistry, VoteKind, WakeListener,
    },
    name::LockName,
    sync::{Mutex, lock, rank},
};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

/// A release that only a minority reports is reported after this time.
const MINORITY_DELAY: Duration = Duration::from_millis(20);

/// The subscriptions of a quorum.
#[derive(Debug)]
pub(super) struct Wakes {
    shared: Arc<Shared>,
    subscribers: SubscriptionRegistry,
    bursts: Mutex<rank::QuorumWakes, HashMap<LockName, Burst>>,
    /// Kept alive: the nodes have weak references.
    ears: Vec<(Arc<Ear>, SubscriberId)>,
}

/// Listens to one node.
#[derive(Debug)]
struct Ear {
    node: usize,
    wakes: Weak<Wakes>,
}

impl WakeListener for Ear {
    fn released(&self, name: &LockName) {
        if let Some(wakes) = self.wakes.upgrade() {
            wakes.hear(self.node, name);
        }
    }

    fn wake_all(&self, reason: MissedWakes) {
        if let Some(wakes) = self.wakes.upgrade() {
            wakes.subscribers.wake_all(reason);
        }
    }

    fn server_restarted(&self) {
        if let Some(wakes) = self.wakes.upgrade() {
            wakes.subscribers.server_restarted();
        }
    }
}

impl Wakes {
    pub(super) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new_cyclic(|wakes: &Weak<Self>| {
            let listen = |(node, member): (usize, &Member)| {
                let ear = Arc::new(Ear { node, wakes: wakes.clone() });
                let listener = Arc::downgrade(&ear);
                let id = member.backend.register_listener(listener);
                (ear, id)
            };
            let ears = shared.nodes.iter().enumerate().map(listen).collect();
            let (subscribers, bursts) = (SubscriptionRegistry::default(), Mutex::default());
            Self { shared: shared.clone(), subscribers, bursts, ears }
        })
    }

    pub(super) fn register(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.subscribers.forget_gone();
        self.subscribers.register_listener(listener)
    }

    fn hear(self: &Arc<Self>, node: usize, name: &LockName) {
        let message = match lock(&self.bursts).get_mut(name) {
            Some(burst) => burst.hear(node, self.shared.majority()),
            // Nobody watches it any more.
            None => return,
        };
        match message {
            Message::Known => {}
            Message::Report => drop(self.subscribers.released(name)),
            Message::First(number) => {
                let (wakes, name) = (self.clone(), name.clone());
                go_on(async move {
                    let clock = wakes.shared.clock.clone();
                    pause(&*clock, clock.now() + MINORITY_DELAY).await;
                    let overdue =
                        lock(&wakes.bursts).get_mut(&name).is_some_and(|burst| burst.is_overdue(number));
                    if overdue {
                        wakes.subscribers.released(&name);
                    }
                });
            }
        }
    }

    /// Watches a name on all nodes; returns when a majority acknowledged it.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        subscriber: SubscriberId,
        name: LockName,
    ) -> Result<(), BackendError> {
        self.subscribers.subscribe(subscriber, name.clone());
        lock(&self.bursts).entry(name.clone()).or_default();
        self.ask_all(&name, Wish::Watch).await
    }

    /// Ends a subscription; the last one of a name ends it on all nodes.
    pub(super) async fn unsubscribe(
        self: &Arc<Self>,
        subscriber: SubscriberId,
        name: LockName,
    ) -> Result<(), BackendError> {
        if !self.subscribers.unsubscribe(subscriber, &name) {
            return Ok(());
        }
        lock(&self.bursts).remove(&name);
        self.ask_all(&name, Wish::Leave).await
    }

    async fn ask_all(self: &Arc<Self>, name: &LockName, wish: Wish) -> Result<(), BackendError> {
        let nodes = self.shared.nodes.len();
        let mut coming = Gather::new();
        for (node, (_, id)) in self.ears.iter().enumerate() {
            let (backend, name, id) = (self.shared.nodes[node].backend.clone(), name.clone(), *id);
            coming.push(async move {
                let answer = match wish {
                    Wish::Watch => backend.subscribe(id, name).await,
                    Wish::Leave => backend.unsubscribe(id, name).await,
                };
                (node, answer)
            });
        }
        let (mut tally, mut kinds) = (Tally::new(nodes), vec![None; nodes]);
        let clock = self.shared.clock.clone();
        while tally.ruling().is_none() {
            let until = clock.now() + STRAGGLER_TIMEOUT;
            let Some((node, answer)) = coming.next(&*clock, until).await else { break };
            tally.add(if answer.is_ok() { Word::Yes } else { Word::Out });
            kinds[node] = answer.err().map(|error| VoteKind::Failed { error: error.to_string() });
            if tally.is_lost() {
                break;
            }
        }
        let (wakes, name) = (self.clone(), name.clone());
        go_on(async move {
            let until = clock.now() + STRAGGLER_TIMEOUT;
            while let Some((node, _)) = coming.next(&*clock, until).await {
                tokio::select! {
                    biased;
                    () = wakes.correct(node, &name, wish) => {}
                    () = pause(&*clock, until) => break,
                }
            }
        });
        match tally.ruling() {
            Some(Ruling::Yes) => Ok(()),
            _ => {
                let votes = self.shared.votes(kinds);
                Err(self.shared.no_majority("acknowledged the subscription", Applied::Unknown, votes))
            }
        }
    }

    /// A straggler was answered after the wish had changed.
    async fn correct(&self, node: usize, name: &LockName, wish: Wish) {
        let is_watched = lock(&self.bursts).contains_key(name);
        let (backend, id) = (&self.shared.nodes[node].backend, self.ears[node].1);
        // If it fails, only a hint is lost.
        let _ = match (wish, is_watched) {
            (Wish::Watch, false) => backend.unsubscribe(id, name.clone()).await,
            (Wish::Leave, true) => backend.subscribe(id, name.clone()).await,
            _ => Ok(()),
        };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Watch,
    Leave,
}
