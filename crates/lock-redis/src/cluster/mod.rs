//! Redis Cluster. Each node has its own request connection, wake-up connection, pipeline and clock.
//! The slot of a name determines its node.
//!
//! ```text
//!   operation ─▶ slot ─▶ node ─▶ its pipeline ─▶ completed
//!                         ▲          │ MOVED, ASK, TRYAGAIN
//!                         └── redirected operations, each by itself
//!
//!   MOVED, a lost connection, 10 s ─▶ read the slots ─▶ move subscriptions to the new nodes of their slots
//! ```
//!
//! A redirected operation was not executed, so it is sent again while its caller waits. No hold
//! ends because of it. `CLUSTERDOWN` is treated like a lost connection, since a client library may
//! return it for all requests in progress. lock-core repeats the requests that are safe to repeat.

mod discover;
mod node;
mod redirect;
mod routes;
mod slots;
mod task;

pub(crate) use slots::{Redirection, slot_of};

use crate::{
    check::{self, Checked, ConnectWarning, Expected, LateNode},
    client::{Client, Login, PubSub, Server},
    clock::ServerClock,
    connection::{Dialer, ManagedConnection, Purpose, Stragglers, Target},
    error::{self, RequestError, is_refusal, runtime_ended, while_connecting},
    keys::Keys,
    pipeline::{fail_as_ended, slot},
    rules::{Channels, Rules},
    script::Script,
    script_reply::ScriptReply,
    shared::{OtherNodes, Redirected, Shared},
    sync::lock,
    wake::Subscriptions,
};
use futures_util::future::{join_all, try_join_all};
use lock_core::{
    LockName,
    backend::{BackendError, Submission, SubscriberId, WakeListener},
    clock::UtcTime,
};
use node::{Node, Part};
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
    pub(crate) login: Login,
    /// The time limit of each dial.
    pub(crate) limit: Duration,
    pub(crate) rules: Rules,
}

/// A cluster's handle. Dropping it ends the cluster's task.
pub(crate) struct ClusterHandle<C: Client> {
    cluster: Arc<Cluster<C>>,
    task: JoinHandle<()>,
}

/// The nodes of a cluster.
pub(crate) struct Cluster<C: Client> {
    settings: Settings<C>,
    pubsub: PubSub,
    routes: Mutex<Routes<C>>,
    /// Notified when the slots should be read again.
    look: Arc<Notify>,
    redirected: mpsc::UnboundedSender<Redirected>,
    /// A reference to the cluster itself, for its nodes.
    me: Weak<Self>,
}

impl<C: Client> ClusterHandle<C> {
    /// Finds the nodes, connects to all masters at once and checks each of them. One answer is enough: the masters that
    /// are out of reach are dialled until they answer, and are checked then.
    pub(crate) async fn connect(settings: Settings<C>) -> Result<(Self, Vec<ConnectWarning>), BackendError> {
        let view = discover::by_seeds(&settings).await?;
        let (look, stragglers) = (Arc::new(Notify::new()), Stragglers::after(1));
        let opening = view.servers().map(async |server| {
            let dialer = Arc::new(settings.dialer(server, &look, None));
            let opening = Opened::open(dialer.clone());
            (server, stragglers.limit(opening, || dialer.nobody_answers(None)).await)
        });
        let opened = join_all(opening.map(Box::pin)).await;
        let errors = || opened.iter().filter_map(|(_, opened)| opened.as_ref().err());
        let mut answered = opened.iter().filter_map(|(_, opened)| opened.as_ref().ok());
        let is_sharded = settings.rules.channels == Channels::Sharded && answered.all(Opened::is_sharded);
        if errors().count() == opened.len() || errors().any(|error| is_refusal(&error)) {
            return Err(error::no_cluster(errors().cloned().collect()));
        }
        let pubsub = if is_sharded { PubSub::Sharded } else { PubSub::Plain };

        let checking = opened.into_iter().map(async |(server, opened)| {
            let checked = async { opened?.checked(pubsub, &look, view.reserved_name(server)).await };
            (server, checked.await)
        });
        let (mut warnings, mut parts) = (Vec::new(), Vec::new());
        for (server, checked) in join_all(checking.map(Box::pin)).await {
            let (part, new) = match checked {
                Ok(checked) => checked,
                Err(error) if is_refusal(&&error) => return Err(error),
                Err(error) => {
                    let (server, keys) = (server.clone(), view.reserved_name(server));
                    let reason = error.to_string();
                    let warning = ConnectWarning::NotConnected { server: server.to_string(), reason };
                    tracing::warn!("{warning}");
                    (settings.begin(&server, pubsub, &look, Some(keys)), vec![warning])
                }
            };
            parts.push((server.clone(), part));
            new.into_iter().for_each(|warning| {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            });
        }
        let (redirected, redirections) = mpsc::unbounded_channel();
        let cluster = Arc::new_cyclic(|me| {
            let nodes =
                parts.into_iter().map(|(server, part)| Node::new(me.clone(), &settings, server, part));
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

/// A master that has answered, before its permissions are checked.
struct Opened<C: Client> {
    dialer: Arc<Dialer<C>>,
    connection: ManagedConnection<C>,
    checked: Checked,
}

impl<C: Client> Opened<C> {
    async fn open(dialer: Arc<Dialer<C>>) -> Result<Self, BackendError> {
        let connection = ManagedConnection::open(dialer.clone(), Purpose::Requests).await?;
        let check = async {
            let dialled = connection.connected("connect").await?;
            check::server(&dialled, Expected::ClusterNode).await
        };
        let checked = limited(&dialer, &connection, check).await?;
        Ok(Self { dialer, connection, checked })
    }

    fn is_sharded(&self) -> bool {
        self.checked.is_sharded
    }

    /// Opens the other connection, and tries every command that locks need with these keys.
    async fn checked(
        self,
        pubsub: PubSub,
        look: &Arc<Notify>,
        keys: Keys,
    ) -> Result<(Part<C>, Vec<ConnectWarning>), BackendError> {
        let Self { dialer, connection, checked } = self;
        let subscriptions = Subscriptions::open(dialer.clone(), pubsub, Some(look.clone())).await?;
        let clock = ServerClock::default();
        let check = async {
            match check::rights(&connection, &subscriptions, &clock, keys).await {
                // The slot is moving.
                Err(error) if error.redirection().is_some() => Ok(()),
                checked => checked.map_err(while_connecting),
            }
        };
        limited(&dialer, &connection, check).await?;
        Ok(((connection, subscriptions, clock), checked.warnings))
    }
}

impl<C: Client> Drop for ClusterHandle<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: Client> Cluster<C> {
    /// Accepts an operation. It completes later, never during this call.
    pub(crate) fn submit(&self, submission: Submission) {
        let slot = slot(submission.operation());
        match self.owner(slot) {
            Some(node) => node.pipeline.submit(submission),
            None => self.redirect(Redirected { submission, redirection: Redirection::TryAgain, by: None }),
        }
    }

    /// Runs a script on the node that serves its keys.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<ScriptReply, RequestError> {
        redirect::run(self, script, keys, arguments).await
    }

    /// Returns the estimated time of the node that serves a key, if known.
    pub(crate) fn server_time(&self, key: &str) -> Option<UtcTime> {
        self.server_of(key)?.clock.now()
    }

    /// Returns the node that serves a key.
    pub(crate) fn server_of(&self, key: &str) -> Option<Arc<Shared<C>>> {
        self.owner(slot_of(key)).map(|node| node.shared.clone())
    }

    /// Returns every node that serves slots.
    pub(crate) fn servers(&self) -> Vec<Arc<Shared<C>>> {
        self.nodes().iter().map(|node| node.shared.clone()).collect()
    }

    /// Returns `true` if every node that serves slots is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.nodes().iter().all(|node| node.shared.connection.is_up())
    }

    /// Pings every node that serves slots.
    pub(crate) async fn ping(&self) -> Result<(), RequestError> {
        let nodes = self.nodes();
        try_join_all(nodes.iter().map(|node| node.shared.connection.ping("ping"))).await.map(drop)
    }

    pub(crate) fn pubsub(&self) -> PubSub {
        self.pubsub
    }

    pub(crate) fn attach(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        lock(&self.routes).attach(listener)
    }

    /// Subscribes, and returns once the name's node has acknowledged the subscription.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let begun = lock(&self.routes).watch(subscriber, &name);
        let Some((node, acknowledgement)) = begun? else {
            return Err(error::unserved("subscribe").into());
        };
        node.shared.subscriptions.changed();
        let answer = acknowledgement.await.unwrap_or_else(|_| Err(runtime_ended("subscribe").into()));
        if answer.is_err() {
            // The name may have moved to another node in the meantime.
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

    /// Returns the nodes that serve slots.
    fn nodes(&self) -> Vec<Arc<Node<C>>> {
        lock(&self.routes).owners()
    }

    /// Returns the node at this address, and connects to it if it is new. `keys` are in a slot of the node, if it is
    /// known to serve one.
    fn node(&self, server: &Server, keys: impl FnOnce() -> Option<Keys>) -> Arc<Node<C>> {
        lock(&self.routes).node(server, || {
            let part = self.settings.begin(server, self.pubsub, &self.look, keys());
            Node::new(self.me.clone(), &self.settings, server.clone(), part)
        })
    }

    /// Records a node's report that another node serves the slot.
    fn moved(&self, slot: u16, server: &Server) -> Arc<Node<C>> {
        let node = self.node(server, || None);
        let changed = lock(&self.routes).assign(slot, &node);
        changed.iter().for_each(|node| node.shared.subscriptions.changed());
        self.look();
        node
    }

    /// Adopts the view shared by the majority of the nodes.
    fn adopt(&self, view: &View) {
        let keys = |server| move || Some(view.reserved_name(server));
        let nodes = view.ranges().map(|(slots, server)| (slots, self.node(server, keys(server))));
        let nodes: Vec<_> = nodes.collect();
        let (changed, retired) = lock(&self.routes).adopt(&nodes);
        changed.iter().for_each(|node| node.shared.subscriptions.changed());
        // Dropped outside the mutex, since this ends their tasks.
        drop(retired);
    }
}

/// Runs a check of a node within the time limit for a dial.
async fn limited<C: Client, T>(
    dialer: &Dialer<C>,
    connection: &ManagedConnection<C>,
    check: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    let checked = tokio::time::timeout(dialer.limit, Box::pin(check)).await;
    checked.unwrap_or_else(|_| Err(dialer.nobody_answers(connection.server().as_ref())))
}

impl<C: Client> Settings<C> {
    /// Starts connecting to a node, which is checked when it answers.
    fn begin(&self, server: &Server, pubsub: PubSub, look: &Arc<Notify>, keys: Option<Keys>) -> Part<C> {
        let dialer = Arc::new(self.dialer(server, look, Some(LateNode::new(pubsub, keys))));
        let connection = ManagedConnection::begin(dialer.clone(), Purpose::Requests);
        let subscriptions = Subscriptions::begin(dialer, pubsub, Some(look.clone()));
        (connection, subscriptions, ServerClock::default())
    }

    fn dialer(&self, server: &Server, lost: &Arc<Notify>, admission: Option<LateNode>) -> Dialer<C> {
        let endpoint = crate::client::Endpoint { server: server.clone(), database: None };
        Dialer {
            client: self.client.clone(),
            target: Target::Fixed(endpoint),
            login: self.login.clone(),
            limit: self.limit,
            lost: Some(lost.clone()),
            admission: admission.map(|node| Box::new(node) as _),
        }
    }
}

impl<C: Client> OtherNodes for Cluster<C> {
    fn redirect(&self, redirected: Redirected) {
        // The task only ends with the runtime.
        if let Err(refused) = self.redirected.send(redirected) {
            fail_as_ended(refused.0.submission);
        }
    }

    fn look(&self) {
        self.look.notify_one();
    }
}
