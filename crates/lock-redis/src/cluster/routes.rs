//! The nodes of a cluster, the mapping of slots to them, and the subscriptions: plain data under one mutex.

use super::slots::{SLOTS, View, slot_of};
use crate::{
    client::{Client, Server},
    clock::ServerClock,
    connection::ManagedConnection,
    pipeline::RequestPipeline,
    shared::{Membership, OtherNodes, Rules, Shared},
    wake::{Acknowledgement, Subscriptions},
};
use lock_core::{
    __private::lock,
    LockName,
    backend::{BackendError, SubscriberId, WakeListener},
};
use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// The time for which a node without slots is kept, since operations may still be in progress
/// there.
const UNUSED: Duration = Duration::from_secs(10);

/// Some of the nodes.
type Nodes<C> = Vec<Arc<Node<C>>>;

/// The node that received a subscription, and the pending acknowledgement.
pub(super) type BegunWatch<C> = (Arc<Node<C>>, Acknowledgement);

pub(super) struct Routes<C: Client> {
    /// The owners, indexed by slot.
    owners: Vec<Option<Arc<Node<C>>>>,
    /// All nodes, including those without a slot.
    nodes: Vec<Arc<Node<C>>>,
    listeners: HashMap<SubscriberId, Weak<dyn WakeListener>>,
    next_subscriber: u64,
    watched: HashMap<LockName, HashSet<SubscriberId>>,
}

impl<C: Client> Routes<C> {
    pub(super) fn new(nodes: Vec<Node<C>>, view: &View) -> Self {
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        let mut routes = Self {
            owners: vec![None; usize::from(SLOTS)],
            nodes,
            listeners: HashMap::new(),
            next_subscriber: 0,
            watched: HashMap::new(),
        };
        for (slots, server) in view.ranges() {
            let owner = routes.nodes.iter().find(|node| node.server == *server).cloned();
            slots.for_each(|slot| routes.owners[usize::from(slot)].clone_from(&owner));
        }
        routes
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node<C>>> {
        self.owners[usize::from(slot)].clone()
    }

    /// Returns the nodes that serve slots.
    pub(super) fn owners(&self) -> Vec<Arc<Node<C>>> {
        let serves =
            |node: &&Arc<Node<C>>| self.owners.iter().flatten().any(|owner| Arc::ptr_eq(owner, node));
        self.nodes.iter().filter(serves).cloned().collect()
    }

    /// Returns the node at this address, creating it if it is unknown.
    pub(super) fn node(&mut self, server: &Server, begin: impl FnOnce() -> Node<C>) -> Arc<Node<C>> {
        if let Some(node) = self.nodes.iter().find(|node| node.server == *server) {
            return node.clone();
        }
        let node = Arc::new(begin());
        for (subscriber, listener) in &self.listeners {
            node.attach(*subscriber, listener.clone());
        }
        self.nodes.push(node.clone());
        node
    }

    /// Assigns one slot to a node. Returns the nodes whose subscriptions have changed.
    pub(super) fn assign(&mut self, slot: u16, node: &Arc<Node<C>>) -> Vec<Arc<Node<C>>> {
        self.change(&[(slot..=slot, node.clone())])
    }

    /// Assigns the slots of a view; other slots keep their nodes. Returns the nodes whose subscriptions have changed,
    /// and the nodes that were removed because they have served no slot for [`UNUSED`].
    pub(super) fn adopt(&mut self, view: &[(RangeInclusive<u16>, Arc<Node<C>>)]) -> (Nodes<C>, Nodes<C>) {
        let changed = self.change(view);
        let owners = self.owners();
        let now = Instant::now();
        let is_unused = |node: &mut Arc<Node<C>>| {
            let mut since = lock(&node.unused_since);
            match owners.iter().any(|owner| Arc::ptr_eq(owner, node)) {
                true => *since = None,
                false => *since = since.or(Some(now)),
            }
            since.is_some_and(|since| now >= since + UNUSED)
        };
        let retired = self.nodes.extract_if(.., is_unused).collect();
        (changed, retired)
    }

    fn change(&mut self, view: &[(RangeInclusive<u16>, Arc<Node<C>>)]) -> Vec<Arc<Node<C>>> {
        let before = self.owners.clone();
        for (slots, node) in view {
            for slot in slots.clone() {
                self.owners[usize::from(slot)] = Some(node.clone());
            }
        }
        let mut changed = Vec::new();
        for (name, subscribers) in &self.watched {
            let slot = usize::from(slot_of(name.as_str()));
            let (Some(old), Some(new)) = (&before[slot], &self.owners[slot]) else { continue };
            if Arc::ptr_eq(old, new) {
                continue;
            }
            for subscriber in subscribers {
                if let Some(own) = old.own(*subscriber) {
                    old.shared.subscriptions.give_up(own, name);
                }
                if let Some(own) = new.own(*subscriber) {
                    new.shared.subscriptions.adopt(own, name);
                }
            }
            if !changed.iter().any(|node| Arc::ptr_eq(node, new)) {
                changed.push(new.clone());
            }
        }
        changed
    }

    pub(super) fn attach(&mut self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        let gone: Vec<_> = self.listeners.extract_if(|_, listener| listener.strong_count() == 0).collect();
        for (subscriber, _) in gone {
            self.nodes.iter().for_each(|node| node.forget(subscriber));
            for subscribers in self.watched.values_mut() {
                subscribers.remove(&subscriber);
            }
        }
        self.watched.retain(|_, subscribers| !subscribers.is_empty());
        let subscriber = SubscriberId::new(self.next_subscriber);
        self.next_subscriber += 1;
        self.nodes.iter().for_each(|node| node.attach(subscriber, listener.clone()));
        self.listeners.insert(subscriber, listener);
        subscriber
    }

    /// Begins to subscribe to a name at its node, if it has one.
    pub(super) fn watch(
        &mut self,
        subscriber: SubscriberId,
        name: &LockName,
    ) -> Result<Option<BegunWatch<C>>, BackendError> {
        let Some(node) = self.owner(slot_of(name.as_str())) else { return Ok(None) };
        let Some(own) = node.own(subscriber) else { return Ok(None) };
        let acknowledgement = node.shared.subscriptions.begin_watch(own, name)?;
        self.watched.entry(name.clone()).or_default().insert(subscriber);
        Ok(Some((node, acknowledgement)))
    }

    pub(super) fn unwatch(&mut self, subscriber: SubscriberId, name: &LockName) {
        if let Some(subscribers) = self.watched.get_mut(name) {
            subscribers.remove(&subscriber);
            if subscribers.is_empty() {
                self.watched.remove(name);
            }
        }
        let node = self.owner(slot_of(name.as_str()));
        if let Some((node, own)) = node.and_then(|node| node.own(subscriber).map(|own| (node, own))) {
            node.shared.subscriptions.unwatch(own, name);
        }
    }
}

/// A node with its own connections, pipeline and clock.
pub(crate) struct Node<C: Client> {
    pub(super) server: Server,
    pub(crate) shared: Arc<Shared<C>>,
    pub(super) pipeline: RequestPipeline<C>,
    /// Maps the subscriber ids of the cluster to those of this node's subscriptions.
    pub(super) subscribers: Mutex<HashMap<SubscriberId, SubscriberId>>,
    /// The moment since which the node has served no slot.
    pub(super) unused_since: Mutex<Option<Instant>>,
}

/// The connections of a node, and its clock.
pub(super) type Part<C> = (ManagedConnection<C>, Subscriptions<C>, ServerClock);

impl<C: Client> Node<C> {
    pub(super) fn new(
        cluster: Weak<dyn OtherNodes>,
        rules: Rules,
        server: Server,
        (connection, subscriptions, clock): Part<C>,
    ) -> Self {
        let shared = Shared::new(connection, subscriptions, clock, rules);
        let shared = Arc::new(shared.node_of(Membership { cluster, server: server.clone() }));
        let pipeline = RequestPipeline::start(shared.clone());
        let unused_since = Mutex::new(Some(Instant::now()));
        Self { server, shared, pipeline, subscribers: Mutex::default(), unused_since }
    }

    /// Registers a subscriber of the cluster.
    pub(super) fn attach(&self, subscriber: SubscriberId, listener: Weak<dyn WakeListener>) {
        let own = self.shared.subscriptions.attach(listener);
        lock(&self.subscribers).insert(subscriber, own);
    }

    pub(super) fn forget(&self, subscriber: SubscriberId) {
        lock(&self.subscribers).remove(&subscriber);
    }

    /// Returns this node's id for a subscriber of the cluster.
    pub(super) fn own(&self, subscriber: SubscriberId) -> Option<SubscriberId> {
        lock(&self.subscribers).get(&subscriber).copied()
    }
}
