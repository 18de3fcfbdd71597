//! A state: processes, the store, messages in flight, and one clock.

use crate::{
    client::{Call, Client},
    config::{Budget, Config},
    laws::Broken,
    memo::Memo,
    message::{Body, Message},
    store::{Store, server_time},
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
        let wrong_by = |process| if process == 0 { config.wrong_estimate } else { 0 };
        let client = |process| Arc::new(Client::new(process, wrong_by(process)));
        Self {
            now: 0,
            clients: (0..config.scripts.len() - config.copies).map(client).collect(),
            store: Store::new(config.bug, config.used_before),
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
    pub(crate) fn true_time(config: &Config, process: usize, at: Moment) -> u64 {
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
    pub(crate) fn can_arrive(&self, message: &Message) -> bool {
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
        if let Some((_, _, left)) = self.store.held(self.now) {
            let over = u64::try_from(left.as_micros()).unwrap_or(u64::MAX).saturating_add(1000);
            next = next.min(self.now.saturating_add(over));
        }
        (next != u64::MAX).then(|| next.div_ceil(GRID) * GRID)
    }
}
