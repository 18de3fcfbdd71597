//! The room for further runs: on this node, and in the pools of the fleet.
//!
//! A full pool is treated like a node without room: the runs stay due until their grace is over, and are then skipped.
//! Only the store knows the other runs of a pool. The answers to claims tell that it is full; then one claim asks again
//! after each back-off, for all jobs of the pool. Claims of a pool go one after another, so that many jobs that wait for
//! one place send few requests.

use super::planned_job::BUSY;
use crate::{terms::JobTerms, time::UtcTime};
use lock_core::{__private::Backoff, LockName};
use std::collections::BTreeMap;

/// The room for further runs.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The number of further runs of this node.
    of_node: u32,
    /// The pools with a claim in flight, or with runs that wait.
    pools: BTreeMap<LockName, Pool>,
}

#[derive(Debug)]
struct Pool {
    /// Set while a claim is in flight.
    asking: bool,
    /// Set if the last answer said so.
    is_full: bool,
    /// The time before which no claim is sent.
    not_before: UtcTime,
    busy: Backoff,
}

impl Default for Pool {
    fn default() -> Self {
        Self { asking: false, is_full: false, not_before: UtcTime::default(), busy: BUSY }
    }
}

impl Room {
    /// Begins a tick with this room on the node, and with these terms of jobs that have a claim in flight.
    pub(super) fn begin<'a>(&mut self, of_node: u32, in_flight: impl Iterator<Item = &'a JobTerms>) {
        self.of_node = of_node;
        self.pools.values_mut().for_each(|pool| pool.asking = false);
        for terms in in_flight {
            if let Some(pool) = self.pool_mut(terms) {
                pool.asking = true;
            }
        }
    }

    /// Ends a tick. A pool for which no job asks, although it may, has no waiting runs and is forgotten.
    pub(super) fn end(&mut self, now: UtcTime) {
        self.pools.retain(|_, pool| pool.asking || pool.not_before > now);
    }

    pub(super) fn is_node_full(&self) -> bool {
        self.of_node == 0
    }

    /// Returns `true` if a run of the job finds no room, on this node or in its pool, as far as is known.
    pub(super) fn is_full(&self, terms: &JobTerms) -> bool {
        self.is_node_full() || self.pool(terms).is_some_and(|pool| pool.is_full)
    }

    /// Returns the time from which a run of the job may be claimed; `None` if an event has to come first: the end of a
    /// run, or an answer.
    pub(super) fn opens_at(&self, terms: &JobTerms) -> Option<UtcTime> {
        let pool = self.pool(terms);
        let is_open = !self.is_node_full() && !pool.is_some_and(|pool| pool.asking);
        is_open.then(|| pool.map_or(UtcTime::default(), |pool| pool.not_before))
    }

    /// Takes the room of a run that is claimed.
    pub(super) fn take(&mut self, terms: &JobTerms) {
        self.of_node -= 1;
        if let Some(limit) = &terms.pool {
            self.pools.entry(limit.name.clone()).or_default().asking = true;
        }
    }

    /// Takes the answer that the pool of a job is full.
    pub(super) fn refused(&mut self, terms: &JobTerms, now: UtcTime) {
        if let Some(pool) = self.pool_mut(terms) {
            (pool.asking, pool.is_full) = (false, true);
            pool.not_before = now + pool.busy.next_wait();
        }
    }

    /// Takes the answer that a run of the job was claimed.
    pub(super) fn granted(&mut self, terms: &JobTerms) {
        if let Some(limit) = &terms.pool {
            self.pools.remove(&limit.name);
        }
    }

    /// Handles the end of a run of the job on this node: its place is free, unless another node has taken it.
    pub(super) fn run_ended(&mut self, terms: &JobTerms) {
        if let Some(pool) = self.pool_mut(terms) {
            pool.not_before = UtcTime::default();
            pool.busy.reset();
        }
    }

    fn pool(&self, terms: &JobTerms) -> Option<&Pool> {
        self.pools.get(&terms.pool.as_ref()?.name)
    }

    fn pool_mut(&mut self, terms: &JobTerms) -> Option<&mut Pool> {
        self.pools.get_mut(&terms.pool.as_ref()?.name)
    }
}
