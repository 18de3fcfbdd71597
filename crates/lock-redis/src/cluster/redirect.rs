//! Redirections: an operation that a node does not serve is sent to the node that does, while its caller waits.

use super::{
    Cluster,
    node::Node,
    slots::{Redirection, slot_of},
};
use crate::{
    client::{Client, Server},
    connection::Delivery,
    error::{RequestError, unserved},
    pauses::between,
    pipeline::{Submissions, alone, complete, is_worth_sending, leave_out, slot},
    script::Script,
    script_reply::ScriptReply,
    shared::Redirected,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The pause between two attempts while the nodes disagree or the keys of a slot are on two nodes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(40));
/// The number of redirections followed without a pause. Further ones are followed with pauses, since
/// two nodes may redirect to each other.
const AT_ONCE: usize = 2;
/// The time limit for requests without their own limit.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends an operation to the nodes to which it is redirected, until one serves it or its caller is gone.
pub(super) async fn follow<C: Client>(cluster: &Cluster<C>, redirected: Redirected) {
    let Redirected { submission, mut redirection, mut by } = redirected;
    let (slot, begin) = (slot(submission.operation()), Instant::now());
    // Dropping this completes the operation with an unknown outcome.
    let mut submissions = Submissions::new(vec![submission]);
    for followed in 0.. {
        let next = cluster.next(slot, &redirection, by.as_ref(), followed).await;
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

/// Runs a script on the node that serves its keys, and follows redirections until the time limit.
pub(super) async fn run<C: Client>(
    cluster: &Cluster<C>,
    script: &'static Script,
    keys: &[String],
    arguments: &[String],
) -> Result<ScriptReply, RequestError> {
    let (slot, begin) = (keys.first().map_or(0, |key| slot_of(key)), Instant::now());
    let mut next = cluster.owner(slot).map(|node| (node, Delivery::Plain));
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
        next = cluster.next(slot, &redirection, by.as_ref(), followed).await;
    }
    Err(unserved(script.name))
}

impl<C: Client> Cluster<C> {
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
