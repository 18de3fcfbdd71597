//! The live nodes with the same jobs, and the order in which they claim runs.
//!
//! The order is a rendezvous hash of (job, scheduled time, node): each node comes first for an
//! equal share of the runs, and the runs of a node that leaves are spread over the others. Nodes
//! may disagree about the order, since only the claim decides.

use crate::{hash::StableHash, time::UtcTime};
use lock_core::LockName;
use std::time::Duration;
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
