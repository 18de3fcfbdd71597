//! A process: its machine, the calls that its driver waits for, and what its application believes.

use crate::{belief::Belief, message::Ask};
use lock_core::{
    FencingToken,
    backend::LeaseNumber,
    clock::Moment,
    model::{Machine, MachineConfig, TermValues},
};
use std::time::Duration;

/// A set of small numbers, such as those of leases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Leases(u64);

impl Leases {
    pub(crate) fn add(&mut self, lease: LeaseNumber) {
        self.0 |= 1 << (lease.get() % 64);
    }

    pub(crate) fn has(self, lease: LeaseNumber) -> bool {
        self.0 & (1 << (lease.get() % 64)) != 0
    }
}

/// A request that was sent and is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) due: Moment,
    pub(crate) sent: Moment,
    pub(crate) ask: Ask,
}

/// A release by hand that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Open {
    pub(crate) ticket: u64,
    /// Its process believed in the hold when it released.
    pub(crate) was_valid: bool,
    /// Another had the lock by then.
    pub(crate) taken: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) machine: Machine,
    /// How many lease ids were drawn.
    pub(crate) drawn: u64,
    pub(crate) calls: Vec<Call>,
    /// How much of its script was played.
    pub(crate) entered: usize,
    /// Those who wait: the place of each in the script, and until when.
    pub(crate) waiting: Vec<(usize, Moment)>,
    /// Those who went away: the machine may say to them what nobody hears.
    pub(crate) left: Vec<usize>,
    pub(crate) beliefs: Vec<Belief>,
    pub(crate) tickets: Vec<Open>,
    pub(crate) tickets_drawn: u64,
    pub(crate) paused: bool,
    pub(crate) closed: bool,
    /// By how many microseconds it is wrong about the server's clock.
    pub(crate) wrong_by: i64,
    /// The subscription was acknowledged and not ended.
    pub(crate) watching: bool,
    /// Leases that were given up.
    pub(crate) retired: Leases,
    /// Leases that became a hold.
    pub(crate) granted: Leases,
    /// Leases that the store did not find.
    pub(crate) gone: Leases,
    /// The last token that the store set aside for the lease that it granted last.
    pub(crate) range: Option<(LeaseNumber, FencingToken)>,
    /// The hand-offs of the lease that is held, if its terms allow any.
    pub(crate) chain: Option<Chain>,
}

/// A lease that is passed on within its process, as its checker knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    pub(crate) lease: LeaseNumber,
    /// How often the store had lost data when it granted the lease.
    pub(crate) epoch: u8,
    pub(crate) last: FencingToken,
    pub(crate) granted_at: Moment,
    pub(crate) passes: u32,
    /// The terms that its present holder asked for.
    pub(crate) terms: TermValues,
    /// The wall clock jumped, and no renewal has confirmed the lease since.
    pub(crate) doubted: bool,
}

impl Client {
    pub(crate) fn new(wrong_by: i64) -> Self {
        let rules = MachineConfig {
            max_waiters: 8,
            push: true,
            linger: Duration::from_secs(2),
            unsubscribed_poll: MAX_WAIT,
            lease_per_attempt: false,
        };
        Self {
            machine: Machine::new(rules),
            drawn: 0,
            calls: Vec::new(),
            entered: 0,
            waiting: Vec::new(),
            left: Vec::new(),
            beliefs: Vec::new(),
            tickets: Vec::new(),
            tickets_drawn: 0,
            paused: false,
            closed: false,
            wrong_by,
            watching: false,
            retired: Leases::default(),
            granted: Leases::default(),
            gone: Leases::default(),
            range: None,
            chain: None,
        }
    }

    pub(crate) fn doubt(&mut self) {
        if let Some(chain) = &mut self.chain {
            chain.doubted = true;
        }
    }

    pub(crate) fn trust(&mut self) {
        if let Some(chain) = &mut self.chain {
            chain.doubted = false;
        }
    }

    /// `false` if it did not wait.
    pub(crate) fn waits_no_longer(&mut self, place: usize) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, _)| *waiting != place);
        self.waiting.len() + 1 == before
    }

    pub(crate) fn is_calling(&self, ask: Ask, sent: Moment) -> bool {
        self.calls.iter().any(|call| call.ask == ask && call.sent == sent)
    }

    /// Ends one such call: a suspicion can send a second renewal beside the first, at the same moment.
    pub(crate) fn answered(&mut self, ask: Ask, sent: Moment) {
        if let Some(at) = self.calls.iter().position(|call| call.ask == ask && call.sent == sent) {
            self.calls.remove(at);
        }
    }

    pub(crate) fn tries(&self) -> bool {
        self.calls.iter().any(|call| call.ask.is_acquire())
    }

    pub(crate) fn call(&mut self, call: Call) {
        let at = self.calls.binary_search(&call).unwrap_or_else(|at| at);
        self.calls.insert(at, call);
    }

    /// The machine wants to be called.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.machine.wake_at().is_some_and(|at| at <= now)
    }

    pub(crate) fn overdue(&self, now: Moment) -> Option<Call> {
        self.calls.first().copied().filter(|call| call.due <= now)
    }

    /// Nothing is held, wanted or under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.machine.is_drained()
            && self.calls.is_empty()
            && self.waiting.is_empty()
            && self.beliefs.is_empty()
    }
}

/// The longest time between two tries of a waiter.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(5);
