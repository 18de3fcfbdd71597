//! The store rules of a quorum node, with a planted bug.

use super::{
    BuggySlot, BuggyStore,
    PlantedBug::{AddsVotes, ReusesLease},
};
use lock_core::{
    backend::{LeaseId, LeaseNumber},
    clock::UtcTime,
    quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, Vote},
};
use std::time::Duration;

impl BuggySlot {
    /// Votes on a proposal. `age` is the age of the node's data.
    pub fn propose(
        &mut self,
        now: UtcTime,
        age: Duration,
        p: &Proposal,
        retention: Option<Duration>,
    ) -> Vote {
        let holder = self.rules.inspect(now).map(|(holder, ..)| holder);
        match self.bug {
            // The node's vote for an earlier proposal of the round still counts.
            Some(AddsVotes) if holder == Some(p.lease) => Vote::Granted,
            _ => self.rules.propose(now, age, p, retention),
        }
    }

    /// Extends an existing lease.
    pub fn extend(&mut self, now: UtcTime, e: &Extension) -> Extended {
        self.rules.extend(now, e)
    }

    /// Restores a lease that the node lost.
    pub fn heal(&mut self, now: UtcTime, h: &Healing, retention: Option<Duration>) -> Healed {
        self.rules.heal(now, h, retention)
    }
}

impl BuggyStore {
    /// Returns the id under which a lease is stored. It differs from the lease's own id only with
    /// [`ReusesLease`].
    #[must_use]
    pub fn stored_id(&self, lease: LeaseId) -> LeaseId {
        match self.has(ReusesLease) {
            true => LeaseId::new(lease.process(), LeaseNumber::new(0)),
            false => lease,
        }
    }

    /// Executes a proposal.
    pub fn propose(&mut self, now: UtcTime, age: Duration, p: &Proposal) -> NodeReply<Vote> {
        let retention = p.retention.unless(self.retention);
        let proposal = Proposal { lease: self.stored_id(p.lease), ..p.clone() };
        let outcome = self.slot(&p.name).propose(now, age, &proposal, retention);
        NodeReply { now, age, outcome }
    }

    /// Executes an extension.
    pub fn extend(&mut self, now: UtcTime, age: Duration, e: &Extension) -> NodeReply<Extended> {
        let extension = Extension { lease: self.stored_id(e.lease), ..e.clone() };
        NodeReply { now, age, outcome: self.slot(&e.name).extend(now, &extension) }
    }

    /// Executes a heal.
    pub fn heal(&mut self, now: UtcTime, age: Duration, h: &Healing) -> NodeReply<Healed> {
        let retention = h.retention.unless(self.retention);
        let healing = Healing { lease: self.stored_id(h.lease), ..h.clone() };
        NodeReply { now, age, outcome: self.slot(&h.name).heal(now, &healing, retention) }
    }
}
