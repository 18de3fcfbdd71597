//! Records of the leases that this process requested from the nodes.

use crate::residue::{Outcome, Release, Residue};
use lock_core::{
    __private::lock,
    FencingToken, LockName, Retention,
    backend::{Floor, LeaseId},
    clock::{Moment, UtcTime},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// Minimum number of records before expired ones are removed. After each sweep, the number must double before the next.
const SWEEP_AT_LEAST: usize = 256;

/// The records of all leases that may be stored on a node.
#[derive(Debug, Default)]
pub(super) struct Leases {
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    by_lease: HashMap<(LockName, LeaseId), Arc<LeaseRecord>>,
    sweep_at: usize,
}

/// The record of one lease.
#[derive(Debug)]
pub(super) struct LeaseRecord {
    pub(super) name: LockName,
    pub(super) lease: LeaseId,
    state: Mutex<State>,
    /// Notified when a request that may set the lease is answered or given up, and when the record is removed.
    pub(super) changed: Notify,
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
    /// Moment at which the lease has expired on every node.
    over_at: Moment,
}

/// Values that a heal stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) last: FencingToken,
    pub(super) retention: Retention,
    pub(super) depth: u32,
}

impl Leases {
    /// Returns the record of a lease, and creates it if there is none.
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

    /// Records a request that may set the lease on this node until `not_after`. The lease then expires by `over_at`.
    pub(super) fn sent(&self, node: usize, not_after: UtcTime, over_at: Moment) {
        let mut state = lock(&self.state);
        state.residues[node].sent(not_after);
        state.over_at = state.over_at.max(over_at);
    }

    /// Records a heal, as [`sent`](Self::sent) does, and returns the values to store. Returns `None` if the lease was
    /// never granted or is being released.
    pub(super) fn heals(&self, node: usize, not_after: UtcTime, over_at: Moment) -> Option<Granted> {
        let mut state = lock(&self.state);
        let granted = state.granted.filter(|_| !state.retired)?;
        state.residues[node].sent(not_after);
        state.over_at = state.over_at.max(over_at);
        Some(granted)
    }

    /// Returns the highest token proposed so far. A repeated acquire proposes higher ones.
    pub(super) fn reached(&self) -> Floor {
        lock(&self.state).reached
    }

    /// Records that tokens up to this one have been proposed.
    pub(super) fn proposes(&self, last: FencingToken) {
        let reached = &mut lock(&self.state).reached;
        *reached = (*reached).max(Some(last));
    }

    /// Records the outcome of a request that may set the lease.
    pub(super) fn answered(&self, node: usize, outcome: Outcome) {
        lock(&self.state).residues[node].answered(outcome);
        self.changed.notify_waiters();
    }

    /// Records an unknown outcome for every request without a reply, because nothing waits for the replies any longer.
    pub(super) fn give_up(&self) {
        lock(&self.state).residues.iter_mut().for_each(Residue::give_up);
        self.changed.notify_waiters();
    }

    /// Records that a majority granted the lease.
    pub(super) fn granted(&self, last: FencingToken, retention: Retention) {
        lock(&self.state).granted = Some(Granted { last, retention, depth: 1 });
    }

    /// Records the depth that a majority stored.
    pub(super) fn has_depth(&self, depth: u32) {
        if let Some(granted) = &mut lock(&self.state).granted {
            granted.depth = depth;
        }
    }

    /// Records an extension, after which the lease may last until `over_at`.
    pub(super) fn extended(&self, over_at: Moment) {
        let mut state = lock(&self.state);
        state.over_at = state.over_at.max(over_at);
    }

    /// Marks the lease as being released. No further request may set it.
    pub(super) fn retire(&self) {
        lock(&self.state).retired = true;
    }

    /// Returns `true` if the lease is being released.
    pub(super) fn is_retired(&self) -> bool {
        lock(&self.state).retired
    }

    /// Returns a release to send to this node now.
    pub(super) fn release(&self, node: usize) -> Release {
        lock(&self.state).residues[node].release()
    }

    /// Records that a release was executed; see [`Residue::released`].
    pub(super) fn released(
        &self,
        node: usize,
        release: Release,
        executed: Option<UtcTime>,
        found: bool,
    ) -> Option<UtcTime> {
        lock(&self.state).residues[node].released(release, executed, found)
    }

    pub(super) fn is_clean(&self, node: usize) -> bool {
        lock(&self.state).residues[node].is_clean()
    }

    /// Returns `true` if no request to this node may still set the lease.
    pub(super) fn is_settled(&self, node: usize) -> bool {
        !lock(&self.state).residues[node].is_open()
    }

    pub(super) fn over_at(&self) -> Moment {
        lock(&self.state).over_at
    }
}
