//! Redis servers as quorum nodes, and the quorum behind a `redlock://` address.
//!
//! A node stores locks in the same layout as any other Redis server. An additional marker records the time since which
//! this run of the server has kept its data. Each request carries the run id of the server. The id is read once per
//! connection, because a connection does not outlive the process of its server.
//!
//! Each operation of a node is one script, which takes one round trip.

mod connect;
mod peers;

pub(crate) use peers::{AcceptedNode, Place};

use crate::{
    backend::RedisBackend,
    check,
    client::{Client, Reply as RawReply},
    connection::{Delivered, Delivery, Dialled},
    error::{RequestError, named},
    keys::{self, NODE_MARKER},
    pipeline::millis,
    script::{EXTEND, FREE, HEAL, PROPOSE, Script, Words},
    script_reply::{ScriptReply, in_full, listeners},
    shared::Shared,
};
use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    LockName, Retention,
    backend::{BackendError, BackendErrorKind, NotifyWaiters, ReleaseRequest, Released, Reply},
};
use lock_quorum::{
    Extended, Extension, Freed, Healed, Healing, MIN_COUNTER_RETENTION, NodeReply, Proposal, QuorumNode, Vote,
};
use std::{borrow::Cow, sync::Arc};
use tokio::time::Instant;

/// Maximum number of leases that one script extends. Such a script blocks the server for about 0.1 ms.
const MAX_EXTENSIONS: usize = 32;

/// A backend for one independent server, created from a `redis://` address without `replicas(n)`,
/// can be a node. On clusters and on masters behind sentinels, these operations fail.
#[async_trait]
impl<C: Client> QuorumNode for RedisBackend<C> {
    async fn propose(&self, p: Proposal) -> Result<NodeReply<Vote>, BackendError> {
        let server = self.node()?;
        // A durable node may vote at any age.
        let reads_age = !p.min_age.is_zero();
        let write = |node: &AcceptedNode, words: &mut Words| {
            write_keys(&p.name, reads_age, words);
            let arguments = [
                p.lease.to_string(),
                millis(p.duration),
                p.not_after.as_micros().to_string(),
                p.last.to_string(),
                retention(p.retention, server),
            ];
            words.extend(arguments.map(Cow::Owned));
            let optional = [
                reads_age.then(|| node.marker(p.min_age)),
                reads_age.then(|| p.min_age.as_micros().to_string()),
                (p.token != p.last).then(|| p.token.to_string()),
                p.floor.map(|floor| floor.to_string()),
            ];
            let given = optional.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            words.extend(
                optional.into_iter().take(given).map(|word| word.map_or(Cow::Borrowed(""), Cow::Owned)),
            );
        };
        let keys = if reads_age { 3 } else { 2 };
        let (dialled, sent, reply) = server.call(&PROPOSE, keys, write).await?;
        // The usual reply leaves out the age, which is at least this.
        let min_age = i64::try_from(p.min_age.as_micros()).unwrap_or(i64::MAX);
        let is_whole = !matches!(reply, Ok(RawReply::Integer(_)));
        let reply = reply.map(|reply| in_full(reply, "granted", &[min_age]));
        let vote = server.read(&PROPOSE, &dialled, sent, reply)?.vote()?;
        if let Some(node) = dialled.accepted.get()
            && is_whole
            && reads_age
        {
            node.has_age(vote.now, vote.age);
        }
        Ok(vote)
    }

    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>> {
        let server = match self.node() {
            Ok(server) => server,
            Err(error) => return items.iter().map(|_| Err(error.clone())).collect(),
        };
        let calls = items.chunks(MAX_EXTENSIONS).map(|items| server.extend(items));
        let answers = join_all(calls).await.into_iter().flatten();
        answers.map(|answer| answer.map_err(BackendError::from)).collect()
    }

    async fn heal(&self, h: Healing) -> Result<NodeReply<Healed>, BackendError> {
        let server = self.node()?;
        let write = |node: &AcceptedNode, words: &mut Words| {
            write_keys(&h.name, true, words);
            let arguments = [
                node.run_id.clone(),
                h.lease.to_string(),
                millis(h.duration),
                h.not_after.as_micros().to_string(),
                h.depth.to_string(),
                h.last.to_string(),
                retention(h.retention, server),
            ];
            words.extend(arguments.map(Cow::Owned));
        };
        Ok(server.ask(&HEAL, 3, write).await?.healed()?)
    }

    /// Bypasses the pipeline, which would delay the release behind pending calls to a slow node
    /// while later proposals are sent.
    async fn free(&self, r: ReleaseRequest) -> Result<Freed, BackendError> {
        let server = self.node()?;
        let write = |_: &AcceptedNode, words: &mut Words| {
            words.extend([r.name.as_str().to_owned(), r.lease.to_string()].map(Cow::Owned));
            if r.notify != NotifyWaiters::No {
                words.push(Cow::Owned(keys::channel(&r.name)));
            }
        };
        let (dialled, sent, reply) = server.call(&FREE, 1, write).await?;
        if let Ok(RawReply::Integer(number)) = reply
            && let Some(listeners) = listeners(number)
        {
            return Ok(Freed { now: None, outcome: Released::Released { listeners } });
        }
        let Reply { now, outcome, .. } = server.read(&FREE, &dialled, sent, reply)?.released()?;
        Ok(Freed { now: Some(now), outcome })
    }

    async fn verify(&self) -> Result<(), BackendError> {
        let server = self.node()?;
        let dialled = server.connection.connected("check a quorum node").await?;
        Ok(accepted(server, &dialled).await.map(drop)?)
    }
}

impl<C: Client> Shared<C> {
    /// Extends leases in one call. If a permission is missing, sends each lease separately, because the permission may
    /// be missing for only one of them.
    async fn extend(&self, items: &[Extension]) -> Vec<Result<NodeReply<Extended>, RequestError>> {
        match self.extend_together(items).await {
            Ok(answers) => answers,
            Err(error) if items.len() > 1 && error.kind() == BackendErrorKind::Denied => {
                let each = items.iter().map(async |item| {
                    let answers = self.extend_together(std::slice::from_ref(item)).await;
                    answers.unwrap_or_else(|error| vec![Err(error)])
                });
                join_all(each).await.into_iter().flatten().collect()
            }
            Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn extend_together(
        &self,
        items: &[Extension],
    ) -> Result<Vec<Result<NodeReply<Extended>, RequestError>>, RequestError> {
        let write = |node: &AcceptedNode, words: &mut Words| {
            words.push(Cow::Borrowed(NODE_MARKER));
            words.extend(items.iter().map(|item| Cow::Owned(item.name.as_str().to_owned())));
            words.push(Cow::Owned(node.run_id.clone()));
            for item in items {
                let arguments = [
                    item.lease.to_string(),
                    millis(item.duration),
                    item.not_after.as_micros().to_string(),
                    item.depth.map_or(String::new(), |depth| depth.to_string()),
                ];
                words.extend(arguments.map(Cow::Owned));
            }
        };
        self.ask(&EXTEND, 1 + items.len(), write).await?.extended(items.len())
    }

    /// Runs a script of a node, and decodes its reply.
    async fn ask(
        &self,
        script: &'static Script,
        keys: usize,
        write: impl Fn(&AcceptedNode, &mut Words),
    ) -> Result<ScriptReply, RequestError> {
        let (dialled, sent, reply) = self.call(script, keys, write).await?;
        self.read(script, &dialled, sent, reply)
    }

    /// Runs a script of a node. Returns the connection, the time at which the script was sent, and the reply. `write`
    /// writes the keys and arguments. The call has no timeout, because the quorum limits its time.
    async fn call(
        &self,
        script: &'static Script,
        keys: usize,
        write: impl Fn(&AcceptedNode, &mut Words),
    ) -> Result<(Arc<Dialled<C::Connection>>, Instant, Result<RawReply, RequestError>), RequestError> {
        let dialled = self.connection.connected(script.name).await?;
        let node = accepted(self, &dialled).await?;
        let sent = Instant::now();
        let reply = script.run(&dialled, Delivery::Plain, keys, |words| write(node, words)).await;
        let reply = reply.map(|Delivered { reply, .. }| reply).map_err(|error| error.during(script.name));
        Ok((dialled, sent, reply))
    }

    /// Decodes the reply of a script, and updates the estimate of the server's clock from it.
    fn read(
        &self,
        script: &Script,
        dialled: &Dialled<C::Connection>,
        sent: Instant,
        reply: Result<RawReply, RequestError>,
    ) -> Result<ScriptReply, RequestError> {
        let reply = reply.and_then(|reply| dialled.read(script.name, sent, reply));
        self.observe(sent, std::slice::from_ref(&reply));
        reply
    }
}

/// Returns the accepted node of this connection. Before the first request, checks that the server can be a node, and is
/// not already another node of the quorum.
async fn accepted<'a, C: Client>(
    node: &Shared<C>,
    dialled: &'a Dialled<C::Connection>,
) -> Result<&'a AcceptedNode, RequestError> {
    if let Some(accepted) = dialled.accepted.get() {
        return Ok(accepted);
    }
    let check = async || {
        let accepted = check::node(dialled).await?;
        if let Some(place) = node.place.get() {
            place.admit(&dialled.server, &accepted.run_id, &dialled.trust)?;
        }
        Ok::<_, RequestError>(accepted)
    };
    let accepted = Box::pin(dialled.accepted.get_or_try_init(check)).await;
    accepted.map_err(|error| named(&dialled.server, &error.into()).into())
}

fn write_keys(name: &LockName, with_marker: bool, words: &mut Words) {
    words.extend([name.as_str().to_owned(), keys::counter(name)].map(Cow::Owned));
    words.extend(with_marker.then_some(Cow::Borrowed(NODE_MARKER)));
}

fn retention<C: Client>(retention: Retention, server: &Shared<C>) -> String {
    let retention = retention.unless(server.rules.retention);
    retention.map_or(String::new(), |retention| millis(retention.max(MIN_COUNTER_RETENTION)))
}
