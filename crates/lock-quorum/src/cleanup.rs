//! Releases one lease on all nodes, repeatedly, until no node can still have it.

use crate::{
    gather::Gather,
    leases::LeaseRecord,
    node::Freed,
    residue::{Outcome, Release},
    shared::{STRAGGLER_TIMEOUT, Shared, left_out},
    timer::pause,
};
use lock_core::{
    backend::{Applied, BackendError, NotifyWaiters, ReleaseRequest, Released},
    clock::Moment,
};
use std::{future::Future, sync::Arc, time::Duration};

/// Delay after a failed release. It doubles with each further failure, up to [`MAX_DELAY`].
const INITIAL_DELAY: Duration = Duration::from_millis(20);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// The release of one lease on all nodes.
#[derive(Debug)]
pub(super) struct Cleanup {
    shared: Arc<Shared>,
    record: Arc<LeaseRecord>,
    notify: NotifyWaiters,
    coming: Gather<Sent>,
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

struct Sent {
    node: usize,
    release: Release,
    at: Moment,
    answer: Result<Freed, BackendError>,
}

impl Cleanup {
    /// Starts to undo a lost round. Waiters are not notified: two of them would otherwise wake each other forever while
    /// a third process holds the lock.
    pub(super) fn undo(shared: &Arc<Shared>, record: Arc<LeaseRecord>) -> Self {
        Self::new(shared, record, NotifyWaiters::No, false)
    }

    /// Starts a release that the caller asked for. Every node receives at least one release.
    pub(super) fn release(shared: &Arc<Shared>, record: Arc<LeaseRecord>, notify: NotifyWaiters) -> Self {
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
    pub(super) async fn next(&mut self, until: Moment) -> Option<(usize, Result<Released, BackendError>)> {
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
    pub(super) async fn finish(mut self) {
        while self.next(Moment::NEVER).await.is_some() {}
        self.shared.leases.forget(&self.record);
    }

    fn hear(&mut self, sent: Sent) -> (usize, Result<Released, BackendError>) {
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
            let proof = self.record.released(sent.node, sent.release, reply.now, found);
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
        self.nodes[node].wanted || !self.record.is_clean(node)
    }

    fn due_at(&self, node: usize) -> Moment {
        let Node { retry_at, proof_at, .. } = self.nodes[node];
        if self.record.is_settled(node) { retry_at } else { retry_at.max(proof_at) }
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

    fn send(&self, node: usize, at: Moment) -> impl Future<Output = Sent> + Send + 'static {
        let release = self.record.release(node);
        let backend = self.shared.nodes[node].backend.clone();
        let (name, lease, notify) = (self.record.name.clone(), self.record.lease, self.notify);
        let request = ReleaseRequest { name, lease, depth_left: 0, notify };
        async move { Sent { node, release, at, answer: backend.free(request).await } }
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

/// Returns the outcome of a proposal or a heal, for its lease's record.
pub(super) fn outcome_of<T>(answer: &Result<T, BackendError>, is_set: impl Fn(&T) -> bool) -> Outcome {
    match answer {
        Ok(reply) if is_set(reply) => Outcome::Set,
        Ok(_) => Outcome::NotSet,
        Err(error) if error.applied() == Applied::No => Outcome::NotSet,
        Err(_) => Outcome::Unknown,
    }
}
