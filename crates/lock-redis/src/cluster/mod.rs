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

mod connect;
mod routes;
mod slots;

pub(crate) use connect::Settings;
pub(crate) use slots::{Redirection, slot_of};

use crate::{
    check::ConnectWarning,
    client::{Client, Command, PubSub, Server},
    connection::{Delivery, between, jittered},
    error::{self, RequestError, runtime_ended, unserved},
    keys::Keys,
    pipeline::{Submissions, alone, complete, fail_as_ended, is_worth_sending, leave_out, slot},
    script::Script,
    script_reply::ScriptReply,
    shared::{OtherNodes, Redirected, Shared},
};
use connect::Masters;
use futures_util::{
    future::{join_all, try_join_all},
    stream::{FuturesUnordered, StreamExt},
};
use lock_core::{
    __private::lock,
    LockName,
    backend::{BackendError, Submission, SubscriberId, WakeListener},
    clock::UtcTime,
};
use routes::{Node, Routes};
use slots::View;
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// The maximum time between two reads of the slots.
const MAX_READ_INTERVAL: Duration = Duration::from_secs(10);
/// The minimum time between two reads, and the interval during a failover.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(200);
/// The maximum number of nodes queried concurrently.
const ASKED: usize = 7;
/// The time limit for their replies.
const SLOTS_ANSWER: Duration = Duration::from_millis(500);
/// The pause between two attempts while the nodes disagree or the keys of a slot are on two nodes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(40));
/// The number of redirections followed without a pause. Further ones are followed with pauses, since
/// two nodes may redirect to each other.
const AT_ONCE: usize = 2;
/// The time limit for requests without their own limit.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// Connects to all masters and checks each of them.
    pub(crate) async fn connect(settings: Settings<C>) -> Result<(Self, Vec<ConnectWarning>), BackendError> {
        let look = Arc::new(Notify::new());
        let Masters { view, pubsub, parts, warnings } = settings.masters(&look).await?;
        let (redirected, redirections) = mpsc::unbounded_channel();
        let cluster = Arc::new_cyclic(|me: &Weak<Cluster<C>>| {
            let nodes =
                parts.into_iter().map(|(server, part)| Node::new(me.clone(), settings.rules, server, part));
            let routes = Routes::new(nodes.collect(), &view);
            let routes = Mutex::new(routes);
            Cluster { settings, pubsub, routes, look, redirected, me: me.clone() }
        });
        let task = cluster.settings.home.keeper().spawn(run(cluster.clone(), redirections));
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
    /// Accepts an operation. It completes later, never during this call.
    pub(crate) fn submit(&self, submission: Submission) {
        let slot = slot(submission.operation());
        match self.owner(slot) {
            Some(node) => node.pipeline.submit(submission),
            None => self.redirect(Redirected { submission, redirection: Redirection::TryAgain, by: None }),
        }
    }

    /// Runs a script on the node that serves its keys, and follows redirections until the time limit.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<ScriptReply, RequestError> {
        let (slot, begin) = (keys.first().map_or(0, |key| slot_of(key)), Instant::now());
        let mut next = self.owner(slot).map(|node| (node, Delivery::Plain));
        let mut redirection = Redirection::TryAgain;
        let mut by = None;
        for followed in 0.. {
            if let Some((node, delivery)) = &next {
                let sent = Instant::now();
                let reply = script.run_on(&node.shared.connection, *delivery, keys, arguments).await;
                node.shared.observe(sent, std::slice::from_ref(&reply));
                match reply.as_ref().err().and_then(RequestError::redirection) {
                    Some(again) => (redirection, by) = (again.clone(), Some(node.server.clone())),
                    None => return reply,
                }
            }
            if begin.elapsed() > PATIENCE {
                break;
            }
            next = self.next(slot, &redirection, by.as_ref(), followed).await;
        }
        Err(unserved(script.name))
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
            Node::new(self.me.clone(), self.settings.rules, server.clone(), part)
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

    /// Queries some nodes and returns the view shared by more than half of the replies. A node that was
    /// down and does not yet know its successor is therefore outvoted.
    async fn slots(&self) -> Option<View> {
        let nodes = self.nodes();
        let connected = nodes.iter().filter(|node| node.shared.connection.is_up()).take(ASKED);
        let questions = connected.map(async |node| {
            let call = node.shared.connection.call("read the cluster slots", Command::cluster_slots());
            View::read(&timeout(SLOTS_ANSWER, call).await.ok()?.ok()?, &node.server)
        });
        let views: Vec<_> = join_all(questions).await.into_iter().flatten().collect();
        if views.is_empty() {
            return self.settings.slots().await.ok();
        }
        let votes = |view: &View| views.iter().filter(|other| *other == view).count();
        views.iter().find(|view| 2 * votes(view) > views.len()).cloned()
    }

    /// Sends an operation to the nodes to which it is redirected, until one serves it or its caller is gone.
    async fn follow(&self, redirected: Redirected) {
        let Redirected { submission, mut redirection, mut by } = redirected;
        let (slot, begin) = (slot(submission.operation()), Instant::now());
        // Dropping this completes the operation with an unknown outcome.
        let mut submissions = Submissions::new(vec![submission]);
        for followed in 0.. {
            let next = self.next(slot, &redirection, by.as_ref(), followed).await;
            let [submission] = submissions.as_slice() else { return };
            let server = next.as_ref().and_then(|(node, _)| node.shared.clock.now());
            if !is_worth_sending(submission, server, begin.elapsed()) {
                return leave_out(submissions.take());
            }
            let Some((node, delivery)) = next else { continue };
            let reply = match node.shared.connection.connected("send a request").await {
                Ok(dialled) => alone(&node.shared, &dialled, submission.operation(), delivery).await,
                Err(error) => Err(error),
            };
            match reply.as_ref().err().and_then(RequestError::redirection).cloned() {
                Some(again) => (redirection, by) = (again, Some(node.server.clone())),
                None => {
                    if let Some(submission) = submissions.take().pop() {
                        complete(submission, reply);
                    }
                    return;
                }
            }
        }
    }

    /// Returns the next node, after a pause if necessary.
    async fn next(
        &self,
        slot: u16,
        redirection: &Redirection,
        by: Option<&Server>,
        followed: usize,
    ) -> Option<(Arc<Node<C>>, Delivery)> {
        if followed >= AT_ONCE || *redirection == Redirection::TryAgain {
            sleep(between(PAUSE.0, PAUSE.1)).await;
        }
        let server = by.and_then(|by| redirection.server(by));
        match (redirection, server) {
            (Redirection::Moved { slot, .. }, Some(server)) => {
                Some((self.moved(*slot, &server), Delivery::Plain))
            }
            (Redirection::Ask { .. }, Some(server)) => Some((self.node(&server, || None), Delivery::Asking)),
            _ => self.owner(slot).map(|node| (node, Delivery::Plain)),
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

/// Reads the slots, and sends redirected operations, until the cluster is dropped.
async fn run<C: Client>(cluster: Arc<Cluster<C>>, mut redirections: mpsc::UnboundedReceiver<Redirected>) {
    let mut followed = FuturesUnordered::new();
    let looks = looks(&cluster);
    tokio::pin!(looks);
    loop {
        tokio::select! {
            redirected = redirections.recv() => match redirected {
                Some(redirected) => followed.push(cluster.follow(redirected)),
                None => return,
            },
            Some(()) = followed.next() => {}
            () = &mut looks => return,
        }
    }
}

/// Reads the slots repeatedly, forever.
async fn looks<C: Client>(cluster: &Cluster<C>) {
    loop {
        let is_well = match cluster.slots().await {
            Some(view) => {
                cluster.adopt(&view);
                cluster.is_connected()
            }
            None => false,
        };
        sleep(jittered(MIN_READ_INTERVAL)).await;
        let again = if is_well { MAX_READ_INTERVAL } else { MIN_READ_INTERVAL };
        tokio::select! {
            () = cluster.look.notified() => {}
            () = sleep(jittered(again)) => {}
        }
    }
}
