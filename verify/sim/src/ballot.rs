//! The votes of quorum nodes, and the check that each hold is backed by a majority.

use crate::{oracle::Oracle, quorum::NODES, state::State, trace::Who};
use lock_core::{
    FencingToken, LockName,
    backend::LeaseId,
    quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, Vote},
};
use std::collections::BTreeSet;

/// The maximum number of times that a held name may wake its waiters.
const MAX_IDLE_WAKES: u32 = 200;

/// The nodes that granted a token to a lease.
#[derive(Debug)]
pub(crate) struct Ballot {
    nodes: BTreeSet<usize>,
    last: FencingToken,
    /// The highest token that a process had been granted when the first of these nodes voted.
    told: u64,
}

/// The number of waiters woken while one lease held a majority.
#[derive(Debug, Default)]
pub(crate) struct IdleWakes {
    holder: Option<LeaseId>,
    count: u32,
}

impl State {
    pub(crate) fn propose(&mut self, node: usize, p: &Proposal) -> NodeReply<Vote> {
        let reply = self.stores[node].propose(self.now, p);
        let what = match &reply.outcome {
            Vote::Granted => "grants",
            Vote::Busy { .. } => "is busy",
            Vote::Stale { .. } => "stale vote",
            Vote::ClockOff => "vote with a clock off",
            Vote::Quarantined => "quarantined vote",
            Vote::Late => "late vote",
        };
        self.note(Who::Store(node), what, (p.lease.number().get(), p.token.get()));
        self.count(what);
        if reply.outcome == Vote::Granted {
            self.oracle.voted(self.now, node, p);
        }
        NodeReply { now: self.stores.time_of(node, self.now), ..reply }
    }

    pub(crate) fn extend(&mut self, node: usize, e: &Extension) -> NodeReply<Extended> {
        let reply = self.stores[node].extend(self.now, e);
        self.note(Who::Store(node), "extend", (e.lease.number().get(), reply.outcome as u64));
        NodeReply { now: self.stores.time_of(node, self.now), ..reply }
    }

    pub(crate) fn cure(&mut self, node: usize, h: &Healing) -> NodeReply<Healed> {
        let reply = self.stores[node].heal(self.now, h);
        self.note(Who::Store(node), "heal", (h.lease.number().get(), reply.outcome as u64));
        if reply.outcome == Healed::Set {
            self.count("heal");
            self.oracle.set_again(h.lease);
        }
        NodeReply { now: self.stores.time_of(node, self.now), ..reply }
    }

    /// Records that a node wakes waiters. While a lease holds the name, this must come to an end.
    pub(crate) fn wakes_waiters(&mut self, name: &LockName) {
        let holder = self.stores.stored(self.now, name).map(|stored| stored.lease);
        self.oracle.wakes_waiters(name, holder);
    }
}

impl Oracle {
    /// Records that a node granted a proposal.
    fn voted(&mut self, now: u64, node: usize, p: &Proposal) {
        let told = self.names.get(&p.name).map_or(0, |name| name.told);
        let new = || Ballot { nodes: BTreeSet::new(), last: p.last, told };
        let ballot = self.ballots.entry((p.lease, p.token)).or_insert_with(new);
        let is_new = ballot.nodes.insert(node);
        let decides = is_new && 2 * ballot.nodes.len() == NODES + 1;
        self.grants += u64::from(decides);
        let order = self.grants;
        let far = self.far_stamps.contains(&(p.lease, p.not_after));
        self.leases.entry(p.lease).or_default();
        self.touched(now, p.lease);
        self.set_again(p.lease);
        if let Some(lease) = self.leases.get_mut(&p.lease) {
            lease.far_stamp |= far;
            if decides {
                lease.order = order;
            }
        }
    }

    /// Records that nodes have the lease again, or still.
    pub(crate) fn set_again(&mut self, lease: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.revived |= lease.robbed.is_some();
        }
    }

    /// Checks that a hold has the votes of a majority for its token, and a token above those known before the first
    /// vote.
    pub(crate) fn is_elected(&mut self, name: &LockName, id: (LeaseId, FencingToken)) {
        let (lease, token) = id;
        let ballot = self.ballots.range((lease, FencingToken::new(0))..=id).next_back();
        let ballot = ballot.map(|(_, ballot)| ballot).filter(|ballot| token <= ballot.last);
        let votes = ballot.map_or(0, |ballot| ballot.nodes.len());
        let told = ballot.map_or(0, |ballot| ballot.told);
        self.must(2 * votes > NODES, || format!("{name}: {lease} holds with {votes} votes for {token:?}"));
        self.must(token.get() > told, || {
            format!("{name}: {lease} has {token:?}, and {told} was known before its first vote")
        });
        if let Some(name) = self.names.get_mut(name) {
            name.told = name.told.max(token.get());
        }
    }

    fn wakes_waiters(&mut self, name: &LockName, holder: Option<LeaseId>) {
        let Some(known) = self.names.get_mut(name) else { return };
        if holder.is_none() || known.idle_wakes.holder != holder {
            known.idle_wakes = IdleWakes { holder, count: 0 };
        }
        known.idle_wakes.count += 1;
        let count = known.idle_wakes.count;
        self.must(holder.is_none() || count <= MAX_IDLE_WAKES, || {
            format!("{name}: waiters were woken {count} times while {holder:?} held it")
        });
    }
}
