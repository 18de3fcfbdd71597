//! Wake-ups of a quorum: names are watched on all nodes, and a release is reported once a majority has reported it.

use crate::{
    gather::{Question, Sent, ask_all, pause},
    node::Member,
    round::{Burst, Message, Ruling, Word},
    shared::{STRAGGLER_TIMEOUT, Shared, failed},
};
use lock_core::{
    __private::{in_background, lock},
    LockName,
    backend::{
        Applied, BackendError, MissedWakes, SubscriberId, SubscriptionRegistry, VoteKind, WakeListener,
    },
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// Delay after which a release is reported even if only a minority has reported it.
const MINORITY_DELAY: Duration = Duration::from_millis(20);

/// The subscriptions of a quorum.
#[derive(Debug)]
pub(crate) struct Wakes {
    shared: Arc<Shared>,
    subscribers: SubscriptionRegistry,
    bursts: Mutex<HashMap<LockName, Burst>>,
    /// Listeners on the nodes. They are kept alive here because the nodes have only weak references.
    listeners: Vec<(Arc<NodeListener>, SubscriberId)>,
}

/// Forwards the messages of one node.
#[derive(Debug)]
struct NodeListener {
    node: usize,
    wakes: Weak<Wakes>,
}

impl WakeListener for NodeListener {
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
    pub(crate) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new_cyclic(|wakes: &Weak<Self>| {
            let listen = |(node, member): (usize, &Member)| {
                let listener = Arc::new(NodeListener { node, wakes: wakes.clone() });
                let weak = Arc::downgrade(&listener);
                let id = member.backend.register_listener(weak);
                (listener, id)
            };
            let listeners = shared.nodes.iter().enumerate().map(listen).collect();
            let (subscribers, bursts) = (SubscriptionRegistry::default(), Mutex::default());
            Self { shared: shared.clone(), subscribers, bursts, listeners }
        })
    }

    pub(crate) fn register(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.subscribers.forget_gone();
        self.subscribers.register_listener(listener)
    }

    fn hear(self: &Arc<Self>, node: usize, name: &LockName) {
        let message = match lock(&self.bursts).get_mut(name) {
            Some(burst) => burst.hear(node, self.shared.majority()),
            // The name has no subscribers left.
            None => return,
        };
        match message {
            Message::Known => {}
            Message::Report => drop(self.subscribers.released(name)),
            Message::First(number) => {
                let (wakes, name) = (self.clone(), name.clone());
                in_background(async move {
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

    /// Watches a name on all nodes. Returns once a majority has acknowledged the subscription.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        subscriber: SubscriberId,
        name: LockName,
    ) -> Result<(), BackendError> {
        self.subscribers.subscribe(subscriber, name.clone());
        lock(&self.bursts).entry(name.clone()).or_default();
        self.change_on_all(&name, Request::Subscribe).await
    }

    /// Ends a subscription. When a name's last subscription ends, stops watching the name on all nodes.
    pub(crate) async fn unsubscribe(
        self: &Arc<Self>,
        subscriber: SubscriberId,
        name: LockName,
    ) -> Result<(), BackendError> {
        if !self.subscribers.unsubscribe(subscriber, &name) {
            return Ok(());
        }
        lock(&self.bursts).remove(&name);
        self.change_on_all(&name, Request::Unsubscribe).await
    }

    /// Asks all nodes for the change. Returns once a majority has acknowledged it.
    async fn change_on_all(self: &Arc<Self>, name: &LockName, request: Request) -> Result<(), BackendError> {
        let mut coming = ask_all(&self.shared, |node, backend| {
            let (name, id) = (name.clone(), self.listeners[node].1);
            async move {
                match request {
                    Request::Subscribe => backend.subscribe(id, name).await,
                    Request::Unsubscribe => backend.unsubscribe(id, name).await,
                }
            }
        });
        let mut question = Question::new(self.shared.nodes.len());
        let clock = self.shared.clock.clone();
        while question.ruling().is_none() && !question.is_lost() {
            let until = clock.now() + STRAGGLER_TIMEOUT;
            let Some(Sent { node, answer, .. }) = coming.next(&*clock, until).await else { break };
            let answer = match answer {
                Ok(()) => (Word::Yes, VoteKind::Acknowledged),
                Err(error) => failed(&error),
            };
            question.hear(node, answer);
        }
        let (wakes, name) = (self.clone(), name.clone());
        in_background(async move {
            let until = clock.now() + STRAGGLER_TIMEOUT;
            while let Some(Sent { node, .. }) = coming.next(&*clock, until).await {
                tokio::select! {
                    biased;
                    () = wakes.correct(node, &name, request) => {}
                    () = pause(&*clock, until) => break,
                }
            }
        });
        match question.ruling() {
            Some(Ruling::Yes) => Ok(()),
            _ => {
                let votes = question.votes(&self.shared);
                Err(self.shared.no_majority("acknowledged the subscription change", Applied::Unknown, votes))
            }
        }
    }

    /// Corrects a straggler whose reply arrived after the opposite request.
    async fn correct(&self, node: usize, name: &LockName, request: Request) {
        let is_watched = lock(&self.bursts).contains_key(name);
        let (backend, id) = (&self.shared.nodes[node].backend, self.listeners[node].1);
        // A failure affects only wake-ups, which are hints.
        let _ = match (request, is_watched) {
            (Request::Subscribe, false) => backend.unsubscribe(id, name.clone()).await,
            (Request::Unsubscribe, true) => backend.subscribe(id, name.clone()).await,
            _ => Ok(()),
        };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Subscribe,
    Unsubscribe,
}
