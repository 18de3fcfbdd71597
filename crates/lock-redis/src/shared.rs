//! One server, as its requests share it: its connections, its clock, the rules of the backend, and warnings that are
//! logged once.

use crate::{
    client::{Client, PubSub, Server},
    clock::ServerClock,
    cluster::Redirection,
    connection::{Delivery, ManagedConnection, ReplaceReason},
    error::RequestError,
    quorum::Place,
    script::Script,
    script_reply::ScriptReply,
    wake::Subscriptions,
};
use lock_core::{LockName, backend::Submission};
use std::{
    sync::{Once, OnceLock, Weak, atomic::AtomicBool},
    time::Duration,
};
use tokio::time::Instant;

/// One server, as the backend and its request task use it.
pub(crate) struct Shared<C: Client> {
    pub(crate) connection: ManagedConnection<C>,
    pub(crate) subscriptions: Subscriptions<C>,
    pub(crate) clock: ServerClock,
    /// The connection for requests that do not wait for replicas. Set if operations wait for them.
    direct: Option<ManagedConnection<C>>,
    /// The number of replicas that must acknowledge a grant or a renewal.
    pub(crate) replicas: Option<u32>,
    pub(crate) rules: Rules,
    pub(crate) pubsub: PubSub,
    /// The membership in a cluster, if this is a node of one.
    pub(crate) cluster: Option<Membership>,
    /// The place in a quorum, if this is a node of one.
    pub(crate) place: OnceLock<Place>,
    /// Ensures that the warning about foreign counters is logged only once. In a fleet that shares fenced locks with
    /// Redisson, it applies to every name.
    foreign_counters: Once,
    /// Set once the commands that pools need have been tried.
    pub(crate) pools_probed: AtomicBool,
}

/// The settings for operations, which are the same for all servers of a backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The retention for locks that do not set their own.
    pub(crate) retention: Option<Duration>,
    pub(crate) foreign_strings: ForeignStrings,
    pub(crate) releases: Releases,
    pub(crate) channels: Channels,
}

/// The channels of wake-ups in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    /// Sharded ones if every master has them.
    Sharded,
    Plain,
}

/// The commands of the usual release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Releases {
    /// `HDEL` and `PUBLISH`, which the server executes in this order.
    ByCommands,
    ByScript,
}

/// The treatment of a lock name whose key holds a string with an expiry, as other lock implementations store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignStrings {
    Refused,
    Busy,
}

/// The membership of a node in its cluster.
pub(crate) struct Membership {
    pub(crate) cluster: Weak<dyn OtherNodes>,
    /// The node.
    pub(crate) server: Server,
}

/// The cluster, as its nodes use it.
pub(crate) trait OtherNodes: Send + Sync {
    /// Accepts an operation that was sent to a node that does not serve it.
    fn redirect(&self, redirected: Redirected);

    /// Requests another read of the slots.
    fn look(&self);
}

/// An operation, and the redirection with which a node rejected it.
pub(crate) struct Redirected {
    pub(crate) submission: Submission,
    pub(crate) redirection: Redirection,
    /// The node that replied, if one was queried.
    pub(crate) by: Option<Server>,
}

impl<C: Client> Shared<C> {
    pub(crate) fn new(
        connection: ManagedConnection<C>,
        subscriptions: Subscriptions<C>,
        clock: ServerClock,
        rules: Rules,
    ) -> Self {
        let pubsub = subscriptions.kind();
        let foreign_counters = Once::new();
        let (direct, replicas, cluster, place) = (None, None, None, OnceLock::new());
        Self {
            connection,
            subscriptions,
            clock,
            direct,
            replicas,
            rules,
            pubsub,
            cluster,
            place,
            foreign_counters,
            pools_probed: AtomicBool::new(false),
        }
    }

    /// Requires this many replicas to acknowledge grants and renewals. Other requests use `direct`.
    pub(crate) fn acknowledged_by(self, replicas: u32, direct: ManagedConnection<C>) -> Self {
        Self { replicas: Some(replicas), direct: Some(direct), ..self }
    }

    /// Returns the connection for requests that no replica acknowledges.
    pub(crate) fn direct(&self) -> &ManagedConnection<C> {
        self.direct.as_ref().unwrap_or(&self.connection)
    }

    /// Makes this server a node of a cluster.
    pub(crate) fn node_of(self, cluster: Membership) -> Self {
        Self { cluster: Some(cluster), ..self }
    }

    /// Passes an operation to the cluster node that serves it, or returns it.
    pub(crate) fn redirect(
        &self,
        submission: Submission,
        reply: Result<ScriptReply, RequestError>,
    ) -> Option<(Submission, Result<ScriptReply, RequestError>)> {
        let redirection = reply.as_ref().err().and_then(RequestError::redirection);
        let (Some(redirection), Some(node)) = (redirection, &self.cluster) else {
            return Some((submission, reply));
        };
        let Some(cluster) = node.cluster.upgrade() else { return Some((submission, reply)) };
        let (redirection, by) = (redirection.clone(), Some(node.server.clone()));
        cluster.redirect(Redirected { submission, redirection, by });
        None
    }

    /// Runs a script and updates the estimate of the server's clock from its reply.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<ScriptReply, RequestError> {
        let sent = Instant::now();
        let reply = script.run_on(self.direct(), Delivery::Plain, keys, arguments).await;
        self.observe(sent, std::slice::from_ref(&reply));
        reply
    }

    /// Updates the estimate of the server's clock from the replies to one call, and detects its role from their errors.
    pub(crate) fn observe(&self, sent: Instant, replies: &[Result<ScriptReply, RequestError>]) {
        if let Some(reply) = replies.iter().find_map(|reply| reply.as_ref().ok()) {
            self.clock.learn(sent, reply.now);
        }
        self.observe_errors(replies);
    }

    /// Detects the role of the server from the errors of one call.
    pub(crate) fn observe_errors(&self, replies: &[Result<ScriptReply, RequestError>]) {
        if let Some(node) = &self.cluster
            && replies.iter().any(|reply| reply.as_ref().is_err_and(RequestError::is_cluster_down))
            && let Some(cluster) = node.cluster.upgrade()
        {
            cluster.look();
        }
        // The master has become a replica. All connections are replaced, since the address may now lead elsewhere.
        if replies.iter().any(|reply| reply.as_ref().is_err_and(RequestError::is_read_only)) {
            self.connection.replace(ReplaceReason::ReadOnly);
            self.direct().replace(ReplaceReason::ReadOnly);
            self.subscriptions.replace(ReplaceReason::ReadOnly);
        }
    }

    /// Applies the settings of the backend to a reply.
    pub(crate) fn accepted(
        &self,
        reply: ScriptReply,
        is_acknowledged: bool,
    ) -> Result<ScriptReply, RequestError> {
        let reply = match self.rules.foreign_strings {
            ForeignStrings::Refused => reply.without_foreign_strings()?,
            ForeignStrings::Busy => reply,
        };
        reply.kept_by_replicas(is_acknowledged)
    }

    /// Leaves a server that is no longer the master.
    pub(crate) fn follow(&self, master: &Server) {
        self.connection.follow(master);
        self.direct().follow(master);
        self.subscriptions.follow(master);
    }

    /// Warns, once per backend, if a name's counter is far below the clock. Without a retention, which is what the
    /// warning recommends, it is not logged.
    pub(crate) fn warn_of_foreign_counter(&self, name: &LockName, reply: &ScriptReply) {
        if self.rules.retention.is_some() && reply.has_foreign_counter() {
            self.foreign_counters.call_once(|| {
                tracing::warn!(
                    lock = %name,
                    "fencing counter is far behind the clock, perhaps because Redisson created it: tokens may be lower \
                     than those already issued; if you share fenced locks with Redisson, use `retention(None)`"
                );
            });
        }
    }
}
