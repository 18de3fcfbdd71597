//! State that all operations of a quorum share: the nodes, what is known of them, and the records of leases.

use crate::{
    node::Member,
    node_state::{NodeClocks, NodeSilence, Outcome, Residue, not_after},
    round::{Word, majority},
};
use lock_core::{
    __private::{Random, lock},
    FencingToken, LockName, Retention,
    backend::{Applied, BackendError, BackendErrorKind, Floor, LeaseId, NodeVote, Reply, VoteKind, Votes},
    clock::{Clock, Moment, UtcTime},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// If the quorum's time moves back by less than this, a clock estimate was corrected. Replies then repeat the previous
/// time.
const STEP: Duration = Duration::from_secs(1);
/// Time for which background tasks wait for a reply that no decision needs.
pub(crate) const STRAGGLER_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which an operation that can no longer succeed waits for replies that may show the reason.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// Minimum number of lease records before expired ones are removed. After each sweep, the number must double before the
/// next.
const SWEEP_AT_LEAST: usize = 256;

/// The state of a quorum. Each of its mutexes guards a few lines of plain data; a thread locks at most one of them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) nodes: Vec<Member>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_lease: Duration,
    pub(crate) leases: Leases,
    pub(crate) random: Random,
    clocks: Mutex<NodeClocks>,
    silence: Mutex<NodeSilence>,
    last_now: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
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

    pub(crate) fn majority(&self) -> usize {
        majority(self.nodes.len())
    }

    /// Updates the clock estimate of this node from a reply.
    pub(crate) fn learn(&self, node: usize, sent: Moment, executed: UtcTime) {
        let now = self.clock.now();
        lock(&self.clocks).learn(node, sent, now, executed);
        lock(&self.silence).answered(node, sent, now);
    }

    /// Records that a request to this node failed. Every error except `Unavailable` and `Timeout` counts as a reply.
    pub(crate) fn failed(&self, node: usize, sent: Moment, error: &BackendError) {
        if !matches!(error.kind(), BackendErrorKind::Unavailable | BackendErrorKind::Timeout) {
            let now = self.clock.now();
            lock(&self.silence).answered(node, sent, now);
        }
    }

    /// Records that a request is sent to this node. If the node is left out instead, returns the moment from which it
    /// is asked again.
    pub(crate) fn ask(&self, node: usize, now: Moment) -> Result<(), Moment> {
        lock(&self.silence).ask(node, now)
    }

    /// Returns the median time of the nodes, as estimated by this process's clock. Before the first reply, returns this
    /// machine's wall-clock time.
    pub(crate) fn quorum_time(&self, now: Moment) -> UtcTime {
        let median = lock(&self.clocks).median(now);
        median.unwrap_or_else(|| self.clock.wall())
    }

    /// Returns the latest time, by this node's clock, at which a request with this budget, counted from `now`, may be
    /// executed.
    pub(crate) fn not_after(&self, node: usize, now: Moment, budget: Duration) -> UtcTime {
        let of_node = lock(&self.clocks).of(node, now);
        not_after(of_node.unwrap_or_else(|| self.clock.wall()), budget)
    }

    /// Returns the time until `not_after`, or `None` if it has passed. The time is at most the lease's duration: after
    /// a clock correction, `not_after` may be much farther ahead, but the request is useless once its lease would
    /// have expired.
    pub(crate) fn budget(&self, now: Moment, not_after: UtcTime, lease: Duration) -> Option<Duration> {
        let quorum = self.quorum_time(now);
        (quorum <= not_after).then(|| not_after.since(quorum).min(lease))
    }

    /// Returns the time until a node of this age may vote, or `None` if it already may.
    pub(crate) fn quarantine(&self, node: usize, age: Duration) -> Option<Duration> {
        let min = self.nodes[node].min_age(self.max_lease);
        (age < min).then(|| min - age)
    }

    /// Creates the quorum's reply.
    pub(crate) fn reply<T>(&self, outcome: T, votes: Votes) -> Reply<T> {
        let now = self.quorum_time(self.clock.now()).as_micros();
        let before = self.last_now.load(Ordering::Relaxed);
        let held_back = before.saturating_sub(now) < u64::try_from(STEP.as_micros()).unwrap_or(u64::MAX);
        let shown = if held_back { now.max(before) } else { now };
        self.last_now.store(shown, Ordering::Relaxed);
        Reply::new(UtcTime::from_micros(shown), outcome).with_votes(votes)
    }

    /// Creates the votes from their kinds, given in the order of the nodes. A missing kind is [`VoteKind::NoAnswer`].
    pub(crate) fn votes(&self, kinds: impl IntoIterator<Item = Option<VoteKind>>) -> Votes {
        let vote = |(member, kind): (&Member, Option<VoteKind>)| {
            NodeVote::new(member.name.clone(), kind.unwrap_or(VoteKind::NoAnswer))
        };
        self.nodes.iter().zip(kinds).map(vote).collect()
    }

    /// Returns an error if the lease is longer than `max_lease`, the time for which a node that lost its data does not
    /// vote.
    pub(crate) fn too_long(&self, lease: Duration) -> Option<BackendError> {
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
    pub(crate) fn no_majority(&self, what: &str, applied: Applied, votes: Votes) -> BackendError {
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

/// The records of all leases that may be stored on a node.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    by_lease: HashMap<(LockName, LeaseId), Arc<LeaseRecord>>,
    sweep_at: usize,
}

/// The record of one lease.
#[derive(Debug)]
pub(crate) struct LeaseRecord {
    pub(crate) name: LockName,
    pub(crate) lease: LeaseId,
    state: Mutex<State>,
    /// Moment at which the lease has expired on every node, in microseconds. A sweep reads it without locking the
    /// state.
    over_at: AtomicU64,
    /// Notified when a request that may set the lease is answered or given up, and when the record is removed.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
struct State {
    residues: Vec<Residue>,
    /// Values for heals; `None` before a majority has granted the lease.
    granted: Option<Granted>,
    /// Highest token proposed for the lease.
    reached: Floor,
    /// `true` once the lease is being released. No further request may set it.
    retired: bool,
}

/// Values that a heal stores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted {
    pub(crate) last: FencingToken,
    pub(crate) retention: Retention,
    pub(crate) depth: u32,
}

impl Leases {
    /// Returns the record of a lease, and creates it if there is none.
    pub(crate) fn open(
        &self,
        name: &LockName,
        lease: LeaseId,
        nodes: usize,
        now: Moment,
    ) -> Arc<LeaseRecord> {
        let mut records = lock(&self.records);
        if records.by_lease.len() >= records.sweep_at.max(SWEEP_AT_LEAST) {
            records.by_lease.retain(|_, record| record.over_at() > now);
            records.sweep_at = records.by_lease.len() * 2;
        }
        let key = (name.clone(), lease);
        records.by_lease.entry(key).or_insert_with(|| Arc::new(LeaseRecord::new(name, lease, nodes))).clone()
    }

    pub(crate) fn find(&self, name: &LockName, lease: LeaseId) -> Option<Arc<LeaseRecord>> {
        lock(&self.records).by_lease.get(&(name.clone(), lease)).cloned()
    }

    pub(crate) fn forget(&self, record: &Arc<LeaseRecord>) {
        let mut records = lock(&self.records);
        let key = (record.name.clone(), record.lease);
        if records.by_lease.get(&key).is_some_and(|known| Arc::ptr_eq(known, record)) {
            records.by_lease.remove(&key);
        }
        drop(records);
        record.changed.notify_waiters();
    }
}

impl LeaseRecord {
    pub(crate) fn new(name: &LockName, lease: LeaseId, nodes: usize) -> Self {
        let residues = vec![Residue::default(); nodes];
        let state = State { residues, granted: None, reached: None, retired: false };
        let (name, state, over_at) = (name.clone(), Mutex::new(state), AtomicU64::new(0));
        Self { name, lease, state, over_at, changed: Notify::new() }
    }

    /// Records a request that may set the lease on this node until `not_after`. The lease then expires by `over_at`.
    pub(crate) fn sent(&self, node: usize, not_after: UtcTime, over_at: Moment) {
        let mut state = lock(&self.state);
        state.residues[node].sent(not_after);
        self.extended(over_at);
    }

    /// Records a heal, as [`sent`](Self::sent) does, and returns the values to store. Returns `None` if the lease was
    /// never granted or is being released.
    pub(crate) fn heals(&self, node: usize, not_after: UtcTime, over_at: Moment) -> Option<Granted> {
        let mut state = lock(&self.state);
        let granted = state.granted.filter(|_| !state.retired)?;
        state.residues[node].sent(not_after);
        self.extended(over_at);
        Some(granted)
    }

    /// Returns the highest token proposed so far. A repeated acquire proposes higher ones.
    pub(crate) fn reached(&self) -> Floor {
        lock(&self.state).reached
    }

    /// Records that tokens up to this one have been proposed.
    pub(crate) fn proposes(&self, last: FencingToken) {
        let reached = &mut lock(&self.state).reached;
        *reached = (*reached).max(Some(last));
    }

    /// Records the outcome of a request that may set the lease.
    pub(crate) fn answered(&self, node: usize, outcome: Outcome) {
        self.residue(node, |residue| residue.answered(outcome));
        self.changed.notify_waiters();
    }

    /// Records an unknown outcome for every request without a reply, because nothing waits for the replies any longer.
    pub(crate) fn give_up(&self) {
        lock(&self.state).residues.iter_mut().for_each(Residue::give_up);
        self.changed.notify_waiters();
    }

    /// Records that a majority granted the lease.
    pub(crate) fn granted(&self, last: FencingToken, retention: Retention) {
        lock(&self.state).granted = Some(Granted { last, retention, depth: 1 });
    }

    /// Records the depth that a majority stored.
    pub(crate) fn has_depth(&self, depth: u32) {
        if let Some(granted) = &mut lock(&self.state).granted {
            granted.depth = depth;
        }
    }

    /// Records an extension, after which the lease may last until `over_at`.
    pub(crate) fn extended(&self, over_at: Moment) {
        self.over_at.fetch_max(over_at.as_micros(), Ordering::Relaxed);
    }

    /// Marks the lease as being released. No further request may set it.
    pub(crate) fn retire(&self) {
        lock(&self.state).retired = true;
    }

    /// Returns `true` if the lease is being released.
    pub(crate) fn is_retired(&self) -> bool {
        lock(&self.state).retired
    }

    /// Reads or changes what may remain of the lease on this node.
    pub(crate) fn residue<R>(&self, node: usize, f: impl FnOnce(&mut Residue) -> R) -> R {
        f(&mut lock(&self.state).residues[node])
    }

    /// Returns the moment at which the lease has expired on every node.
    pub(crate) fn over_at(&self) -> Moment {
        Moment::from_micros(self.over_at.load(Ordering::Relaxed))
    }
}

/// Returns the answer of a node whose request failed to a yes-or-no question.
pub(crate) fn failed(error: &BackendError) -> (Word, VoteKind) {
    (Word::Out, VoteKind::Failed { error: error.to_string() })
}

/// Returns the vote of a node whose reply this version does not know. It decides nothing.
pub(crate) fn unknown_reply() -> VoteKind {
    VoteKind::Failed { error: "the node gave a reply that this version does not know".to_owned() }
}

/// Creates the error for a request that is not sent because its node is left out.
pub(crate) fn left_out() -> BackendError {
    let message = "no request sent: the latest requests to this node failed or were not answered";
    BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
}
