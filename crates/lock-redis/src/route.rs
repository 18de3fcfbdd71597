//! Routing of requests: to the only server, or to the node of a cluster that serves the slot of the name.

use crate::{
    client::{Client, PubSub},
    cluster::ClusterHandle,
    error::{RequestError, misconfigured},
    pipeline::RequestPipeline,
    script::Script,
    script_reply::ScriptReply,
    sentinel::Follower,
    shared::Shared,
};
use lock_core::{
    LockName,
    backend::{BackendError, Submission, SubscriberId, WakeListener},
    clock::UtcTime,
};
use std::sync::{Arc, Weak};

/// The servers of a backend.
pub(crate) enum Route<C: Client> {
    /// One server, or the master of sentinels.
    One(OneServer<C>),
    Cluster(ClusterHandle<C>),
}

/// One server with its pipeline.
pub(crate) struct OneServer<C: Client> {
    shared: Arc<Shared<C>>,
    pipeline: RequestPipeline<C>,
    /// Set if the server is the master of sentinels.
    follower: Option<Follower>,
}

impl<C: Client> OneServer<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>, follower: Option<Follower>) -> Self {
        let pipeline = RequestPipeline::start(shared.clone());
        Self { shared, pipeline, follower }
    }
}

impl<C: Client> Route<C> {
    /// Accepts an operation.
    pub(crate) fn submit(&self, submission: Submission) {
        match self {
            Self::One(server) => server.pipeline.submit(submission),
            Self::Cluster(cluster) => cluster.cluster().submit(submission),
        }
    }

    /// Runs a script whose keys share one slot, and updates the estimate of the server's clock from its reply.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<ScriptReply, RequestError> {
        match self {
            Self::One(server) => server.shared.run(script, keys, arguments).await,
            Self::Cluster(cluster) => cluster.cluster().run(script, keys, arguments).await,
        }
    }

    /// Returns the estimated time of the server that serves this key, if known.
    pub(crate) fn server_time(&self, key: &str) -> Option<UtcTime> {
        match self {
            Self::One(server) => server.shared.clock.now(),
            Self::Cluster(cluster) => cluster.cluster().server_time(key),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Returns the server that serves this key.
    pub(crate) fn server_of(&self, key: &str) -> Option<Arc<Shared<C>>> {
        match self {
            Self::One(server) => Some(server.shared.clone()),
            Self::Cluster(cluster) => cluster.cluster().server_of(key),
        }
    }

    /// Returns every server that serves keys.
    pub(crate) fn servers(&self) -> Vec<Arc<Shared<C>>> {
        match self {
            Self::One(server) => vec![server.shared.clone()],
            Self::Cluster(cluster) => cluster.cluster().servers(),
        }
    }

    /// Returns the only server, or an error if it cannot be a quorum node.
    pub(crate) fn node(&self) -> Result<&Shared<C>, BackendError> {
        let why = match self {
            Self::Cluster(_) => "a cluster",
            Self::One(server) if server.follower.is_some() => "a master behind Sentinel",
            Self::One(server) if server.shared.replicas.is_some() => "a server with `replicas(n)`",
            Self::One(server) => return Ok(&server.shared),
        };
        Err(misconfigured(&format!(
            "{why} cannot be a quorum node; use the address of an independent master with `redis://`"
        )))
    }

    /// Returns the kind of the wake-up channels.
    pub(crate) fn pubsub(&self) -> PubSub {
        match self {
            Self::One(server) => server.shared.pubsub,
            Self::Cluster(cluster) => cluster.cluster().pubsub(),
        }
    }

    /// Returns `true` if every server is connected.
    pub(crate) fn is_connected(&self) -> bool {
        match self {
            Self::One(server) => server.shared.connection.is_up() && server.shared.direct().is_up(),
            Self::Cluster(cluster) => cluster.cluster().is_connected(),
        }
    }

    /// Pings every server.
    pub(crate) async fn ping(&self) -> Result<(), RequestError> {
        match self {
            Self::One(server) => server.shared.direct().ping("ping").await,
            Self::Cluster(cluster) => cluster.cluster().ping().await,
        }
    }

    pub(crate) fn attach(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        match self {
            Self::One(server) => server.shared.subscriptions.attach(listener),
            Self::Cluster(cluster) => cluster.cluster().attach(listener),
        }
    }

    /// Subscribes, and returns once the server has acknowledged the subscription.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        match self {
            Self::One(server) => server.shared.subscriptions.watch(subscriber, name).await,
            Self::Cluster(cluster) => cluster.cluster().watch(subscriber, name).await,
        }
    }

    pub(crate) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        match self {
            Self::One(server) => server.shared.subscriptions.unwatch(subscriber, name),
            Self::Cluster(cluster) => cluster.cluster().unwatch(subscriber, name),
        }
    }
}
