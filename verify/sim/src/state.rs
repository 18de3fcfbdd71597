//! The state of a run: everything except the processes, and a queue of future events.
//!
//! Stores execute requests here, wake up waiters, and lose data; holders use the resource.

use crate::{
    message::{Answer, Envelope, Notification, Request},
    net::Link,
    oracle::Oracle,
    plan::{LATEST, Plan},
    store::{Resource, Store, Stores, Write},
    trace::{Trace, Who},
};
use lock_core::{
    FencingToken, LockName,
    backend::{
        Acquired, Applied, ForceReleased, LeaseId, MissedWakes, NotifyWaiters, Released, WakeListener,
    },
};
use lock_quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, Vote};
use lock_testkit::{Stream, planted::PlantedBug};
use std::{collections::BTreeMap, sync::Weak, task::Waker};
use tokio::sync::oneshot;

/// The maximum number of events. A run that has not ended by then is assumed to be endless.
const MAX_EVENTS: u64 = 50_000;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) now: u64,
    pub(crate) plan: Plan,
    pub(crate) bug: Option<PlantedBug>,
    pub(crate) dice: Stream,
    pub(crate) queue: BTreeMap<(u64, u64), Happening>,
    put: u64,
    pub(crate) front_moved: bool,
    pub(crate) calls: BTreeMap<u64, oneshot::Sender<Answer>>,
    pub(crate) next_call: u64,
    pub(crate) stores: Stores,
    pub(crate) links: Vec<Link>,
    pub(crate) pauses: Vec<Pause>,
    pub(crate) orders: Vec<Option<Order>>,
    pub(crate) oracle: Oracle,
    pub(crate) resources: BTreeMap<LockName, Resource>,
    pub(crate) trace: Trace,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// `true` once there are no more faults.
    pub(crate) calm: bool,
    /// `true` once clients must finish.
    pub(crate) closing: bool,
    pub(crate) last_small_step: u64,
    pub(crate) outbox: Vec<(Weak<dyn WakeListener>, Notification)>,
    pub(crate) wakers: Vec<Waker>,
}

/// The last pause of a process.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The wakers of futures to poll once it is over.
    pub(crate) waiting: Vec<Waker>,
}

impl Pause {
    /// The longest sleep of a process's keeper. It is a task of the driver, which the simulation cannot suspend: it
    /// may set its timer during a pause, by a stopped clock, and is then late by this.
    const MAX_SLEEP: u64 = 1_000_000;

    /// Returns the time until which the pause may delay the process.
    pub(crate) fn felt_until(&self) -> u64 {
        if self.until == 0 { 0 } else { self.until + Self::MAX_SLEEP }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Die,
    ShutDown,
    Copy,
}

/// A future event.
#[derive(Debug)]
pub(crate) enum Happening {
    Arrive(Envelope),
    Answer {
        link: usize,
        call: u64,
        answer: Answer,
    },
    Notification {
        link: usize,
        connection: u64,
        what: Notification,
    },
    Reconnect {
        link: usize,
        restarted: bool,
    },
    Resume {
        process: usize,
    },
    Write(Write),
    Trouble,
    /// The oracle inspects the state.
    Look,
}

impl State {
    pub(crate) fn new(plan: Plan, bug: Option<PlantedBug>, stores: Stores, dice: Stream) -> Self {
        let processes = plan.processes;
        Self {
            now: 0,
            oracle: Oracle::new(&plan),
            resources: plan.names.iter().map(|name| (name.clone(), Resource::default())).collect(),
            plan,
            bug,
            dice,
            queue: BTreeMap::new(),
            put: 0,
            front_moved: false,
            calls: BTreeMap::new(),
            next_call: 0,
            stores,
            links: Vec::new(),
            pauses: (0..processes).map(|_| Pause::default()).collect(),
            orders: vec![None; processes],
            trace: Trace::default(),
            counts: BTreeMap::new(),
            calm: false,
            closing: false,
            last_small_step: 0,
            outbox: Vec::new(),
            wakers: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, who: Who, what: &'static str, numbers: (u64, u64)) {
        self.trace.note(self.now, who, what, numbers);
        let endless = self.trace.len() > MAX_EVENTS;
        self.oracle.must(!endless, || format!("{MAX_EVENTS} events without an end"));
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Schedules an event `millis` from now.
    pub(crate) fn after(&mut self, millis: u64, what: Happening) {
        self.at(self.now + millis * 1_000, what);
    }

    pub(crate) fn at(&mut self, time: u64, what: Happening) {
        self.put += 1;
        let first = self.queue.first_key_value().is_none_or(|((at, _), _)| time < *at);
        self.front_moved |= first;
        // Simultaneous events happen in random order.
        let order = (self.dice.below(1 << 20) << 32) | self.put;
        self.queue.insert((time, order), what);
    }

    pub(crate) fn notify_later(&mut self, link: usize, what: Notification) {
        if let Some(signals) = self.links[link].signals.clone() {
            self.outbox.push((signals, what));
        }
    }

    pub(crate) fn latency(&mut self) -> u64 {
        self.plan.latency.draw(&mut self.dice)
    }

    /// Returns the store to which this link leads.
    pub(crate) fn store_of(&self, link: usize) -> &Store {
        &self.stores[self.links[link].node]
    }

    pub(crate) fn is_paused(&self, process: usize) -> bool {
        self.pauses[process].until > self.now
    }

    pub(crate) fn look(&mut self) {
        let Self { oracle, stores, links, pauses, now, .. } = self;
        let again = oracle.look(*now, stores, links, pauses);
        oracle.no_orphans(*now, stores, links, pauses);
        for at in again {
            self.at(at, Happening::Look);
        }
    }

    pub(crate) fn happen(&mut self) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Happening::Arrive(envelope) => self.arrive(envelope),
                Happening::Answer { link, call, answer } => self.answer(link, call, answer),
                Happening::Notification { link, connection, what } => self.hear(link, connection, what),
                Happening::Reconnect { link, restarted } => self.reconnect(link, restarted),
                Happening::Resume { process } => self.resume(process),
                Happening::Write(write) => self.write(&write),
                Happening::Trouble => self.trouble(),
                Happening::Look => {}
            }
        }
        self.look();
    }

    pub(crate) fn execute(&mut self, link: usize, request: &Request) -> Answer {
        let (now, node) = (self.now, self.links[link].node);
        match request {
            Request::Acquire(r) => {
                let before = self.stores[node].stored(now, &r.name);
                let reply = self.stores[node].acquire(now, r);
                let token = match reply.outcome {
                    Acquired::Granted { first, .. } => first.get(),
                    _ => 0,
                };
                self.note(Who::Store(node), "acquire", (r.lease.number().get(), token));
                self.oracle.acquire_executed(now, r, before, &reply);
                Answer::Acquired(reply)
            }
            Request::Renew(items) => {
                let replies: Vec<_> = items.iter().map(|item| self.stores[node].renew(now, item)).collect();
                for (item, reply) in items.iter().zip(&replies) {
                    self.note(Who::Store(node), "renew", (item.lease.number().get(), reply.outcome as u64));
                }
                Answer::Renewed(replies)
            }
            Request::Release(r) => {
                let mut reply = self.stores[node].release(now, r);
                reply.now = self.stores.time_of(node, now);
                let freed = matches!(reply.outcome, Released::Released { .. });
                self.note(Who::Store(node), "release", (r.lease.number().get(), freed.into()));
                if freed {
                    self.oracle.freed.insert(r.lease);
                    reply.outcome = self.notify_listeners(node, &r.name, r.notify);
                } else if r.notify == NotifyWaiters::EvenIfGone {
                    self.notify_listeners(node, &r.name, r.notify);
                }
                Answer::Released(reply)
            }
            Request::Propose(p) => Answer::Voted(self.propose(node, p)),
            Request::Extend(items) => {
                Answer::Extended(items.iter().map(|item| self.extend(node, item)).collect())
            }
            Request::Heal(h) => Answer::Healed(self.cure(node, h)),
            Request::Watch(name) => {
                self.stores[node].watch(link, name.clone());
                self.note(Who::Store(node), "watch", (link as u64, 0));
                Answer::Done
            }
            Request::Unwatch(name) => {
                self.stores[node].unwatch(link, name.clone());
                self.note(Who::Store(node), "unwatch", (link as u64, 0));
                Answer::Done
            }
            Request::Inspect(name) => Answer::Inspected(self.stores[node].inspect(now, name)),
            Request::Force(r) => {
                let before = self.stores[node].stored(now, &r.name);
                let reply = self.stores[node].force(now, r);
                self.note(Who::Store(node), "force", (reply.outcome as u64, 0));
                if reply.outcome == ForceReleased::Released {
                    self.count("forced release");
                    self.oracle.robbed(now, before);
                    self.notify_listeners(node, &r.name, NotifyWaiters::Yes);
                }
                Answer::ForceReleased(reply)
            }
            Request::Batch(requests) => Answer::Batch(self.execute_batch(link, requests)),
        }
    }

    /// Executes or refuses each request independently.
    fn execute_batch(&mut self, link: usize, requests: &[Request]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let refused = !self.calm && self.dice.chance(2.0 * self.plan.faults.refuse);
            answers.push(match refused {
                true => Answer::Failed(Applied::No),
                false => self.execute(link, request),
            });
        }
        let refused = answers.iter().filter(|answer| matches!(answer, Answer::Failed(_))).count();
        if refused > 0 && requests.len() > 1 {
            self.count("batch with a refused item");
            if self.bug == Some(PlantedBug::BatchErrorFailsNeighbours) {
                answers.fill(Answer::Failed(Applied::No));
            }
        }
        answers
    }

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

    fn cure(&mut self, node: usize, h: &Healing) -> NodeReply<Healed> {
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

    /// Notifies the listeners of a release.
    fn notify_listeners(&mut self, node: usize, name: &LockName, notify: NotifyWaiters) -> Released {
        let listeners = self.stores[node].listeners(name, notify);
        if !listeners.is_empty() && self.plan.quorum.is_some() {
            self.wakes_waiters(name);
        }
        for link in &listeners {
            if !self.calm && self.dice.chance(self.plan.faults.lose_signal) {
                self.count("lost wake-up");
                continue;
            }
            let mut after = self.latency();
            if !self.calm && self.dice.chance(self.plan.faults.late_signal) {
                self.count("late wake-up");
                after += self.dice.below(LATEST);
            }
            let connection = self.links[*link].connection;
            self.after(
                after,
                Happening::Notification { link: *link, connection, what: Notification::Freed(name.clone()) },
            );
        }
        Released::Released { listeners: u32::try_from(listeners.len()).ok() }
    }

    pub(crate) fn hear(&mut self, link: usize, connection: u64, what: Notification) {
        let process = self.links[link].process;
        if self.is_paused(process) {
            let until = self.pauses[process].until;
            return self.at(until, Happening::Notification { link, connection, what });
        }
        let to = &self.links[link];
        if to.dead || to.connection != connection || to.partition.is_some_and(|cut| cut.until > self.now) {
            return;
        }
        self.note(Who::Link(link), "is woken", (0, 0));
        self.notify_later(link, what);
    }

    /// Reconnects a process: it renews its subscriptions, then asks again.
    fn reconnect(&mut self, link: usize, restarted: bool) {
        let process = self.links[link].process;
        let node = self.links[link].node;
        let busy = self.pauses[process].until.max(self.stores[node].down_until);
        if busy > self.now {
            return self.at(busy, Happening::Reconnect { link, restarted });
        }
        let to = &mut self.links[link];
        if to.dead || to.partition.is_some_and(|cut| cut.until > self.now) {
            return;
        }
        to.partition = None;
        to.connection += 1;
        to.since = self.now;
        let wanted = to.wanted.clone();
        self.stores[node].watchers.retain(|(_, watcher)| *watcher != link);
        wanted.into_iter().for_each(|name| self.stores[node].watch(link, name));
        self.note(Who::Link(link), "reconnects", (restarted.into(), 0));
        self.notify_later(
            link,
            if restarted { Notification::Restarted } else { Notification::All(MissedWakes::Reconnected) },
        );
    }

    fn order(&self, lease: LeaseId) -> u64 {
        self.oracle.leases.get(&lease).map_or(0, |lease| lease.order)
    }

    /// Reads the value, unless a newer holder has used the resource.
    pub(crate) fn read(
        &mut self,
        link: usize,
        name: &LockName,
        lease: LeaseId,
        token: FencingToken,
    ) -> Option<u64> {
        let order = self.order(lease);
        let value = self.resources.get_mut(name)?.read(self.bug, token, order);
        self.note(Who::Link(link), "reads", (token.get(), value.is_some().into()));
        self.count(if value.is_some() { "read" } else { "refused read" });
        value
    }

    pub(crate) fn write(&mut self, write: &Write) {
        let order = self.order(write.lease);
        let residual = self.oracle.names.get(&write.name).is_some_and(|name| name.residual);
        let Some(resource) = self.resources.get_mut(&write.name) else { return };
        let accepted = resource.write(self.bug, write);
        if accepted {
            let fresh = resource.is_fresh(order);
            self.oracle.must(fresh || residual, || {
                format!("stale write accepted: {write:?} of grant {order}, {resource:?}")
            });
        }
        self.note(Who::Link(write.link), "writes", (write.token.get(), accepted.into()));
        self.count(if accepted { "write" } else { "refused write" });
    }
}
