//! Releases: a majority decides the outcome, and the release is repeated until no node can have the lease.

use crate::{
    gather::{Gather, Question, pause},
    node::{Freed, QuorumNode},
    node_state::Release,
    round::{Ruling, Word},
    shared::{GRACE, LeaseRecord, STRAGGLER_TIMEOUT, Shared, failed, left_out, unknown_reply},
};
use lock_core::{
    __private::in_background,
    backend::{
        Applied, BackendError, BackendExt as _, ForceReleaseRequest, ForceReleased, NotifyWaiters,
        ReleaseRequest, Released, Reply, VoteKind,
    },
    clock::Moment,
};
use std::{future::Future, sync::Arc, time::Duration};

/// Delay after a failed release. It doubles with each further failure, up to [`MAX_DELAY`].
const INITIAL_DELAY: Duration = Duration::from_millis(20);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Releases the lock.
pub(crate) async fn free(
    shared: &Arc<Shared>,
    request: ReleaseRequest,
) -> Result<Reply<Released>, BackendError> {
    let nodes = shared.nodes.len();
    let record = shared.leases.find(&request.name, request.lease);
    let record = record.unwrap_or_else(|| Arc::new(LeaseRecord::new(&request.name, request.lease, nodes)));
    let mut cleanup = ContinueOnDrop(Some(Cleanup::release(shared, record, request.notify)));
    let (mut question, mut found) = (Question::new(nodes), Found::default());
    let mut until = Moment::NEVER;
    while question.ruling().is_none() {
        let Some(cleanup) = &mut cleanup.0 else { break };
        let Some((node, answer)) = cleanup.next(until).await else { break };
        // Later replies of a node do not count, because a repeated release finds nothing.
        if question.kind(node).is_none() {
            question.hear(node, found.read(answer));
        }
        if question.is_lost() {
            until = until.min(shared.clock.now() + GRACE);
        }
    }
    drop(cleanup);
    let listeners = found.listeners;
    found.reply(shared, &question, Released::Released { listeners })
}

/// Lowers the stored depth, which is informational: no decision depends on it.
pub(crate) async fn lower(
    shared: &Arc<Shared>,
    request: ReleaseRequest,
) -> Result<Reply<Released>, BackendError> {
    let mut found = Found::default();
    let release = |node: Arc<dyn QuorumNode>| {
        let request = request.clone();
        async move { node.release(request).await }
    };
    let question = Question::ask(shared, release, |answer| found.read(answer)).await;
    if question.ruling() == Some(Ruling::Yes)
        && let Some(record) = shared.leases.find(&request.name, request.lease)
    {
        record.has_depth(request.depth_left);
    }
    found.reply(shared, &question, Released::Kept)
}

/// Releases the lock on all nodes on which the holder that the caller saw still holds it.
pub(crate) async fn force(
    shared: &Arc<Shared>,
    request: ForceReleaseRequest,
) -> Result<Reply<ForceReleased>, BackendError> {
    let force = |node: Arc<dyn QuorumNode>| {
        let request = request.clone();
        async move { node.force_release(request).await }
    };
    let read = |answer| match answer {
        Ok(ForceReleased::Released) => (Word::Yes, VoteKind::Released),
        Ok(ForceReleased::HolderChanged) => (Word::No, VoteKind::Gone),
        Ok(_) => (Word::Out, unknown_reply()),
        Err(error) => failed(&error),
    };
    let question = Question::ask(shared, force, read).await;
    let votes = question.votes(shared);
    match question.ruling() {
        Some(Ruling::Yes) => Ok(shared.reply(ForceReleased::Released, votes)),
        Some(Ruling::No) => Ok(shared.reply(ForceReleased::HolderChanged, votes)),
        Some(Ruling::Unknown) | None => {
            Err(shared.no_majority("confirmed the release", Applied::Unknown, votes))
        }
    }
}

/// The findings of the nodes that executed a release.
struct Found {
    listeners: Option<u32>,
    held_by_other: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self { listeners: Some(0), held_by_other: false }
    }
}

impl Found {
    fn read(&mut self, answer: Result<Released, BackendError>) -> (Word, VoteKind) {
        match answer {
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
            Err(error) => failed(&error),
        }
    }

    fn reply(
        self,
        shared: &Shared,
        question: &Question,
        yes: Released,
    ) -> Result<Reply<Released>, BackendError> {
        let votes = question.votes(shared);
        let outcome = match question.ruling() {
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

/// The release of one lease on all nodes.
#[derive(Debug)]
pub(crate) struct Cleanup {
    shared: Arc<Shared>,
    record: Arc<LeaseRecord>,
    notify: NotifyWaiters,
    coming: Gather<SentRelease>,
    nodes: Vec<Node>,
    /// Moment at which the cleanup ends in any case: the lease has expired, and the first releases have had
    /// [`STRAGGLER_TIMEOUT`] for their replies.
    give_up: Moment,
}

#[derive(Debug, Clone)]
struct Node {
    /// Moment at which the release in flight was sent.
    in_flight: Option<Moment>,
    /// `true` if a release must still be sent even though the node is not known to have the lease.
    wanted: bool,
    retry_at: Moment,
    /// Moment from which a release is conclusive. An earlier release proves nothing about requests that are still in
    /// flight.
    proof_at: Moment,
    failures: u32,
}

struct SentRelease {
    node: usize,
    release: Release,
    at: Moment,
    answer: Result<Freed, BackendError>,
}

impl Cleanup {
    /// Starts to undo a lost round. Waiters are not notified: two of them would otherwise wake each other forever while
    /// a third process holds the lock.
    pub(crate) fn undo(shared: &Arc<Shared>, record: Arc<LeaseRecord>) -> Self {
        Self::new(shared, record, NotifyWaiters::No, false)
    }

    /// Starts a release that the caller asked for. Every node receives at least one release.
    pub(crate) fn release(shared: &Arc<Shared>, record: Arc<LeaseRecord>, notify: NotifyWaiters) -> Self {
        Self::new(shared, record, notify, true)
    }

    fn new(shared: &Arc<Shared>, record: Arc<LeaseRecord>, notify: NotifyWaiters, wanted: bool) -> Self {
        record.retire();
        let now = shared.clock.now();
        let node = Node { in_flight: None, wanted, retry_at: now, proof_at: now, failures: 0 };
        let nodes = vec![node; shared.nodes.len()];
        let give_up = record.over_at().max(now + STRAGGLER_TIMEOUT);
        Self { shared: shared.clone(), record, notify, coming: Gather::new(), nodes, give_up }
    }

    /// Returns the next reply with its node, or `None` if nothing is left to release or `until` is reached.
    pub(crate) async fn next(&mut self, until: Moment) -> Option<(usize, Result<Released, BackendError>)> {
        let record = self.record.clone();
        loop {
            let changed = record.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let now = self.shared.clock.now();
            for node in 0..self.nodes.len() {
                self.nodes[node].lose_overdue(now);
                if self.is_due(node, now) {
                    match self.shared.ask(node, now) {
                        Ok(()) => {
                            let release = self.send(node, now);
                            self.coming.push(release);
                            self.nodes[node].in_flight = Some(now);
                        }
                        Err(ask_at) if self.nodes[node].postpone(ask_at) => {
                            return Some((node, Err(left_out())));
                        }
                        Err(_) => {}
                    }
                }
            }
            if self.is_done(now) || now >= until {
                return None;
            }
            let wake = self.next_at().min(until);
            let sent = if self.coming.is_empty() {
                // No release is in flight: wait for the next one to become due, or for a straggler.
                tokio::select! {
                    biased;
                    () = pause(&*self.shared.clock, wake) => None,
                    () = changed => None,
                }
            } else {
                tokio::select! {
                    biased;
                    sent = self.coming.next(&*self.shared.clock, wake) => sent,
                    () = changed => None,
                }
            };
            if let Some(sent) = sent {
                return Some(self.hear(sent));
            }
        }
    }

    /// Continues until no node can have the lease, then removes its record.
    pub(crate) async fn finish(mut self) {
        while self.next(Moment::NEVER).await.is_some() {}
        self.shared.leases.forget(&self.record);
    }

    fn hear(&mut self, sent: SentRelease) -> (usize, Result<Released, BackendError>) {
        let now = self.shared.clock.now();
        let node = &mut self.nodes[sent.node];
        let is_latest = node.in_flight == Some(sent.at);
        if is_latest {
            node.in_flight = None;
        }
        let answer = sent.answer.map(|reply| {
            if let Some(time) = reply.now {
                self.shared.learn(sent.node, sent.at, time);
            }
            (node.wanted, node.failures) = (false, 0);
            let found = matches!(reply.outcome, Released::Released { .. });
            let proof =
                self.record.residue(sent.node, |residue| residue.released(sent.release, reply.now, found));
            // If the reply has no time, the release is repeated immediately. The repeated release finds nothing, so its
            // reply has the time.
            node.proof_at = proof
                .zip(reply.now)
                .map_or(now, |(at, time)| now + at.since(time) + Duration::from_millis(1));
            reply.outcome
        });
        if let Err(error) = &answer {
            self.shared.failed(sent.node, sent.at, error);
            if is_latest {
                node.failed(now);
            }
        }
        (sent.node, answer)
    }

    fn is_open(&self, node: usize) -> bool {
        self.nodes[node].wanted || !self.record.residue(node, |residue| residue.is_clean())
    }

    fn due_at(&self, node: usize) -> Moment {
        let Node { retry_at, proof_at, .. } = self.nodes[node];
        if self.record.residue(node, |residue| residue.is_open()) { retry_at.max(proof_at) } else { retry_at }
    }

    fn is_due(&self, node: usize, now: Moment) -> bool {
        self.nodes[node].in_flight.is_none() && self.is_open(node) && self.due_at(node) <= now
    }

    fn is_done(&self, now: Moment) -> bool {
        let is_waited_for = |node: usize| self.nodes[node].in_flight.is_some() || self.is_open(node);
        now > self.give_up || !(0..self.nodes.len()).any(is_waited_for)
    }

    fn next_at(&self) -> Moment {
        let next_of = |node: usize| match self.nodes[node].in_flight {
            Some(sent) => Some(sent + STRAGGLER_TIMEOUT),
            None => self.is_open(node).then(|| self.due_at(node)),
        };
        let next = (0..self.nodes.len()).filter_map(next_of).min();
        next.unwrap_or(Moment::NEVER).min(self.give_up + Duration::from_millis(1))
    }

    fn send(&self, node: usize, at: Moment) -> impl Future<Output = SentRelease> + Send + 'static {
        let release = self.record.residue(node, |residue| residue.release());
        let backend = self.shared.nodes[node].backend.clone();
        let (name, lease, notify) = (self.record.name.clone(), self.record.lease, self.notify);
        let request = ReleaseRequest { name, lease, depth_left: 0, notify };
        async move { SentRelease { node, release, at, answer: backend.free(request).await } }
    }
}

impl Node {
    /// Postpones the release to this moment. Returns `true` if the caller is waiting for its reply.
    fn postpone(&mut self, until: Moment) -> bool {
        self.retry_at = until;
        std::mem::take(&mut self.wanted)
    }

    fn failed(&mut self, now: Moment) {
        self.wanted = false;
        self.retry_at = now + (INITIAL_DELAY * 2u32.saturating_pow(self.failures)).min(MAX_DELAY);
        self.failures = (self.failures + 1).min(16);
    }

    /// Treats a release without a reply as failed after [`STRAGGLER_TIMEOUT`], so that the next one does not wait for
    /// it.
    fn lose_overdue(&mut self, now: Moment) {
        if self.in_flight.is_some_and(|sent| now >= sent + STRAGGLER_TIMEOUT) {
            self.in_flight = None;
            self.failed(now);
        }
    }
}
