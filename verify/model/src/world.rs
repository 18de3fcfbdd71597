//! A state: processes, the store, messages in flight, and one clock; the steps that are possible in it, and the
//! promises that it breaks.

use crate::{
    client::{Call, Client, MAX_WAIT},
    config::{Budget, Config},
    laws::{Broken, Law, Memo},
    message::{Act, Ask, Body, Message},
    store::{Store, drawn_by, id_of, server_time},
};
use lock_core::{
    FencingToken,
    backend::LeaseId,
    clock::{Moment, UtcTime},
};
use std::{sync::Arc, time::Duration};

/// The grid on which timers fire, so they may be this late. Otherwise the microseconds of jitter would make every
/// moment distinct.
const GRID: u64 = 100_000;
/// The time within which a waiter that knows the lock is free tries again. A back-off after a failure is shorter.
const SOON: Duration = Duration::from_secs(1);

/// The state of the whole model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The true time, in µs.
    pub(crate) now: u64,
    pub(crate) clients: Vec<Arc<Client>>,
    pub(crate) store: Store,
    /// Sorted, so that the order of sending does not matter: every order of arrival is tried.
    pub(crate) net: Vec<Message>,
    pub(crate) budget: Budget,
    /// The highest token granted to an application. Each token is presented to a fenced resource immediately.
    pub(crate) fence: FencingToken,
    /// The tokens granted to applications.
    pub(crate) tokens: Vec<FencingToken>,
    /// The latest hold with a minimum, until that is over.
    pub(crate) kept: Option<Kept>,
    pub(crate) broken: Broken,
    pub(crate) memo: Memo,
}

/// A hold during whose minimum nobody else may be granted the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kept {
    pub(crate) lease: LeaseId,
    /// The number of the store's data losses when the hold began.
    pub(crate) epoch: u8,
    /// The end of the minimum: the true time, in µs.
    pub(crate) until: u64,
}

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        let client = |process| Arc::new(Client::new(config, process));
        Self {
            now: 0,
            clients: (0..config.scripts.len() - config.copies).map(client).collect(),
            store: Store::new(config),
            net: Vec::new(),
            budget: config.budget,
            fence: FencingToken::new(0),
            tokens: Vec::new(),
            kept: None,
            broken: Broken::default(),
            memo: Memo::default(),
        }
    }

    /// Returns the promises that were broken on the way to this state.
    #[must_use]
    pub fn broken(&self) -> Broken {
        self.broken
    }

    /// Returns the true time since the beginning.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    /// Returns `true` if two holds are believed to be valid, one from before and one from after a loss of data.
    #[must_use]
    pub fn overlaps(&self, config: &Config) -> bool {
        (0..self.clients.len()).filter(|process| self.believes(config, *process)).count() > 1
    }

    /// Returns `true` if the application of this process believes that it holds the lock.
    #[must_use]
    pub fn believes(&self, config: &Config, process: usize) -> bool {
        let now = self.local(config, process);
        self.clients[process].beliefs.iter().any(|belief| belief.is_valid(now))
    }

    /// Returns `true` if the name is only taken because a hold with a minimum was released early.
    #[must_use]
    pub fn is_kept(&self, config: &Config) -> bool {
        let stored = self.store.held(self.now).map(|(lease, ..)| lease);
        let is_held = (0..self.clients.len()).any(|process| self.believes(config, process));
        self.kept.is_some_and(|kept| stored == Some(kept.lease)) && !is_held
    }

    /// Returns `true` if the application of this process still has guards of a hold that it knows to be lost.
    #[must_use]
    pub fn has_lost(&self, process: usize) -> bool {
        self.clients[process].beliefs.iter().any(|belief| belief.ended && belief.guards > 0)
    }

    pub(crate) fn client(&mut self, process: usize) -> &mut Client {
        Arc::make_mut(&mut self.clients[process])
    }

    /// Returns the reading of this process's clock.
    pub(crate) fn local(&self, config: &Config, process: usize) -> Moment {
        let slow = if process == 0 { config.slow_clock } else { 0 };
        Moment::from_micros(self.now * (1_000_000 - slow) / 1_000_000)
    }

    /// Returns the true time at which this process's clock will show that moment.
    fn true_time(config: &Config, process: usize, at: Moment) -> u64 {
        let slow = if process == 0 { config.slow_clock } else { 0 };
        at.as_micros().saturating_mul(1_000_000).div_ceil(1_000_000 - slow)
    }

    pub(crate) fn server(&self) -> UtcTime {
        server_time(self.now)
    }

    pub(crate) fn send(&mut self, message: Message) {
        let at = self.net.binary_search(&message).unwrap_or_else(|at| at);
        self.net.insert(at, message);
    }

    /// Removes a message. Returns `false` if it does not exist.
    pub(crate) fn take(&mut self, message: &Message) -> bool {
        let at = self.net.binary_search(message);
        if let Ok(at) = at {
            self.net.remove(at);
        }
        at.is_ok()
    }

    /// Returns `true` if the message can arrive now.
    fn can_arrive(&self, message: &Message) -> bool {
        matches!(message.body, Body::Request { .. }) || !self.clients[message.process].paused
    }

    pub(crate) fn overdue(&self, config: &Config, process: usize) -> Option<Call> {
        let client = &self.clients[process];
        client.overdue(self.local(config, process)).filter(|_| !client.paused)
    }

    pub(crate) fn is_due(&self, config: &Config, process: usize) -> bool {
        let client = &self.clients[process];
        !client.paused && client.is_due(self.local(config, process))
    }

    /// Returns `true` if everything instant has happened, so that only slow messages and suspended processes are left.
    pub(crate) fn is_settled(&self, config: &Config) -> bool {
        !self.net.iter().any(|message| !message.slow && self.can_arrive(message))
            && !(0..self.clients.len())
                .any(|process| self.is_due(config, process) || self.overdue(config, process).is_some())
    }

    /// Returns the next moment at which something can happen without a step of the application.
    pub(crate) fn next_moment(&self, config: &Config) -> Option<u64> {
        let mut next = u64::MAX;
        for (process, client) in self.clients.iter().enumerate() {
            let mut add = |at: Moment| {
                let at = Self::true_time(config, process, at).max(self.now + 1);
                next = next.min(at);
            };
            if !client.paused {
                client.machine.wake_at().into_iter().for_each(&mut add);
                client.calls.iter().for_each(|call| add(call.due));
            }
            let now = self.local(config, process);
            client
                .beliefs
                .iter()
                .filter(|belief| belief.is_valid(now))
                .for_each(|belief| add(belief.deadline));
        }
        if let Some(end) = self.store.next_end(self.now) {
            next = next.min(end.max(self.now + 1));
        }
        (next != u64::MAX).then(|| next.div_ceil(GRID) * GRID)
    }

    pub(crate) fn acts(&self, config: &Config, acts: &mut Vec<Act>) {
        if !self.broken.is_none() {
            return;
        }
        self.acts_of_messages(config, acts);
        for process in 0..self.clients.len() {
            self.acts_of_process(config, process, acts);
        }
        self.acts_of_server(acts);
        let in_time = |at: u64| Duration::from_micros(at) <= config.horizon;
        if self.is_settled(config) && self.next_moment(config).is_some_and(in_time) {
            acts.push(Act::Advance);
        }
    }

    fn acts_of_messages(&self, config: &Config, acts: &mut Vec<Act>) {
        let budget = &self.budget;
        for (at, message) in self.net.iter().enumerate() {
            if at > 0 && self.net[at - 1] == *message {
                continue;
            }
            if self.can_arrive(message) {
                acts.push(match message.body {
                    Body::Request { .. } => Act::Execute(*message),
                    Body::Reply { .. } | Body::Wake => Act::Deliver(*message),
                });
            }
            if message.slow {
                continue;
            }
            let lose = if message.body == Body::Wake { budget.lose_wake } else { budget.lose };
            if lose > 0 {
                acts.push(Act::Lose(*message));
            }
            if budget.delay > 0 {
                acts.push(Act::Delay(*message));
            }
            if budget.duplicate > 0 && can_be_sent_twice(config, message) {
                acts.push(Act::Duplicate(*message));
            }
        }
    }

    fn acts_of_process(&self, config: &Config, process: usize, acts: &mut Vec<Act>) {
        let client = &self.clients[process];
        if client.dead {
            return;
        }
        if client.paused {
            return acts.push(Act::Resume(process));
        }
        if self.overdue(config, process).is_some() {
            acts.push(Act::TimeOut(process));
        }
        if self.is_due(config, process) {
            acts.push(Act::Tick(process));
        }
        if client.entered < config.scripts[process].len() && !client.closed {
            acts.push(Act::Enter(process));
        }
        let held = client.beliefs.iter().enumerate().filter(|(_, belief)| belief.guards > 0);
        acts.extend(held.map(|(at, _)| Act::Drop(process, at)));
        for (at, belief) in client.beliefs.iter().enumerate() {
            if belief.lowers && belief.weight > 1 && belief.guards > 0 && !belief.ended {
                acts.push(Act::Lower(process, at));
            }
        }
        if self.budget.cancel > 0 {
            acts.extend(client.waiting.iter().map(|(place, _)| Act::Leave(process, *place)));
        }
        if self.budget.pause > 0 {
            acts.push(Act::Pause(process));
        }
        if self.budget.suspect > 0 && client.machine.is_holding() {
            acts.push(Act::Suspect(process));
        }
        if self.budget.close > 0 && !client.closed {
            acts.push(Act::Close(process));
        }
        if self.budget.die > 0 {
            acts.push(Act::Die(process));
        }
        if self.budget.copy > 0 && process == 0 && client.can_be_copied() {
            acts.push(Act::Copy(process));
        }
    }

    fn acts_of_server(&self, acts: &mut Vec<Act>) {
        let budget = &self.budget;
        let may_lose = self.store.drawn_at != self.now;
        if budget.restart > 0 && may_lose {
            acts.push(Act::Restart);
        }
        if budget.restore > 0 {
            if self.store.can_save() {
                acts.push(Act::Save);
            }
            if self.store.can_restore() && may_lose {
                acts.push(Act::Restore);
            }
        }
        if budget.evict > 0 && self.store.is_taken(self.now) {
            acts.push(Act::Evict);
        }
    }

    /// Adds the promises that this state breaks.
    pub(crate) fn look(&mut self, config: &Config) {
        let mut broken = Broken::default();
        match config.is_pool() {
            true => self.look_at_permits(config, &mut broken),
            false => self.look_at_holds(config, &mut broken),
        }
        self.look_at_bounds(&mut broken);
        if self.is_settled(config) {
            self.look_at_overdue_waiters(config, &mut broken);
            self.look_at_first_waiter(config, &mut broken);
            self.look_at_orphans(config, &mut broken);
        }
        self.broken.join(broken);
    }

    fn look_at_holds(&self, config: &Config, broken: &mut Broken) {
        let stored = self.store.held(self.now);
        let mut valid = Vec::new();
        for (process, client) in self.clients.iter().enumerate() {
            let now = self.local(config, process);
            for belief in client.beliefs.iter().filter(|belief| belief.is_valid(now)) {
                valid.push(belief.epoch);
                if belief.epoch == self.store.epoch {
                    // The process's clock reaches the deadline before the lease ends in the store.
                    let until = Self::true_time(config, process, belief.deadline);
                    let kept = stored.is_some_and(|(lease, _, left)| {
                        lease == id_of(belief.id.lease)
                            && u128::from(until) <= u128::from(self.now) + left.as_micros()
                    });
                    broken.unless(kept, Law::Deadline);
                }
            }
        }
        let twice = valid.iter().enumerate().any(|(at, epoch)| valid[..at].contains(epoch));
        broken.unless(!twice, Law::Exclusion);
    }

    /// Checks that the weights of valid permits, and of those in the store, do not exceed the largest limit.
    fn look_at_permits(&self, config: &Config, broken: &mut Broken) {
        let stored = self.store.permits(self.now);
        let limit = u64::from(config.limits().1);
        let in_store: u64 = stored.holders.values().map(|permit| u64::from(permit.weight)).sum();
        broken.unless(in_store <= limit, Law::Exclusion);
        let mut used = vec![0; usize::from(self.store.epoch) + 1];
        for (process, client) in self.clients.iter().enumerate() {
            let now = self.local(config, process);
            for belief in client.beliefs.iter().filter(|belief| belief.is_valid(now)) {
                used[usize::from(belief.epoch)] += u64::from(belief.weight);
                if belief.epoch == self.store.epoch {
                    let until = server_time(Self::true_time(config, process, belief.deadline));
                    let kept = stored.holders.get(&id_of(belief.id.lease)).is_some_and(|permit| {
                        until.as_millis() <= permit.ends_ms && belief.weight <= permit.weight
                    });
                    broken.unless(kept, Law::Deadline);
                }
            }
        }
        broken.unless(used.into_iter().all(|used| used <= limit), Law::Exclusion);
    }

    /// Checks that the first waiter in the store's queue does not sleep although its process was told that it fits. A
    /// process with several waiters lets its own first one ask, which may not be that of the store.
    fn look_at_first_waiter(&self, config: &Config, broken: &mut Broken) {
        let stored = self.store.permits(self.now);
        let Some((id, first)) = stored.queue.first().filter(|_| self.store.announced && config.copies == 0)
        else {
            return;
        };
        let used: u64 = stored.holders.values().map(|permit| u64::from(permit.weight)).sum();
        let fits = used + u64::from(first.weight) <= u64::from(config.limits().0);
        let process = drawn_by(id.number());
        let client = &self.clients[process];
        let hears = self.net.iter().any(|message| message.process == process);
        let sleeps =
            client.watching && !client.paused && client.calls.is_empty() && !client.waiting.is_empty();
        let is_only = client.waiting.len() == 1 || config.punctual;
        if fits && sleeps && is_only && !hears {
            let soon = self.local(config, process) + SOON;
            broken.unless(client.machine.wake_at().is_some_and(|at| at <= soon), Law::NoDeadWait);
        }
    }

    /// Checks that a process that has nothing left to do has left nothing in the store. Copies share their places.
    fn look_at_orphans(&self, config: &Config, broken: &mut Broken) {
        if config.copies > 0 || self.store.haunted {
            return;
        }
        let stored = self.store.permits(self.now);
        let now = self.server().as_millis();
        let holders = stored.holders.iter().map(|(id, permit)| (*id, permit.ends_ms));
        let places = stored.queue.iter().map(|(id, permit)| (*id, permit.ends_ms));
        for (id, _) in holders.chain(places).filter(|(_, ends_ms)| *ends_ms > now) {
            let process = drawn_by(id.number());
            let client = &self.clients[process];
            let is_over = !client.dead && client.is_drained();
            let is_under_way = self.net.iter().any(|message| message.process == process);
            broken.unless(!is_over || is_under_way, Law::NoOrphan);
        }
    }

    fn look_at_bounds(&self, broken: &mut Broken) {
        for client in &self.clients {
            let takes = client.calls.iter().filter(|call| matches!(call.ask, Ask::Take { .. })).count();
            let depths = client.calls.iter().filter(|call| call.ask.changes_depth());
            let mut leases: Vec<_> = depths.map(|call| call.ask.lease()).collect();
            leases.sort_unstable();
            // The attempts of permits are independent of one another.
            let mut attempts: Vec<_> = client
                .calls
                .iter()
                .filter(|call| matches!(call.ask, Ask::Permit { .. }))
                .map(|call| call.ask.lease())
                .collect();
            attempts.sort_unstable();
            let alone = attempts.windows(2).all(|two| two[0] != two[1]) && takes <= 1;
            let alone = alone && leases.windows(2).all(|two| two[0] != two[1]);
            let bounded = client.calls.len() <= 12 && client.machine.waiters() <= 8;
            broken.unless(alone && bounded, Law::NoPanic);
            broken.unless(client.machine.waiters() == client.waiting.len(), Law::NoPanic);
        }
    }

    /// Checks that nothing is overdue in a state in which nothing more happens at the present moment.
    fn look_at_overdue_waiters(&self, config: &Config, broken: &mut Broken) {
        let kept = self.store.epoch == 0;
        let announced = self.store.announced || config.punctual && kept;
        let announced = announced && !config.is_pool() && self.store.held(self.now).is_none();
        for (process, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.paused) {
            let now = self.local(config, process);
            let untold = client.beliefs.iter().any(|belief| !belief.ended && belief.deadline <= now);
            broken.unless(!untold, Law::LossReportedOnce);
            // By then, a waiter with a deadline must have been answered.
            broken.unless(client.waiting.iter().all(|(_, until)| now < *until), Law::BoundedWait);
            if client.waiting.is_empty() || !client.calls.is_empty() {
                continue;
            }
            let wake = client.machine.wake_at();
            let wakes_by = |at| wake.is_some_and(|wake| wake <= at);
            broken.unless(wakes_by(Moment::NEVER), Law::NoDeadWait);
            if client.machine.is_holding() && !config.is_pool() {
                continue; // they wait for their own process
            }
            broken.unless(wakes_by(now + MAX_WAIT + SOON), Law::NoDeadWait);
            let hears = self.net.iter().any(|message| message.process == process);
            // Its waiters wait for its own minimum, even if the store has lost that lease.
            let keeps = self.kept.is_some_and(|kept| drawn_by(kept.lease.number()) == process);
            if announced && client.watching && !hears && !keeps {
                broken.unless(wakes_by(now + SOON), Law::NoDeadWait);
            }
        }
    }
}

fn can_be_sent_twice(config: &Config, message: &Message) -> bool {
    match message.body {
        Body::Request { ask: Ask::Watch | Ask::Unwatch, .. } => false,
        Body::Request { mute, .. } => !mute || config.resends_answered,
        Body::Reply { .. } | Body::Wake => false,
    }
}
