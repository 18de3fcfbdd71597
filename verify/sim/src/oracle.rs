//! The oracle: observes every grant, vote, renewal, end and loss of data, and reports violations.
//!
//! Its checks of what holders believe, of ends and of what is left are in `judge`.

use crate::{
    clock::micros,
    plan::{NODES, Plan, Quorum, Terms},
    store::{Stored, Stores},
};
use lock_core::{
    FencingToken, Hold, HoldEnd, LockName,
    backend::{AcquireRequest, Acquired, LeaseId, Renewed, Reply},
    clock::{Moment, UtcTime},
};
use lock_quorum::Proposal;
use lock_testkit::{History, HoldKey, Violation};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The maximum number of times that a held name may wake its waiters.
const MAX_IDLE_WAKES: u32 = 200;

/// The tolerance, in µs: timers count in milliseconds, and clocks have different speeds.
pub(crate) const SLACK: u64 = 12_000;

#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) history: History,
    pub(crate) names: BTreeMap<LockName, Name>,
    pub(crate) leases: BTreeMap<LeaseId, Lease>,
    pub(crate) holds: BTreeMap<(LeaseId, FencingToken), Held>,
    pub(crate) open: BTreeSet<(LeaseId, FencingToken)>,
    calls: BTreeMap<u64, Vec<Option<LeaseId>>>,
    /// The votes of quorum nodes.
    pub(crate) ballots: BTreeMap<(LeaseId, FencingToken), Ballot>,
    /// Leases that a release found and freed.
    pub(crate) freed: BTreeSet<LeaseId>,
    /// The first violation.
    pub(crate) broken: Option<String>,
    pub(crate) stepped_back: bool,
    /// Acquires that were sent with a distant `not_after`.
    pub(crate) far_stamps: BTreeSet<(LeaseId, UtcTime)>,
    pub(crate) quorum: Option<Quorum>,
    /// `true` if the run has no faults.
    pub(crate) calm: bool,
    retention: bool,
    /// The longest operation timeout, in µs.
    pub(crate) operation: u64,
    /// The longest minimum of a hold, in µs.
    pub(crate) minimum: u64,
    /// The longest time for which one request can make a hold valid, in µs.
    pub(crate) longest: u64,
    pub(crate) grants: u64,
    pub(crate) begun: u64,
    pub(crate) lost: u64,
    pub(crate) worst_wait: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Name {
    greatest: u64,
    /// The highest token granted to a process.
    pub(crate) told: u64,
    pub(crate) kept: Option<Kept>,
    pub(crate) idle_wakes: IdleWakes,
    /// `true` if the counter may be lost or stale.
    pub(crate) doubt: bool,
    /// `true` once tokens have decreased in a documented way. They are not checked any more.
    pub(crate) residual: bool,
}

/// A lease as the store granted it.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// Its number among all grants of the store.
    pub(crate) order: u64,
    /// The last token that the store reserved for it.
    last_token: u64,
    /// The time at which the store lost it without a fault of its holder.
    pub(crate) robbed: Option<u64>,
    /// `true` if it returned with old data, with a clock that stepped back, or with a late attempt to acquire it.
    pub(crate) revived: bool,
    pub(crate) renewals: Vec<Renewal>,
    /// `true` if the granted request had a distant `not_after` (see [`Oracle::acquire_sent`]). Its undo may end too
    /// early.
    pub(crate) far_stamp: bool,
    /// The time at which its process last sent something about it, or an acquire of it was executed.
    pub(crate) touched: u64,
    /// `true` once its process has released it. From then on it is undone and never requested again.
    pub(crate) retired: bool,
}

/// The latest hold with a minimum, and the time until which nobody else may be granted its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) by: (LeaseId, FencingToken),
    pub(crate) until: u64,
}

#[derive(Debug)]
pub(crate) struct Renewal {
    /// The call that carries it, once it is sent.
    call: Option<u64>,
    /// The time at which the process submitted it.
    pub(crate) sent: u64,
    pub(crate) answered: Option<(u64, Renewed)>,
}

/// A hold as its process reported it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) link: usize,
    pub(crate) name: LockName,
    /// The time at which it began.
    pub(crate) since: u64,
    /// The hold as read by its holder; `None` if no client took it.
    pub(crate) taken: Option<Taken>,
    pub(crate) ended: Option<HoldEnd>,
    /// Its deadline when it ended; before that, the distant future.
    pub(crate) was_until: u64,
}

#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) hold: Hold,
    pub(crate) terms: Terms,
    pub(crate) key: Option<HoldKey>,
    /// The true time until which the holder believes in it.
    pub(crate) until: u64,
}

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

/// The stored leases before a change.
#[derive(Debug)]
pub(crate) struct StoredBefore {
    /// The leases in the store that changes.
    pub(crate) here: BTreeMap<LockName, Stored>,
    /// The leases that a majority has.
    pub(crate) decided: BTreeMap<LockName, Stored>,
}

impl Oracle {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            history: History::new(),
            names: plan.names.iter().map(|name| (name.clone(), Name::default())).collect(),
            leases: BTreeMap::new(),
            holds: BTreeMap::new(),
            open: BTreeSet::new(),
            calls: BTreeMap::new(),
            ballots: BTreeMap::new(),
            freed: BTreeSet::new(),
            broken: None,
            stepped_back: false,
            far_stamps: BTreeSet::new(),
            quorum: plan.quorum,
            calm: plan.is_calm() && !plan.may_be_slow(),
            retention: plan.retention.is_some(),
            longest: plan.menu.iter().map(|terms| micros(terms.lease - terms.margin)).max().unwrap_or(0),
            operation: micros(plan.longest_operation()),
            minimum: micros(plan.longest_minimum()),
            grants: 0,
            begun: 0,
            lost: 0,
            worst_wait: 0,
        }
    }

    pub(crate) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    /// Records an acquire. Its `not_after` is distant if the store may execute it long after an operation timeout from
    /// now. This happens if the store's clock stepped back, or if the process had not heard from the store and used its
    /// own clock, which is ahead. The undo of an acquire ends one lease after that timeout, so it may end before the
    /// lease that it should undo. The distance at the time of execution is no criterion, because the acquire may have
    /// been under way for most of that time.
    pub(crate) fn acquire_sent(
        &mut self,
        now: u64,
        server_now: UtcTime,
        (lease, duration, not_after): (LeaseId, Duration, UtcTime),
    ) {
        self.touched(now, lease);
        if not_after > server_now + duration / 5 {
            self.far_stamps.insert((lease, not_after));
        }
    }

    pub(crate) fn acquire_executed(
        &mut self,
        now: u64,
        r: &AcquireRequest,
        before: Option<Stored>,
        reply: &Reply<Acquired>,
    ) {
        let Acquired::Granted { first, last } = reply.outcome else { return };
        let (first, last) = (first.get(), last.get());
        let behind_retention = self.retention && self.stepped_back;
        let name = self.names.entry(r.name.clone()).or_default();
        if first > name.greatest {
            (name.greatest, name.doubt) = (last.max(first), false);
        } else if (name.doubt || behind_retention) && reply.now.as_micros() <= name.greatest {
            // The counter was lost or stale while the clock was behind the last token.
            name.residual = true;
        } else if !name.residual {
            let greatest = name.greatest;
            self.must(false, || format!("{}: token {first} was issued after {greatest}", r.name));
        }
        if before.is_none_or(|before| before.lease != r.lease) {
            self.grants += 1;
            // A late attempt may be granted after the store lost the lease, and before the process hears of it.
            let robbed = self.leases.get(&r.lease).and_then(|lease| lease.robbed);
            let lease = Lease { order: self.grants, robbed, revived: robbed.is_some(), ..Lease::default() };
            self.leases.insert(r.lease, lease);
        }
        self.touched(now, r.lease);
        if let Some(lease) = self.leases.get_mut(&r.lease) {
            lease.last_token = lease.last_token.max(last);
            lease.far_stamp |= self.far_stamps.contains(&(r.lease, r.not_after));
        }
    }

    /// Records that a process submitted a renewal, which may wait for others before it is sent.
    pub(crate) fn renewal_submitted(&mut self, now: u64, lease: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.renewals.push(Renewal { call: None, sent: now, answered: None });
        }
    }

    /// Records that the renewals submitted for these leases are sent in this call.
    pub(crate) fn renewals_sent(&mut self, call: u64, leases: Vec<Option<LeaseId>>) {
        for lease in leases.iter().flatten() {
            let renewals = self.leases.get_mut(lease).map(|lease| &mut lease.renewals);
            if let Some(renewal) = renewals.and_then(|all| all.iter_mut().rfind(|r| r.call.is_none())) {
                renewal.call = Some(call);
            }
        }
        self.calls.insert(call, leases);
    }

    pub(crate) fn renewals_answered(&mut self, now: u64, call: u64, outcomes: Vec<Option<Renewed>>) {
        let Some(leases) = self.calls.remove(&call) else { return };
        for (lease, outcome) in leases.into_iter().zip(outcomes) {
            let (Some(lease), Some(outcome)) = (lease, outcome) else { continue };
            let renewals = self.leases.get_mut(&lease).map(|lease| &mut lease.renewals);
            if let Some(renewal) = renewals.and_then(|all| all.iter_mut().rfind(|r| r.call == Some(call))) {
                renewal.answered = Some((now, outcome));
            }
        }
    }

    /// Records that a process sent something about a lease.
    pub(crate) fn touched(&mut self, now: u64, lease: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.touched = now;
        }
    }

    /// Records that a process reported the start of a hold.
    pub(crate) fn granted(
        &mut self,
        now: u64,
        link: usize,
        name: &LockName,
        (lease, token): (LeaseId, FencingToken),
    ) {
        self.begun += 1;
        self.is_not_kept(now, name, (lease, token));
        let (taken, ended) = (None, None);
        let held = Held { link, name: name.clone(), since: now, taken, ended, was_until: u64::MAX };
        let again = self.holds.insert((lease, token), held).is_some();
        self.must(!again, || format!("{name}: {lease} with {token:?} was granted twice"));
        if self.quorum.is_some() {
            return self.is_elected(name, (lease, token));
        }
        let drawn = self.leases.get(&lease).is_some_and(|lease| token.get() <= lease.last_token);
        self.must(drawn, || format!("{name}: {lease} with {token:?} was never granted by the store"));
    }

    /// Records that a client received the guard of a hold.
    pub(crate) fn taken(&mut self, now: u64, hold: &Hold, terms: Terms) {
        let id = (hold.lease_id(), hold.fencing_token());
        let robbed = self.leases.get(&id.0).and_then(|lease| lease.robbed);
        let Some(held) = self.holds.get_mut(&id) else {
            return self.must(false, || format!("{hold:?} was taken, but never granted"));
        };
        if held.taken.is_some() || held.ended.is_some() {
            return;
        }
        // There are no guarantees for a lease that the store had lost before it was taken.
        let from = Moment::from_micros(now);
        let key = robbed.is_none().then(|| self.history.granted(hold.name(), id.1, from, from));
        if !terms.min_hold.is_zero() {
            let minimum = micros(terms.min_hold);
            // Clocks of processes and stores have different speeds.
            let mut until = (held.since + minimum - minimum / 100).saturating_sub(SLACK);
            if terms.every.is_none() {
                // A fixed lease ends, although its process may have heard of it late.
                until = until.min(now + micros(hold.remaining()));
            }
            self.names.entry(hold.name().clone()).or_default().kept = Some(Kept { by: id, until });
        }
        held.taken = Some(Taken { hold: hold.clone(), terms, key, until: now });
        self.open.insert(id);
    }

    /// Checks the history at the end of a run.
    pub(crate) fn check_history(&mut self) {
        let timeless = self.quorum.is_some_and(|quorum| quorum.timeless);
        for violation in self.history.check() {
            let name = match &violation {
                // In that case only the order of votes orders tokens, and holds do not exclude one another.
                Violation::Overlap { .. } | Violation::TokenFell { .. } if timeless => continue,
                Violation::Overlap { first, .. } => {
                    return self.must(false, || format!("{violation} (since {:?})", first.from));
                }
                Violation::TokenFell { later, .. } | Violation::TokenRepeated { later, .. } => &later.name,
            };
            let excused = self.names.get(name).is_some_and(|name| name.residual);
            self.must(excused, || violation.to_string());
        }
    }

    /// Records that a node granted a proposal.
    pub(crate) fn voted(&mut self, now: u64, node: usize, p: &Proposal) {
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
    fn is_elected(&mut self, name: &LockName, id: (LeaseId, FencingToken)) {
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

    pub(crate) fn wakes_waiters(&mut self, name: &LockName, holder: Option<LeaseId>) {
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

    /// Records that the store lost a lease without a fault of its holder.
    pub(crate) fn robbed(&mut self, now: u64, stored: Option<Stored>) {
        let Some(id) = stored.map(|stored| stored.lease) else { return };
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if lease.robbed.is_some() {
            return;
        }
        lease.robbed = Some(now);
        if self.quorum.is_some() {
            // The nodes that lost it do not vote for another lease until it has ended.
            return;
        }
        // From now on it excludes nobody.
        for held in self.holds.values().filter_map(|held| held.taken.as_ref()) {
            if let Some(key) = held.key.filter(|_| held.hold.lease_id() == id) {
                self.history.ended(key, Moment::from_micros(now));
            }
        }
    }

    /// Records that the data of a store changed without a request.
    pub(crate) fn data_changed(&mut self, now: u64, node: usize, before: &StoredBefore, stores: &Stores) {
        for (name, stored) in &before.here {
            let is_kept = |after: &Stored| after.lease == stored.lease && after.until >= stored.until;
            if stores[node].stored(now, name).is_some_and(|after| is_kept(&after)) {
                continue;
            }
            // A majority may still have it, though possibly for a shorter time.
            let decided = before.decided.get(name).map_or(0, |decided| decided.until);
            let after = stores.stored(now, name).filter(|after| after.lease == stored.lease);
            if after.is_none_or(|after| stores.len() == 1 || after.until < decided) {
                self.robbed(now, Some(*stored));
            }
            if after.is_some() {
                self.set_again(stored.lease);
            }
        }
        for stored in self.names.keys().filter_map(|name| stores[node].stored(now, name)) {
            if let Some(lease) = self.leases.get_mut(&stored.lease) {
                lease.revived = true;
            }
        }
    }

    pub(crate) fn counters_in_doubt(&mut self) {
        self.names.values_mut().for_each(|name| name.doubt = true);
    }
}
