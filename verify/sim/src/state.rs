//! The state of a run: everything except the processes, and a queue of future events.

use crate::{
    link::Link,
    message::{Answer, Envelope, Notification},
    oracle::Oracle,
    plan::Plan,
    resource::{Resource, Write},
    store::Store,
    stores::Stores,
    trace::{Trace, Who},
};
use lock_core::{LockName, backend::WakeListener};
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
    /// The longest sleep of a process's timekeeper. It is a task of the driver, which the simulation cannot suspend: it
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
}
