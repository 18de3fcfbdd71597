//! The places where a run may start: the nodes, in the order in which they claim it, and the room on this node and in
//! the pools of the fleet.
//!
//! The order of the nodes is a rendezvous hash of (job, scheduled time, node): each node comes first for an
//! equal share of the runs, and the runs of a node that leaves are spread over the others. Nodes
//! may disagree about the order, since only the claim decides.
//!
//! A full pool is treated like a node without room: the runs stay due until their grace is over,
//! and are then skipped. Only the store knows all open runs of a pool, so a node detects a full
//! pool from the replies to its claims. After each back-off, one claim is then sent on behalf of
//! all jobs in the pool. A pool's claims are sent one at a time, so even if many jobs wait for a
//! slot, there are few requests.

use crate::{hash::StableHash, options::JobTerms};
use lock_core::{__private::Backoff, LockName, clock::UtcTime};
use std::{collections::BTreeMap, time::Duration};
use uuid::Uuid;

/// The time for which a node counts as alive after a heartbeat.
pub(crate) const NODE_LEASE: Duration = Duration::from_secs(3);

/// The live nodes with the same jobs, as of the last heartbeat.
#[derive(Debug)]
pub(crate) struct Peers {
    /// This node.
    pub(crate) this: Uuid,
    /// The other nodes that have room.
    pub(crate) others: Vec<Uuid>,
    /// The time of the heartbeat.
    pub(crate) read_at: UtcTime,
}

impl Peers {
    pub(super) fn are_known(&self, now: UtcTime) -> bool {
        now.since(self.read_at) <= NODE_LEASE
    }

    /// Returns `true` if this node comes first for the run, assuming it has room.
    pub(super) fn is_first(&self, job: &LockName, at: UtcTime) -> bool {
        let own = weight(job, at, self.this);
        self.others.iter().all(|other| weight(job, at, *other) < own)
    }
}

/// Returns the weight of a node for a run. The node with the highest weight comes first.
fn weight(job: &LockName, at: UtcTime, node: Uuid) -> (u64, Uuid) {
    let (high, low) = node.as_u64_pair();
    let hash = StableHash::new().text(job.as_str()).number(at.as_millis().cast_signed());
    (hash.number(high.cast_signed()).number(low.cast_signed()).finish(), node)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_leaving_node_are_spread() {
        let nodes: Vec<_> = (1..=5).map(Uuid::from_u128).collect();
        let job = LockName::new("job").expect("valid name");
        let first = |of: &[Uuid], at| {
            let is_first = |this: &&Uuid| {
                let others = of.iter().filter(|node| node != this).copied().collect();
                Peers { this: **this, others, read_at: at }.is_first(&job, at)
            };
            let first: Vec<_> = of.iter().filter(is_first).collect();
            assert_eq!(first.len(), 1);
            *first[0]
        };
        let (mut shares, mut inherited) = ([0; 5], [0; 5]);
        for second in 0..1_000 {
            let at = UtcTime::from_millis(1_767_225_600_000 + second * 1_000);
            let (of_all, of_four) = (first(&nodes, at), first(&nodes[..4], at));
            shares[of_all.as_u128() as usize - 1] += 1;
            if of_all == nodes[4] {
                inherited[of_four.as_u128() as usize - 1] += 1;
            } else {
                assert_eq!(of_all, of_four, "only the runs of the node that left move");
            }
        }
        assert!(shares.iter().all(|share| (150..=250).contains(share)), "{shares:?}");
        assert!(inherited[..4].iter().all(|share| *share > 20), "{inherited:?}");
    }
}
