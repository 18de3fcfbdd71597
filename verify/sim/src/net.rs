//! The network: links between processes and stores, and the fate of requests and of their answers.

use crate::{
    clock::ProcessClock,
    message::{Answer, Envelope, Fate, Request},
    plan::LATEST,
    state::{Happening, State},
    trace::Who,
};
use lock_core::{
    LockName,
    backend::{Applied, WakeListener},
    clock::{Clock, Moment, UtcTime},
};
use lock_testkit::planted::PlantedBug;
use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) process: usize,
    /// The store to which it leads. The links of a life are consecutive, in the order of the stores.
    pub(crate) node: usize,
    pub(crate) clock: Arc<ProcessClock>,
    pub(crate) signals: Option<Weak<dyn WakeListener>>,
    /// `true` once the process has been killed: nothing is sent, and nothing arrives.
    pub(crate) dead: bool,
    /// `true` if the process was copied: its id does not tell whose a lease is.
    pub(crate) copied: bool,
    /// `true` once the process has begun to shut down.
    pub(crate) closed: bool,
    pub(crate) partition: Option<Partition>,
    /// The number of the connection. Subscriptions under way end with it.
    pub(crate) connection: u64,
    /// Keeps subscriptions in order.
    pub(crate) in_order: u64,
    /// The names to which this process is subscribed. They are subscribed to again on every new connection.
    pub(crate) wanted: BTreeSet<LockName>,
    /// The time of the latest connection.
    pub(crate) since: u64,
    /// The number of messages about leases that are under way in either direction.
    pub(crate) under_way: u64,
    /// The latest server time received, and the reading of the process's clock at that moment.
    heard: Option<(UtcTime, Moment)>,
}

/// The isolation of a process from the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partition {
    pub(crate) until: u64,
    pub(crate) how: Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The process knows it: requests fail immediately, as not applied.
    Known,
    /// Messages are lost.
    Vanish,
    /// Messages wait until the partition ends.
    Wait,
}

impl Link {
    pub(crate) fn new(process: usize, node: usize, clock: Arc<ProcessClock>) -> Self {
        Self {
            process,
            node,
            clock,
            signals: None,
            dead: false,
            copied: false,
            closed: false,
            partition: None,
            connection: 0,
            in_order: 0,
            wanted: BTreeSet::new(),
            since: 0,
            under_way: 0,
            heard: None,
        }
    }

    pub(crate) fn hear(&mut self, now: UtcTime) {
        self.heard = Some((now, self.clock.now()));
    }

    /// Returns this process's estimate of the store's clock.
    pub(crate) fn estimate(&self) -> Option<UtcTime> {
        self.heard.map(|(server, at)| server + self.clock.now().since(at))
    }
}

/// The fate of a message that is being sent.
enum Way {
    Lost,
    Reset,
    Refused,
    Goes { after: u64, fate: Fate },
}

impl State {
    fn way(&mut self) -> Way {
        let faults = self.plan.faults;
        let calm = self.calm;
        let mut falls = |chance: f64| !calm && self.dice.chance(chance);
        let (lost, lost_reply) = (falls(faults.lose_request), falls(faults.lose_reply));
        let (refused, late, is_reset) = (falls(faults.refuse), falls(faults.late), falls(0.5));
        if lost {
            self.count("lost request");
            return if is_reset { Way::Reset } else { Way::Lost };
        }
        if refused {
            self.count("refused request");
            return Way::Refused;
        }
        let mut after = self.latency();
        if late {
            self.count("late request");
            after += self.dice.below(LATEST);
        }
        let fate = if lost_reply {
            self.count("lost reply");
            if is_reset { Fate::Broken } else { Fate::Silence }
        } else {
            Fate::Answered { after: self.latency() }
        };
        Way::Goes { after, fate }
    }

    /// Sends a request of a process. Returns the answer if it is available immediately.
    pub(crate) fn send(
        &mut self,
        link: usize,
        request: Request,
    ) -> Result<Answer, oneshot::Receiver<Answer>> {
        self.note(Who::Link(link), request.word(), request.numbers());
        let (sender, coming) = oneshot::channel();
        self.next_call += 1;
        let call = self.next_call;
        self.is_sent(link, &request);
        self.oracle.renewals_sent(call, request.renewed_leases());
        if self.links[link].dead {
            return Err(coming);
        }
        let process = self.links[link].process;
        // A process that is suspended between creating and sending a request sends it when it resumes.
        let held_back = match self.is_paused(process) && self.dice.chance(0.5) {
            true => self.pauses[process].until - self.now,
            false => 0,
        };
        let cut = self.links[link].partition;
        let store = self.store_of(link);
        let is_up = store.paused_until.max(store.down_until) <= self.now;
        let healthy = cut.is_none() && held_back == 0 && is_up;
        let in_order = !request.is_subscription() || self.links[link].in_order <= self.now;
        if healthy && in_order && self.dice.chance(self.plan.faults.in_place) {
            let answer = self.execute(link, &request);
            self.arrived(link, call, &answer);
            return Ok(answer);
        }
        if cut.is_some_and(|cut| cut.how == Cut::Known) {
            return Ok(Answer::Failed(Applied::No));
        }
        let connection = self.links[link].connection;
        let twice = !self.calm && !request.is_subscription() && self.dice.chance(self.plan.faults.twice);
        match self.way() {
            Way::Lost => {}
            Way::Refused => return Ok(Answer::Failed(Applied::No)),
            Way::Reset => {
                self.calls.insert(call, sender);
                let after = self.latency();
                self.after(after, Happening::Answer { link, call, answer: Answer::Failed(Applied::Unknown) });
            }
            Way::Goes { after, fate } => {
                self.calls.insert(call, sender);
                let mut at = self.now + held_back + after * 1_000;
                if request.is_subscription() {
                    at = at.max(self.links[link].in_order + 1);
                    self.links[link].in_order = at;
                }
                // The contract of a backend forbids delivering an answered acquire again later.
                let late_again = self.bug == Some(PlantedBug::LateDuplicates) || !request.acquires();
                let most = if late_again { LATEST / 5 } else { 1 };
                let again = twice.then(|| self.dice.below(most));
                self.links[link].under_way += 1;
                let envelope = Envelope { link, connection, call: Some(call), request, fate, again };
                self.at(at, Happening::Arrive(envelope));
            }
        }
        Err(coming)
    }

    /// Records a request for the oracle and the link.
    fn is_sent(&mut self, link: usize, request: &Request) {
        match request {
            Request::Watch(name) => drop(self.links[link].wanted.insert(name.clone())),
            Request::Unwatch(name) => drop(self.links[link].wanted.remove(name)),
            Request::Acquire(r) => {
                let server_now = self.store_of(link).clock.at(self.now);
                self.oracle.acquire_sent(self.now, server_now, (r.lease, r.duration, r.not_after));
            }
            Request::Propose(p) => {
                let server_now = self.store_of(link).clock.at(self.now);
                self.oracle.acquire_sent(self.now, server_now, (p.lease, p.duration, p.not_after));
            }
            Request::Heal(h) => self.oracle.touched(self.now, h.lease),
            Request::Release(r) => self.oracle.release_sent(self.now, r),
            Request::Batch(requests) => requests.iter().for_each(|request| self.is_sent(link, request)),
            Request::Renew(_) | Request::Extend(_) | Request::Inspect(_) | Request::Force(_) => {}
        }
    }

    /// Delivers a request to the store, unless it is lost or blocked.
    pub(crate) fn arrive(&mut self, envelope: Envelope) {
        let Envelope { link, connection, call, .. } = envelope;
        let cut = self.links[link].partition.filter(|cut| cut.until > self.now);
        if let Some(cut) = cut.filter(|cut| cut.how == Cut::Wait && !envelope.request.is_subscription()) {
            return self.at(cut.until, Happening::Arrive(envelope));
        }
        let store = self.store_of(link);
        let (paused_until, is_down) = (store.paused_until, store.down_until > self.now);
        if paused_until > self.now && !is_down {
            let again = paused_until;
            return self.at(again, Happening::Arrive(envelope));
        }
        self.links[link].under_way -= 1;
        let stale = envelope.request.is_subscription() && connection != self.links[link].connection;
        let broken = stale || is_down;
        if broken || cut.is_some_and(|cut| cut.how != Cut::Vanish) {
            return self.fail(link, call);
        }
        if cut.is_some() {
            drop(call.and_then(|call| self.calls.remove(&call)));
            return;
        }
        let answer = self.execute(link, &envelope.request);
        // A second delivery never overtakes the first, since its answer would be taken for the first one's. Nor does it
        // execute a request that was answered as refused.
        match envelope.again.filter(|_| !answer.is_refused_in_part()) {
            Some(0) => {
                self.count("duplicate");
                self.execute(link, &envelope.request);
            }
            Some(later) => {
                self.count("late duplicate");
                self.links[link].under_way += 1;
                let second =
                    Envelope { call: None, again: None, request: envelope.request.clone(), ..envelope };
                self.after(later, Happening::Arrive(second));
            }
            None => {}
        }
        let Some(call) = call else { return };
        match envelope.fate {
            Fate::Answered { after } => self.after(after, Happening::Answer { link, call, answer }),
            Fate::Silence => drop(self.calls.remove(&call)),
            Fate::Broken => self.fail(link, Some(call)),
        }
    }

    fn fail(&mut self, link: usize, call: Option<u64>) {
        let Some(call) = call else { return };
        let after = self.latency();
        self.after(after, Happening::Answer { link, call, answer: Answer::Failed(Applied::Unknown) });
    }

    /// Delivers an answer to its process, unless it is lost or blocked.
    pub(crate) fn answer(&mut self, link: usize, call: u64, answer: Answer) {
        let process = self.links[link].process;
        if self.links[link].dead {
            drop(self.calls.remove(&call));
            return;
        }
        if self.is_paused(process) {
            let until = self.pauses[process].until;
            return self.at(until, Happening::Answer { link, call, answer });
        }
        let failed = Answer::Failed(Applied::Unknown);
        let answer = match self.links[link].partition.filter(|cut| cut.until > self.now).map(|cut| cut.how) {
            Some(_) if matches!(answer, Answer::Failed(_)) => answer,
            Some(Cut::Known) => failed,
            Some(Cut::Wait) => {
                let until = self.links[link].partition.map_or(0, |cut| cut.until);
                return self.at(until, Happening::Answer { link, call, answer });
            }
            Some(Cut::Vanish) => return drop(self.calls.remove(&call)),
            None => answer,
        };
        self.arrived(link, call, &answer);
        if let Some(sender) = self.calls.remove(&call) {
            let _ = sender.send(answer);
        }
    }

    /// Handles an answer that has reached its process.
    fn arrived(&mut self, link: usize, call: u64, answer: &Answer) {
        self.note(Who::Link(link), answer.word(), (call, 0));
        if let Some(now) = answer.server_now() {
            self.links[link].hear(now);
        }
        let renewals = answer.renewals();
        let any = renewals.iter().any(Option::is_some);
        self.oracle.renewals_answered(self.now, call, renewals);
        if any {
            self.after(1, Happening::Look);
        }
    }
}
