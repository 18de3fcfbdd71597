//! What the requests to one server share: its connections, its clock, and what is said once about it.

use crate::{
    client::{Client, Server},
    clock::ServerClock,
    connection::{ManagedConnection, ReplaceReason},
    error::RequestError,
    script::Script,
    script_reply::ScriptReply,
    wake::Subscriptions,
};
use lock_core::LockName;
use std::{sync::Once, time::Duration};
use tokio::time::Instant;

/// One server, as the backend and the task of its requests know it.
pub(crate) struct Shared<C: Client> {
    pub(crate) connection: ManagedConnection<C>,
    pub(crate) subscriptions: Subscriptions<C>,
    pub(crate) clock: ServerClock,
    pub(crate) retention: Option<Duration>,
    /// Said once: in a fleet that shares fenced locks with Redisson it concerns every name.
    foreign_counters: Once,
}

impl<C: Client> Shared<C> {
    pub(crate) fn new(
        connection: ManagedConnection<C>,
        subscriptions: Subscriptions<C>,
        clock: ServerClock,
        retention: Option<Duration>,
    ) -> Self {
        Self { connection, subscriptions, clock, retention, foreign_counters: Once::new() }
    }

    /// Runs a script and learns the server's clock from its reply.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Result<ScriptReply, RequestError> {
        let sent = Instant::now();
        let reply = script.run_on(&self.connection, keys, arguments).await;
        self.observe(sent, std::slice::from_ref(&reply));
        reply
    }

    /// Learns the server's clock from the replies to one call, and its role from the errors in them.
    pub(crate) fn observe(&self, sent: Instant, replies: &[Result<ScriptReply, RequestError>]) {
        if let Some(reply) = replies.iter().find_map(|reply| reply.as_ref().ok()) {
            self.clock.learn(sent, reply.now);
        }
        // A master that has become a replica: replaces both connections, since the address may lead elsewhere by now.
        if replies.iter().any(|reply| reply.as_ref().is_err_and(RequestError::is_read_only)) {
            self.connection.replace(ReplaceReason::ReadOnly);
            self.subscriptions.replace(ReplaceReason::ReadOnly);
        }
    }

    /// Leaves a server that is not the master any more.
    pub(crate) fn follow(&self, master: &Server) {
        self.connection.follow(master);
        self.subscriptions.follow(master);
    }

    /// Warns if the counter of a name was found far below the clock, once for each backend. Without a retention there is
    /// nothing to change.
    pub(crate) fn warn_of_foreign_counter(&self, name: &LockName, reply: &ScriptReply) {
        if self.retention.is_some() && reply.has_foreign_counter() {
            self.foreign_counters.call_once(|| {
                tracing::warn!(
                    lock = %name,
                    "a fencing counter was far below the clock: Redisson began it, perhaps after ours had ended, and \
                     its tokens are older than ours; where fenced locks are shared with Redisson, use retention(None)"
                );
            });
        }
    }
}
