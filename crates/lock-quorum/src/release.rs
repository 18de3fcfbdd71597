//! Releases: a majority decides the outcome, and the release is repeated until no node can have the lease.

use crate::{
    cleanup::Cleanup,
    gather::Gather,
    leases::LeaseRecord,
    shared::{GRACE, STRAGGLER_TIMEOUT, Shared, unknown_reply},
    tally::{Ruling, Tally, Word},
};
use lock_core::{
    __private::in_background,
    backend::{Applied, BackendError, BackendExt as _, ReleaseRequest, Released, Reply, VoteKind},
    clock::Moment,
};
use std::sync::Arc;

/// The replies to a release.
struct Answers {
    tally: Tally,
    kinds: Vec<Option<VoteKind>>,
    listeners: Option<u32>,
    held_by_other: bool,
}

impl Answers {
    fn new(nodes: usize) -> Self {
        Self { tally: Tally::new(nodes), kinds: vec![None; nodes], listeners: Some(0), held_by_other: false }
    }

    /// Records a node's first reply. Later replies do not count, because a repeated release finds nothing.
    fn hear(&mut self, node: usize, answer: Result<Released, BackendError>) {
        if self.kinds[node].is_some() {
            return;
        }
        let (word, kind) = match answer {
            Ok(Released::Released { listeners }) => {
                self.listeners = self.listeners.zip(listeners).map(|(most, here)| most.max(here));
                (Word::Yes, VoteKind::Released)
            }
            Ok(Released::Kept) => (Word::Yes, VoteKind::Released),
            Ok(Released::Gone { held_by_other }) => {
                self.held_by_other |= held_by_other;
                (Word::No, VoteKind::Gone)
            }
            Ok(_) => (Word::Out, unknown_reply()),
            Err(error) => (Word::Out, VoteKind::Failed { error: error.to_string() }),
        };
        self.kinds[node] = Some(kind);
        self.tally.add(word);
    }

    fn reply(self, shared: &Shared, yes: Released) -> Result<Reply<Released>, BackendError> {
        let votes = shared.votes(self.kinds);
        let outcome = match self.tally.ruling() {
            Some(Ruling::Yes) => yes,
            Some(Ruling::No) => Released::Gone { held_by_other: self.held_by_other },
            Some(Ruling::Unknown) | None => {
                return Err(shared.no_majority("confirmed the release", Applied::Unknown, votes));
            }
        };
        Ok(shared.reply(outcome, votes))
    }
}

/// Continues a release in the background once its caller has the reply or has dropped the call.
struct ContinueOnDrop(Option<Cleanup>);

impl Drop for ContinueOnDrop {
    fn drop(&mut self) {
        if let Some(cleanup) = self.0.take() {
            in_background(cleanup.finish());
        }
    }
}

/// Releases the lock.
pub(super) async fn free(
    shared: &Arc<Shared>,
    request: ReleaseRequest,
) -> Result<Reply<Released>, BackendError> {
    let nodes = shared.nodes.len();
    let record = shared.leases.find(&request.name, request.lease);
    let record = record.unwrap_or_else(|| Arc::new(LeaseRecord::new(&request.name, request.lease, nodes)));
    let mut cleanup = ContinueOnDrop(Some(Cleanup::release(shared, record, request.notify)));
    let mut answers = Answers::new(nodes);
    let mut until = Moment::NEVER;
    while answers.tally.ruling().is_none() {
        let Some(cleanup) = &mut cleanup.0 else { break };
        let Some((node, answer)) = cleanup.next(until).await else { break };
        answers.hear(node, answer);
        if answers.tally.is_lost() {
            until = until.min(shared.clock.now() + GRACE);
        }
    }
    drop(cleanup);
    let listeners = answers.listeners;
    answers.reply(shared, Released::Released { listeners })
}

/// Lowers the stored depth, which is informational: no decision depends on it.
pub(super) async fn lower(
    shared: &Arc<Shared>,
    request: ReleaseRequest,
) -> Result<Reply<Released>, BackendError> {
    let mut coming = Gather::new();
    for (node, member) in shared.nodes.iter().enumerate() {
        let (backend, request, at) = (member.backend.clone(), request.clone(), shared.clock.now());
        coming.push(async move { (node, at, backend.release(request).await) });
    }
    let mut answers = Answers::new(shared.nodes.len());
    let mut until = Moment::NEVER;
    while answers.tally.ruling().is_none() {
        let Some((node, at, answer)) = coming.next(&*shared.clock, until).await else { break };
        if let Ok(reply) = &answer {
            shared.learn(node, at, reply.now);
        }
        answers.hear(node, answer.map(|reply| reply.outcome));
        if answers.tally.is_lost() {
            until = until.min(shared.clock.now() + GRACE);
        }
    }
    if answers.tally.ruling() == Some(Ruling::Yes)
        && let Some(record) = shared.leases.find(&request.name, request.lease)
    {
        record.has_depth(request.depth_left);
    }
    let clock = shared.clock.clone();
    in_background(async move {
        let until = clock.now() + STRAGGLER_TIMEOUT;
        while coming.next(&*clock, until).await.is_some() {}
    });
    answers.reply(shared, Released::Kept)
}
