//! The end of the faults: everything runs until nobody wants anything, and nothing may be left.
//!
//! First the world calms down while all holds are kept; the stored depth must match the guards. Then every guard is
//! dropped as soon as it exists; every waiter must be granted within a time limit, and the store must become empty.
//! Only then do the slow messages arrive, after which the store must become empty again.

use crate::{
    client::MAX_WAIT,
    config::{Config, LONG, TIMEOUT},
    laws::{Broken, Law},
    message::{Act, Body, Message},
    store::{drawn_by, id_of},
    world::World,
};
use lock_core::backend::LeaseId;
use std::time::Duration;

/// The time in which the world calms down: lost messages have timed out and have been repeated.
const CALM: Duration = Duration::from_secs(3);
/// The time within which every waiter is granted. A waiter that missed a release asks again, with a little jitter.
const BOUND: Duration = MAX_WAIT.saturating_add(Duration::from_millis(500));
/// The same if a lease must first expire, because its process is gone or was shut down, with the requests before and
/// after that.
const BOUND_AFTER_AN_EXPIRY: Duration = LONG.lease.saturating_add(TIMEOUT.saturating_mul(2));
/// More steps than any run to the end needs.
const STEPS: u32 = 3_000;

/// The result of a run to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    /// The promises that were broken.
    pub broken: Broken,
    /// The longest wait, counted from the moment at which guards begin to be dropped.
    pub waited: Duration,
    /// The steps, with the time of each.
    pub acts: Vec<(Duration, Act)>,
}

struct Run<'a> {
    config: &'a Config,
    world: World,
    acts: Vec<(Duration, Act)>,
    steps: u32,
    keep_acts: bool,
}

/// Runs this state to its end.
#[must_use]
pub fn drain(config: &Config, world: &World, keep_acts: bool) -> Drained {
    let mut run = Run { config, world: world.clone(), acts: Vec::new(), steps: 0, keep_acts };
    let late = run.faults_stop();
    let calm_at = world.time() + CALM;
    while run.is_before(calm_at) && run.moves(false) {}
    run.depths_agree();
    let from = run.world.time();
    // A shutdown leaves a lease whose minimum is not over to expire.
    let is_left = !config.min_holds().is_zero() && world.clients.iter().any(|client| client.closed);
    let is_left = is_left || world.clients.iter().any(|client| client.dead);
    let bound = if world.store.haunted || is_left { BOUND_AFTER_AN_EXPIRY } else { BOUND };
    let bound = bound + config.min_holds();
    let mut waited = Duration::ZERO;
    while !run.is_over() && run.moves(true) {
        if run.world.clients.iter().any(|client| !client.waiting.is_empty()) {
            waited = run.world.time() - from;
            run.world.broken.unless(waited <= bound, Law::BoundedWait);
        }
    }
    let all_granted = run.world.clients.iter().all(|client| client.waiting.is_empty());
    run.world.broken.unless(all_granted, Law::NoDeadWait);
    run.nothing_is_left();
    for message in late {
        run.world.send(Message { slow: false, ..message });
    }
    while !run.is_over() && run.moves(true) {}
    run.nothing_is_left();
    run.world.count(config);
    Drained { broken: run.world.broken, waited, acts: run.acts }
}

impl Run<'_> {
    /// Returns the requests that are still slow. Slow replies and wake-ups are lost.
    fn faults_stop(&mut self) -> Vec<Message> {
        let (slow, prompt): (Vec<_>, _) = self.world.net.drain(..).partition(|message| message.slow);
        self.world.net = prompt;
        self.world.store.announced &= !slow.iter().any(|message| message.body == Body::Wake);
        for process in 0..self.world.clients.len() {
            if self.world.clients[process].paused {
                self.act(Act::Resume(process));
            }
        }
        slow.into_iter().filter(|message| matches!(message.body, Body::Request { .. })).collect()
    }

    fn act(&mut self, act: Act) {
        self.world.step(self.config, act);
        if self.keep_acts {
            self.acts.push((self.world.time(), act));
        }
        self.steps += 1;
        self.world.broken.unless(self.steps < STEPS, Law::NoPanic);
    }

    /// Returns `true` if nobody wants anything and nothing is under way, or if a promise was broken.
    fn is_over(&self) -> bool {
        let drained = self.world.clients.iter().all(|client| client.is_drained());
        !self.world.broken.is_none()
            || drained
                && self.world.net.is_empty()
                && !self.is_left_to_expire()
                && !self.is_left_by_the_dead()
    }

    /// Returns `true` if the store has a lease that a shutdown did not release because its minimum was not over.
    fn is_left_to_expire(&self) -> bool {
        let closed = |process: usize| self.world.clients.get(process).is_some_and(|client| client.closed);
        let left = |(lease, ..): (LeaseId, _, _)| closed(drawn_by(lease.number()));
        !self.config.min_holds().is_zero() && self.world.store.held(self.world.now).is_some_and(left)
    }

    /// Returns `true` if the store has something that a dead process cannot give up.
    fn is_left_by_the_dead(&self) -> bool {
        self.world.clients.iter().any(|client| client.dead) && self.world.store.is_taken(self.world.now)
    }

    /// Returns `true` if something remains to be done before that time.
    fn is_before(&self, time: Duration) -> bool {
        let next = || self.world.next_moment(self.config).map(Duration::from_micros);
        !self.world.is_settled(self.config) || next().is_some_and(|next| next <= time)
    }

    /// Takes one step. Returns `false` if there is none.
    fn moves(&mut self, drops: bool) -> bool {
        if !self.world.broken.is_none() {
            return false;
        }
        let act = self.next(drops);
        act.into_iter().for_each(|act| self.act(act));
        act.is_some()
    }

    fn next(&self, drops: bool) -> Option<Act> {
        if let Some(message) = self.world.net.first().copied() {
            return Some(match message.body {
                Body::Request { .. } => Act::Execute(message),
                Body::Reply { .. } | Body::Wake => Act::Deliver(message),
            });
        }
        for (process, client) in self.world.clients.iter().enumerate() {
            if self.world.overdue(self.config, process).is_some() {
                return Some(Act::TimeOut(process));
            }
            if self.world.is_due(self.config, process) {
                return Some(Act::Tick(process));
            }
            let held = client.beliefs.iter().position(|belief| belief.guards > 0);
            if let (true, Some(at)) = (drops, held) {
                return Some(Act::Drop(process, at));
            }
        }
        self.world.next_moment(self.config).map(|_| Act::Advance)
    }

    fn depths_agree(&mut self) {
        let stored = self.world.store.held(self.world.now);
        let permits = self.world.store.permits(self.world.now);
        let mut broken = Broken::default();
        for (process, client) in self.world.clients.iter().enumerate() {
            let now = self.world.local(self.config, process);
            let valid = client.beliefs.iter().filter(|belief| belief.is_valid(now));
            for belief in valid.filter(|belief| belief.epoch == self.world.store.epoch) {
                if self.config.is_pool() {
                    let own = permits.holders.get(&id_of(belief.id.lease));
                    let agrees = |weight| weight == belief.weight || self.world.store.blurred;
                    broken.unless(own.is_some_and(|permit| agrees(permit.weight)), Law::Depth);
                    continue;
                }
                let own = stored.filter(|(lease, ..)| *lease == id_of(belief.id.lease));
                let agrees = |depth| depth == belief.guards || self.world.store.blurred;
                broken.unless(own.is_some_and(|(_, depth, _)| agrees(depth)), Law::Depth);
            }
        }
        self.world.broken.join(broken);
        self.world.count(self.config);
    }

    /// Checks that the store is empty, and that a pool grants its whole limit. A restored state may contain a lease of a process that is gone, which expires.
    fn nothing_is_left(&mut self) {
        let now = self.world.now;
        let is_whole = !self.config.is_pool() || self.world.store.grants(now, self.config.limits().1);
        let left = (self.world.store.is_taken(now) || !is_whole) && !self.world.store.haunted;
        self.world.broken.unless(!left || !self.world.broken.is_none(), Law::NoOrphan);
        let answered = self.world.clients.iter().all(|client| client.tickets.is_empty());
        self.world.broken.unless(answered || !self.world.broken.is_none(), Law::NoPanic);
    }
}
