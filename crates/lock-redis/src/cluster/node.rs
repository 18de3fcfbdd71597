//! One node of a cluster.

use super::{Cluster, Settings};
use crate::{
    client::{Client, Server},
    clock::ServerClock,
    connection::ManagedConnection,
    pipeline::RequestPipeline,
    shared::{Membership, Shared},
    wake::Subscriptions,
};
use lock_core::backend::{SubscriberId, WakeListener};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};
use tokio::time::Instant;

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
        cluster: Weak<Cluster<C>>,
        settings: &Settings<C>,
        server: Server,
        (connection, subscriptions, clock): Part<C>,
    ) -> Self {
        let shared = Shared::new(connection, subscriptions, clock, settings.rules);
        let shared = Arc::new(shared.node_of(Membership { cluster, server: server.clone() }));
        let pipeline = RequestPipeline::start(shared.clone());
        let unused_since = Mutex::new(Some(Instant::now()));
        Self { server, shared, pipeline, subscribers: Mutex::default(), unused_since }
    }

    /// Registers a subscriber of the cluster.
    pub(super) fn attach(&self, subscriber: SubscriberId, listener: Weak<dyn WakeListener>) {
        let own = self.shared.subscriptions.attach(listener);
        crate::sync::lock(&self.subscribers).insert(subscriber, own);
    }

    pub(super) fn forget(&self, subscriber: SubscriberId) {
        crate::sync::lock(&self.subscribers).remove(&subscriber);
    }

    /// Returns this node's id for a subscriber of the cluster.
    pub(super) fn own(&self, subscriber: SubscriberId) -> Option<SubscriberId> {
        crate::sync::lock(&self.subscribers).get(&subscriber).copied()
    }
}
