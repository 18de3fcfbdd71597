//! A cluster: each node has a connection for requests, one for wake-ups, a pipeline and a clock of its own; the slot of a name
//! says which node serves it.
//!
//! ```text
//!   operation ─▶ slot ─▶ node ─▶ its pipeline ─▶ answered
//!                         ▲          │ MOVED, ASK, TRYAGAIN
//!                         └── redirected operations, each by itself
//!
//!   MOVED, a lost connection, 10 s ─▶ look at the slots ─▶ names whose slot moved are watched at their new node
//! ```
//!
//! A redirection is a refusal: nothing was done, so the operation is sent again while its caller waits, and no hold ends by
//! it. `CLUSTERDOWN` is an error like that of a lost connection, since a client library may answer all requests under way
//! with it: the lock repeats what may be repeated.

mod discover;
mod node;
mod redirect;
mod routes;
mod slots;
mod task;

pub(crate) use node::Membership;
pub(crate) use redirect::Redirected;
pub(crate) use slots::{Redirection, slot_of};

use crate::{
    check::{self, ConnectWarning},
    client::{Client, Credentials, PubSub, Server},
    clock::ServerClock,
    connection::{Dialer, ManagedConnection, Purpose, Target},
    error::{RequestError, runtime_ended},
    pipeline::{fail_elsewhere, slot},
    script::Script,
    script_reply::ScriptReply,
    sync::lock,
    wake::Subscriptions,
};
use futures_util::future::try_join_all;
use lock_core::{
    LockName,
    backend::{BackendError, Operation, SubscriberId, WakeListener},
    clock::ServerTime,
};
use node::Node;
use routes::Routes;
use slots::View;
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};

/// The settings that all nodes share.
pub(crate) struct Settings<C> {
    pub(crate) client: Arc<C>,
    pub(crate) seeds: Vec<Server>,
    pub(crate) credentials: Credentials,
    /// For each dial.
    pub(crate) limit: Duration,
    pub(crate) retention: Option<Duration>,
}

/// A cluster, as the backend knows it. Its task ends when this is dropped.
pub(crate) struct ClusterHandle<C: Client> {
    cluster: Arc<Cluster<C>>,
    task: JoinHandle<()>,
}

/// The nodes of a cluster.
pub(crate) struct Cluster<C: Client> {
    settings: Settings<C>,
    pubsub: PubSub,
    routes: Mutex<Routes<C>>,
    /// Somebody wants a look at the slots.
    look: Arc<Notify>,
    redirected: mpsc::UnboundedSender<Redirected>,
    /// This cluster, for its nodes.
    me: Weak<Self>,
}

impl<C: Client> ClusterHandle<C> {
    /// Finds the nodes, connects to all masters, and checks each of them.
    pub(crate) async fn connect(settings: Settings<C>) -> Result<(Self, Vec<ConnectWarning>), BackendError> {
        let view = discover::by_seeds(&settings).await?;
        let look = Arc::new(Notify::new());
        let dialers = view.servers().map(|server| Arc::new(settings.dialer(server, &look)));
        let opened = dialers.map(async |dialer: Arc<Dialer<C>>| {
            let connection = ManagedConnection::open(dialer.clone(), Purpose::Requests).await?;
            let check = check::server(&connection, check::Expected::ClusterNode);
            let checked = limited(&dialer, &connection, check).await?;
            Ok::<_, BackendError>((dialer, connection, checked))
        });
        let opened = try_join_all(opened.map(Box::pin)).await?;
        let is_sharded = opened.iter().all(|(.., checked)| checked.is_sharded);
        let pubsub = if is_sharded { PubSub::Sharded } else { PubSub::Plain };

        let (redirected, redirections) = mpsc::unbounded_channel();
        let (mut warnings, mut parts) = (Vec::new(), Vec::new());
        for (dialer, connection, checked) in opened {
            let subscriptions = Subscriptions::open(dialer.clone(), pubsub, Some(look.clone())).await?;
            let clock = ServerClock::default();
            let server = connection.server().ok_or_else(|| runtime_ended("connect"))?;
            let keys = view.reserved_name(&server);
            let check = check::rights(&connection, &subscriptions, &clock, keys);
            limited(&dialer, &connection, check).await?;
            parts.push((server, connection, subscriptions, clock));
            checked.warnings.into_iter().for_each(|warning| {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            });
        }
        let cluster = Arc::new_cyclic(|me| {
            let nodes = parts.into_iter().map(|(server, connection, subscriptions, clock)| {
                Node::new(me.clone(), &settings, server, (connection, subscriptions, clock))
            });
            let routes = Routes::new(nodes.collect(), &view);
            let routes = Mutex::new(routes);
            Cluster { settings, pubsub, routes, look, redirected, me: me.clone() }
        });
        let task = tokio::spawn(task::run(cluster.clone(), redirections));
        Ok((Self { cluster, task }, warnings))
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster<C>> {
        &self.cluster
    }
}

impl<C: Client> Drop for ClusterHandle<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: Client> Cluster<C> {
    /// Takes an operation over. It is answered later, never in this call.
    pub(crate) fn submit(&self, operation: Operation) {
        let slot = slot(&operation);
        match self.owner(slot) {
            Some(node) => node.pipeline.submit(operation),
            None => self.redirect(Redirected { operation, redirection: Redirection::TryAgain, by: None }),
        }
    }

    /// Takes over an operation that a node does not serve.
    pub(crate) fn redirect(&self, redirected: Redirected) {
        // The task is gone only together with the runtime.
        if let Err(refused) = self.redirected.send(redirected) {
            fail_elsewhere(refused.0.operation);
        }
    }

    /// Runs a script at the node of its keys.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<ScriptReply, RequestError> {
        redirect::run(self, script, keys, arguments).await
    }

    /// The clock of the node that serves a key.
    pub(crate) fn server_time(&self, key: &str) -> Option<ServerTime> {
        self.owner(slot_of(key))?.shared.clock.now()
    }

    /// Whether every node that serves slots is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.nodes().iter().all(|node| node.shared.connection.is_up())
    }

    /// Asks every node that serves slots for a sign of life.
    pub(crate) async fn ping(&self) -> Result<(), RequestError> {
        let nodes = self.nodes();
        try_join_all(nodes.iter().map(|node| node.shared.connection.ping("ping"))).await.map(drop)
    }

    pub(crate) fn pubsub(&self) -> PubSub {
        self.pubsub
    }

    /// Wants a look at the slots.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    pub(crate) fn attach(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        lock(&self.routes).attach(listener)
    }

    /// Returns when the node of the name has acknowledged the subscription.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let begun = lock(&self.routes).watch(subscriber, &name);
        let Some((node, acknowledgement)) = begun? else {
            return Err(crate::error::unserved("subscribe").into());
        };
        node.shared.subscriptions.changed();
        let answer = acknowledgement.await.unwrap_or_else(|_| Err(runtime_ended("subscribe").into()));
        if answer.is_err() {
            // The name may have got another node meanwhile.
            self.unwatch(subscriber, &name);
        }
        answer
    }

    pub(crate) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        lock(&self.routes).unwatch(subscriber, name);
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node<C>>> {
        lock(&self.routes).owner(slot)
    }

    /// The nodes that serve slots.
    fn nodes(&self) -> Vec<Arc<Node<C>>> {
        lock(&self.routes).owners()
    }

    /// The node at this address, which is connected to from now on if it is a new one.
    fn node(&self, server: &Server) -> Arc<Node<C>> {
        lock(&self.routes).node(server, || self.begin(server.clone()))
    }

    /// A node said that another one serves the slot.
    fn moved(&self, slot: u16, server: &Server) -> Arc<Node<C>> {
        let node = self.node(server);
        let changed = lock(&self.routes).assign(slot, &node);
        changed.iter().for_each(|node| node.shared.subscriptions.changed());
        self.look();
        node
    }

    /// The majority of the nodes agrees on this.
    fn adopt(&self, view: &View) {
        let nodes: Vec<_> = view.ranges().map(|(slots, server)| (slots, self.node(server))).collect();
        let (changed, retired) = lock(&self.routes).adopt(&nodes);
        changed.iter().for_each(|node| node.shared.subscriptions.changed());
        // Without the mutex: their tasks end here.
        drop(retired);
    }

    /// A node that is connected to from now on.
    fn begin(&self, server: Server) -> Node<C> {
        let dialer = Arc::new(self.settings.dialer(&server, &self.look));
        let connection = ManagedConnection::begin(dialer.clone(), Purpose::Requests);
        let subscriptions = Subscriptions::begin(dialer, self.pubsub, Some(self.look.clone()));
        Node::new(
            self.me.clone(),
            &self.settings,
            server,
            (connection, subscriptions, ServerClock::default()),
        )
    }
}

/// A check of a node, which takes no longer than a dial.
async fn limited<C: Client, T>(
    dialer: &Dialer<C>,
    connection: &ManagedConnection<C>,
    check: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    let checked = tokio::time::timeout(dialer.limit, Box::pin(check)).await;
    checked.unwrap_or_else(|_| Err(dialer.nobody_answers(connection.server().as_ref())))
}

impl<C: Client> Settings<C> {
    fn dialer(&self, server: &Server, lost: &Arc<Notify>) -> Dialer<C> {
        let endpoint = crate::client::Endpoint { server: server.clone(), database: None };
        Dialer {
            client: self.client.clone(),
            target: Target::Fixed(endpoint),
            credentials: self.credentials.clone(),
            limit: self.limit,
            lost: Some(lost.clone()),
        }
    }
}
