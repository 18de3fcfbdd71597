//! State that all operations of a quorum share: the nodes, their clocks, which of them are silent, and the leases.

use crate::{
    clocks::{NodeClocks, not_after},
    leases::Leases,
    node::Member,
    round::majority,
    silence::NodeSilence,
};
use lock_core::{
    __private::{Random, lock},
    backend::{Applied, BackendError, BackendErrorKind, NodeVote, Reply, VoteKind, Votes},
    clock::Clock,
    clock::{Moment, UtcTime},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// If the quorum's time moves back by less than this, a clock estimate was corrected. Replies then repeat the previous
/// time.
const STEP: Duration = Duration::from_secs(1);
/// Time for which background tasks wait for a reply that no decision needs.
pub(super) const STRAGGLER_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which an operation that can no longer succeed waits for replies that may show the reason.
pub(super) const GRACE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) nodes: Vec<Member>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) max_lease: Duration,
    pub(super) leases: Leases,
    pub(super) random: Random,
    clocks: Mutex<NodeClocks>,
    silence: Mutex<NodeSilence>,
    last_now: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        nodes: Vec<Member>,
        clock: Arc<dyn Clock>,
        max_lease: Duration,
        random: Random,
    ) -> Self {
        let clocks = Mutex::new(NodeClocks::new(nodes.len()));
        let silence = Mutex::new(NodeSilence::new(nodes.len()));
        let (leases, last_now) = (Leases::default(), AtomicU64::new(0));
        Self { nodes, clock, max_lease, leases, random, clocks, silence, last_now }
    }

    pub(super) fn majority(&self) -> usize {
        majority(self.nodes.len())
    }

    /// Updates the clock estimate of this node from a reply.
    pub(super) fn learn(&self, node: usize, sent: Moment, executed: UtcTime) {
        let now = self.clock.now();
        lock(&self.clocks).learn(node, sent, now, executed);
        lock(&self.silence).answered(node, sent, now);
    }

    /// Records that a request to this node failed. Every error except `Unavailable` and `Timeout` counts as a reply.
    pub(super) fn failed(&self, node: usize, sent: Moment, error: &BackendError) {
        if !matches!(error.kind(), BackendErrorKind::Unavailable | BackendErrorKind::Timeout) {
            lock(&self.silence).answered(node, sent, self.clock.now());
        }
    }

    /// Records that a request is sent to this node. If the node is left out instead, returns the moment from which it
    /// is asked again.
    pub(super) fn ask(&self, node: usize, now: Moment) -> Result<(), Moment> {
        lock(&self.silence).ask(node, now)
    }

    /// Returns the median time of the nodes, as estimated by this process's clock. Before the first reply, returns this
    /// machine's wall-clock time.
    pub(super) fn quorum_time(&self, now: Moment) -> UtcTime {
        let median = lock(&self.clocks).median(now);
        median.unwrap_or_else(|| self.clock.wall())
    }

    /// Returns the latest time, by this node's clock, at which a request with this budget, counted from `now`, may be
    /// executed.
    pub(super) fn not_after(&self, node: usize, now: Moment, budget: Duration) -> UtcTime {
        let of_node = lock(&self.clocks).of(node, now);
        not_after(of_node.unwrap_or_else(|| self.clock.wall()), budget)
    }

    /// Returns the time until `not_after`, or `None` if it has passed. The time is at most the lease's duration: after
    /// a clock correction, `not_after` may be much farther ahead, but the request is useless once its lease would
    /// have expired.
    pub(super) fn budget(&self, now: Moment, not_after: UtcTime, lease: Duration) -> Option<Duration> {
        let quorum = self.quorum_time(now);
        (quorum <= not_after).then(|| not_after.since(quorum).min(lease))
    }

    /// Returns the time until a node of this age may vote, or `None` if it already may.
    pub(super) fn quarantine(&self, node: usize, age: Duration) -> Option<Duration> {
        let min = self.nodes[node].min_age(self.max_lease);
        (age < min).then(|| min - age)
    }

    /// Creates the quorum's reply.
    pub(super) fn reply<T>(&self, outcome: T, votes: Votes) -> Reply<T> {
        let now = self.quorum_time(self.clock.now()).as_micros();
        let before = self.last_now.load(Ordering::Relaxed);
        let held_back = before.saturating_sub(now) < u64::try_from(STEP.as_micros()).unwrap_or(u64::MAX);
        let shown = if held_back { now.max(before) } else { now };
        self.last_now.store(shown, Ordering::Relaxed);
        Reply::new(UtcTime::from_micros(shown), outcome).with_votes(votes)
    }

    /// Creates the votes from their kinds, given in the order of the nodes. A missing kind is [`VoteKind::NoAnswer`].
    pub(super) fn votes(&self, kinds: impl IntoIterator<Item = Option<VoteKind>>) -> Votes {
        let vote = |(member, kind): (&Member, Option<VoteKind>)| {
            NodeVote::new(member.name.clone(), kind.unwrap_or(VoteKind::NoAnswer))
        };
        self.nodes.iter().zip(kinds).map(vote).collect()
    }

    /// Returns an error if the lease is longer than `max_lease`, the time for which a node that lost its data does not
    /// vote.
    pub(super) fn too_long(&self, lease: Duration) -> Option<BackendError> {
        (lease > self.max_lease).then(|| {
            let most = self.max_lease;
            let message = format!(
                "a lease of {lease:?} exceeds this quorum's `max_lease` ({most:?}): use a shorter lease, or raise \
                 `max_lease` on all clients"
            );
            BackendError::new(BackendErrorKind::Unsupported, Applied::No, message)
        })
    }

    /// Creates the error of an operation on which no majority has decided.
    pub(super) fn no_majority(&self, what: &str, applied: Applied, votes: Votes) -> BackendError {
        let needed = self.majority();
        let left = votes.iter().filter_map(|vote| match vote.kind {
            VoteKind::Quarantined { left } => Some(left),
            _ => None,
        });
        let mut left: Vec<_> = left.collect();
        left.sort_unstable();
        // The time until enough quarantines have ended for a majority to vote.
        let last = (needed + left.len()).checked_sub(votes.len() + 1).and_then(|place| left.get(place));
        let quarantine = last.map_or(String::new(), |left| {
            format!(
                "; too many nodes have not yet proved that they kept their data: a majority can vote in {left:.1?}"
            )
        });
        let message = format!("fewer than {needed} nodes {what}{quarantine}");
        let kind = match applied {
            Applied::No => BackendErrorKind::Unavailable,
            Applied::Unknown => BackendErrorKind::Timeout,
        };
        BackendError::new(kind, applied, message).with_votes(votes)
    }
}

/// Returns the vote of a node whose reply this version does not know. It decides nothing.
pub(super) fn unknown_reply() -> VoteKind {
    VoteKind::Failed { error: "the node gave a reply that this version does not know".to_owned() }
}

/// Creates the error for a request that is not sent because its node is left out.
pub(super) fn left_out() -> BackendError {
    let message = "no request sent: the latest requests to this node failed or were not answered";
    BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
}
