//! What this process knows of the leases that it asked the nodes for.

use super::residue::{Outcome, Release, Residue};
use crate::{
    backend::{Floor, Retention},
    ids::LeaseId,
    name::LockName,
    sync::{Mutex, lock, rank},
    time::{Moment, ServerTime},
    token::FencingToken,
};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::Notify;

/// A sweep waits until the records have doubled.
const SWEEP_AT_LEAST: usize = 256;

/// Leases that may be stored on a node.
#[derive(Debug, Default)]
pub(super) struct Leases {
    records: Mutex<rank::QuorumLeases, Records>,
}

#[derive(Debug, Default)]
struct Records {
    by_lease: HashMap<(LockName, LeaseId), Arc<LeaseRecord>>,
    sweep_at: usize,
}

/// One lease.
#[derive(Debug)]
pub(super) struct LeaseRecord {
    pub(super) name: LockName,
    pub(super) lease: LeaseId,
    state: Mutex<rank::QuorumLease, State>,
    /// A request that may set the lease was answered, or the record is over.
    pub(super) changed: Notify,
}

#[derive(Debug)]
struct State {
    residues: Vec<Residue>,
    /// What a heal stores, of a lease that was granted.
    granted: Option<Granted>,
    /// The highest token that was proposed for it.
    reached: Floor,
    /// Nothing sets it any more.
    retired: bool,
    /// It has ended by itself on every node then.
    over_at: Moment,
}

/// What a heal stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) last: FencingToken,
    pub(super) retention: Retention,
    pub(super) depth: u32,
}

impl Leases {
    /// The record of a lease; made if there is none.
    pub(super) fn open(
        &self,
        name: &LockName,
        lease: LeaseId,
        nodes: usize,
        now: Moment,
    ) -> Arc<LeaseRecord> {
        let mut records = lock(&self.records);
        if records.by_lease.len() >= records.sweep_at.max(SWEEP_AT_LEAST) {
            records.by_lease.retain(|_, record| lock(&record.state).over_at > now);
            records.sweep_at = records.by_lease.len() * 2;
        }
        let key = (name.clone(), lease);
        records.by_lease.entry(key).or_insert_with(|| Arc::new(LeaseRecord::new(name, lease, nodes))).clone()
    }

    pub(super) fn find(&self, name: &LockName, lease: LeaseId) -> Option<Arc<LeaseRecord>> {
        lock(&self.records).by_lease.get(&(name.clone(), lease)).cloned()
    }

    pub(super) fn forget(&self, record: &Arc<LeaseRecord>) {
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
    pub(super) fn new(name: &LockName, lease: LeaseId, nodes: usize) -> Self {
        let residues = vec![Residue::default(); nodes];
        let state = State { residues, granted: None, reached: None, retired: false, over_at: Moment::START };
        Self { name: name.clone(), lease, state: Mutex::new(state), changed: Notify::new() }
    }

    /// A request was sent that may set the lease on this node until `not_after`; it is over by itself at `over_at`.
    pub(super) fn sent(&self, node: usize, not_after: ServerTime, over_at: Moment) {
        let mut state = lock(&self.state);
        state.residues[node].sent(not_after);
        state.over_at = state.over_at.max(over_at);
    }

    /// As [`sent`](Self::sent), for a heal: `None` if the lease is not to be set any more.
    pub(super) fn heals(&self, node: usize, not_after: ServerTime, over_at: Moment) -> Option<Granted> {
        let mut state = lock(&self.state);
        let granted = state.granted.filter(|_| !state.retired)?;
        state.residues[node].sent(not_after);
        state.over_at = state.over_at.max(over_at);
        Some(granted)
    }

    /// The tokens of a repeated acquire are above those of the first.
    pub(super) fn reached(&self) -> Floor {
        lock(&self.state).reached
    }

    /// These tokens are proposed.
    pub(super) fn proposes(&self, last: FencingToken) {
        let reached = &mut lock(&self.state).reached;
        *reached = (*reached).max(Some(last));
    }

    /// That request was answered.
    pub(super) fn answered(&self, node: usize, outcome: Outcome) {
        lock(&self.state).residues[node].answered(outcome);
        self.changed.notify_waiters();
    }

    /// Nobody waits for the answers any more.
    pub(super) fn give_up(&self) {
        lock(&self.state).residues.iter_mut().for_each(Residue::give_up);
        self.changed.notify_waiters();
    }

    /// A majority granted it.
    pub(super) fn granted(&self, last: FencingToken, retention: Retention) {
        lock(&self.state).granted = Some(Granted { last, retention, depth: 1 });
    }

    /// A majority stored this depth.
    pub(super) fn has_depth(&self, depth: u32) {
        if let Some(granted) = &mut lock(&self.state).granted {
            granted.depth = depth;
        }
    }

    /// It may be extended, and is then over by itself at `over_at`.
    pub(super) fn extended(&self, over_at: Moment) {
        let mut state = lock(&self.state);
        state.over_at = state.over_at.max(over_at);
    }

    /// Nothing sets it from now on.
    pub(super) fn retire(&self) {
        lock(&self.state).retired = true;
    }

    /// Whether it is being released.
    pub(super) fn is_retired(&self) -> bool {
        lock(&self.state).retired
    }

    /// A release is sent to this node.
    pub(super) fn release(&self, node: usize) -> Release {
        lock(&self.state).residues[node].release()
    }

    /// It was executed; see [`Residue::released`].
    pub(super) fn released(
        &self,
        node: usize,
        release: Release,
        executed: ServerTime,
        found: bool,
    ) -> Option<ServerTime> {
        lock(&self.state).residues[node].released(release, executed, found)
    }

    pub(super) fn is_clean(&self, node: usize) -> bool {
        lock(&self.state).residues[node].is_clean()
    }

    /// Whether nothing is under way to this node that may set the lease.
    pub(super) fn is_settled(&self, node: usize) -> bool {
        !lock(&self.state).residues[node].is_open()
    }

    pub(super) fn over_at(&self) -> Moment {
        lock(&self.state).over_at
    }
}
