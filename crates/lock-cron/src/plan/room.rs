//! The room for further runs: on this node, and in the pools of the fleet.
//!
//! A full pool is treated like a node without room: the runs stay due until their grace is over,
//! and are then skipped. Only the store knows all open runs of a pool, so a node detects a full
//! pool from the replies to its claims. After each back-off, one claim is then sent on behalf of
//! all jobs in the pool. A pool's claims are sent one at a time, so even if many jobs wait for a
//! slot, there are few requests.

use crate::{terms::JobTerms, time::UtcTime};
use lock_core::{__private::Backoff, LockName};
use std::{collections::BTreeMap, time::Duration};

/// The delay before a claim is repeated.
pub(super) const CLAIM_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The back-off of a claim while other runs of its job or pool are open. It is reset when one of them ends on this
/// node.
pub(crate) const BUSY: Backoff = Backoff::new(CLAIM_RETRY_PAUSE, Duration::from_secs(5));

/// The room for further runs.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The number of further runs that this node may start.
    of_node: u32,
    /// The pools with a claim in flight or with waiting runs.
    pools: BTreeMap<LockName, Pool>,
}

#[derive(Debug)]
struct Pool {
    /// Set while a claim is in flight.
    asking: bool,
    /// Set if the last reply reported a full pool.
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
    /// Begins a tick with this room on the node; `in_flight` yields the terms of the jobs that have a claim in flight.
    pub(super) fn begin<'a>(&mut self, of_node: u32, in_flight: impl Iterator<Item = &'a JobTerms>) {
        self.of_node = of_node;
        self.pools.values_mut().for_each(|pool| pool.asking = false);
        for terms in in_flight {
            if let Some(pool) = self.pool_mut(terms) {
                pool.asking = true;
            }
        }
    }

    /// Ends a tick. Forgets pools that may be claimed but have no claim in flight, because no run is waiting for them.
    pub(super) fn end(&mut self, now: UtcTime) {
        self.pools.retain(|_, pool| pool.asking || pool.not_before > now);
    }

    pub(super) fn is_node_full(&self) -> bool {
        self.of_node == 0
    }

    /// Returns `true` if there is no known room for a run of the job, on this node or in its pool.
    pub(super) fn is_full(&self, terms: &JobTerms) -> bool {
        self.is_node_full() || self.pool(terms).is_some_and(|pool| pool.is_full)
    }

    /// Returns the time from which a run of the job may be claimed. Returns `None` if an event must
    /// come first: the end of a run, or a reply.
    pub(super) fn opens_at(&self, terms: &JobTerms) -> Option<UtcTime> {
        let pool = self.pool(terms);
        let is_open = !self.is_node_full() && !pool.is_some_and(|pool| pool.asking);
        is_open.then(|| pool.map_or(UtcTime::default(), |pool| pool.not_before))
    }

    /// Reserves room for a run that is being claimed.
    pub(super) fn take(&mut self, terms: &JobTerms) {
        self.of_node -= 1;
        if let Some(limit) = &terms.pool {
            self.pools.entry(limit.name.clone()).or_default().asking = true;
        }
    }

    /// Handles the reply that a job's pool is full.
    pub(super) fn refused(&mut self, terms: &JobTerms, now: UtcTime) {
        if let Some(pool) = self.pool_mut(terms) {
            (pool.asking, pool.is_full) = (false, true);
            pool.not_before = now + pool.busy.next_wait();
        }
    }

    /// Handles the reply that a run of the job was claimed.
    pub(super) fn granted(&mut self, terms: &JobTerms) {
        if let Some(limit) = &terms.pool {
            self.pools.remove(&limit.name);
        }
    }

    /// Handles the end of one of the job's runs on this node. Its slot is free, unless another node has taken it.
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
