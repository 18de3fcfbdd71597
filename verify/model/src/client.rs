//! A process: its machine, the pending calls of its driver, and the beliefs of its application about holds.

use crate::{config::Config, message::Ask, store::draws_from};
use lock_core::{
    FencingToken,
    backend::LeaseNumber,
    clock::Moment,
    model::{Command, Env, Event, HoldId, Machine, MachineConfig, PoolMachine, TermValues},
};
use std::time::Duration;

/// The maximum time between two attempts of a waiter.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(5);

/// A set of small numbers, for example of leases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Leases(u128);

impl Leases {
    pub(crate) fn add(&mut self, lease: LeaseNumber) {
        self.0 |= 1 << (lease.get() % 128);
    }

    pub(crate) fn has(self, lease: LeaseNumber) -> bool {
        self.0 & (1 << (lease.get() % 128)) != 0
    }
}

/// A request that was sent but not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) due: Moment,
    pub(crate) sent: Moment,
    pub(crate) ask: Ask,
}

/// An explicit release that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Open {
    pub(crate) ticket: u64,
    /// `true` if the process believed in the hold when it released it.
    pub(crate) was_valid: bool,
    /// `true` if another process had the lock by then.
    pub(crate) taken: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) machine: AnyMachine,
    /// The latest lease id that may be in the store.
    pub(crate) drawn: u64,
    /// `true` once an acquire was not answered. Its lease id is repeated.
    pub(crate) unanswered: bool,
    pub(crate) calls: Vec<Call>,
    /// The number of script entries started.
    pub(crate) entered: usize,
    /// The waiters: the position of each in the script, and its deadline.
    pub(crate) waiting: Vec<(usize, Moment)>,
    /// The dropped waiters. Nobody receives notifications to them.
    pub(crate) left: Vec<usize>,
    pub(crate) beliefs: Vec<Belief>,
    pub(crate) tickets: Vec<Open>,
    pub(crate) tickets_drawn: u64,
    pub(crate) paused: bool,
    pub(crate) closed: bool,
    /// `true` once the process has ended without a word.
    pub(crate) dead: bool,
    /// The error of its estimate of the server's clock, in µs.
    pub(crate) wrong_by: i64,
    /// `true` if the subscription was acknowledged and has not ended.
    pub(crate) watching: bool,
    /// Leases that were abandoned.
    pub(crate) retired: Leases,
    /// Leases that became a hold.
    pub(crate) granted: Leases,
    /// Leases that the store did not find.
    pub(crate) gone: Leases,
    /// The last token that the store reserved for the latest granted lease.
    pub(crate) range: Option<(LeaseNumber, FencingToken)>,
    /// The hand-offs of the current lease, if its options allow any.
    pub(crate) chain: Option<Chain>,
}

/// The state machine of a process: that of a lock or that of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant)] // all machines of a search are of one kind
pub(crate) enum AnyMachine {
    Lock(Machine),
    Pool(PoolMachine),
}

impl AnyMachine {
    fn new(rules: MachineConfig) -> Self {
        if rules.pool { Self::Pool(PoolMachine::new(rules)) } else { Self::Lock(Machine::new(rules)) }
    }

    pub(crate) fn handle(&mut self, now: Moment, event: Event, env: &mut dyn Env, out: &mut Vec<Command>) {
        match self {
            Self::Lock(machine) => machine.handle(now, event, env, out),
            Self::Pool(machine) => machine.handle(now, event, env, out),
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Moment> {
        match self {
            Self::Lock(machine) => machine.wake_at(),
            Self::Pool(machine) => machine.wake_at(),
        }
    }

    pub(crate) fn waiters(&self) -> usize {
        match self {
            Self::Lock(machine) => machine.waiters(),
            Self::Pool(machine) => machine.waiters(),
        }
    }

    /// Returns `true` if the lock, or a permit, is held.
    pub(crate) fn is_holding(&self) -> bool {
        match self {
            Self::Lock(machine) => machine.holder().is_some(),
            Self::Pool(machine) => machine.holders().next().is_some(),
        }
    }

    fn is_drained(&self) -> bool {
        match self {
            Self::Lock(machine) => machine.is_drained(),
            Self::Pool(machine) => machine.is_drained(),
        }
    }
}

/// A lease that is handed off within its process, as tracked by the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    pub(crate) lease: LeaseNumber,
    /// The number of the store's data losses when it granted the lease.
    pub(crate) epoch: u8,
    pub(crate) last: FencingToken,
    pub(crate) granted_at: Moment,
    pub(crate) passes: u32,
    /// The options of its current holder.
    pub(crate) terms: TermValues,
    /// `true` once the wall clock has jumped.
    pub(crate) doubted: bool,
}

impl Client {
    pub(crate) fn new(config: &Config, process: usize) -> Self {
        let rules = MachineConfig {
            max_waiters: 8,
            push: true,
            unsubscribed_poll: MAX_WAIT,
            lease_per_attempt: false,
            pool: config.is_pool(),
        };
        Self {
            machine: AnyMachine::new(rules),
            drawn: draws_from(process),
            unanswered: false,
            calls: Vec::new(),
            entered: 0,
            waiting: Vec::new(),
            left: Vec::new(),
            beliefs: Vec::new(),
            tickets: Vec::new(),
            tickets_drawn: 0,
            paused: false,
            closed: false,
            dead: false,
            wrong_by: if process == 0 { config.wrong_estimate } else { 0 },
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

    /// Removes a waiter. Returns `false` if it was not waiting.
    pub(crate) fn remove_waiter(&mut self, place: usize) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, _)| *waiting != place);
        self.waiting.len() + 1 == before
    }

    pub(crate) fn is_calling(&self, ask: Ask, sent: Moment) -> bool {
        self.calls.iter().any(|call| call.ask == ask && call.sent == sent)
    }

    /// Ends one such call. A suspicion can send a second renewal while the first is under way, at the same moment.
    pub(crate) fn answered(&mut self, ask: Ask, sent: Moment) {
        if let Some(at) = self.calls.iter().position(|call| call.ask == ask && call.sent == sent) {
            self.calls.remove(at);
        }
    }

    /// Returns `true` if nothing is held or requested, which a copy would share.
    pub(crate) fn can_be_copied(&self) -> bool {
        let idle = self.calls.is_empty() && self.beliefs.is_empty() && !self.machine.is_holding();
        idle && !self.unanswered && !self.closed && !self.paused
    }

    pub(crate) fn tries(&self) -> bool {
        self.calls.iter().any(|call| call.ask.is_acquire())
    }

    pub(crate) fn call(&mut self, call: Call) {
        let at = self.calls.binary_search(&call).unwrap_or_else(|at| at);
        self.calls.insert(at, call);
    }

    /// Returns `true` if the machine is due for a tick.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.machine.wake_at().is_some_and(|at| at <= now)
    }

    pub(crate) fn overdue(&self, now: Moment) -> Option<Call> {
        self.calls.first().copied().filter(|call| call.due <= now)
    }

    /// Returns `true` if nothing is held, wanted or under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.machine.is_drained()
            && self.calls.is_empty()
            && self.waiting.is_empty()
            && self.beliefs.is_empty()
    }
}

/// A hold as known to its guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Belief {
    pub(crate) id: HoldId,
    /// The end of its validity, by the clock of the process.
    pub(crate) deadline: Moment,
    pub(crate) guards: u32,
    /// The weight of the permit; that of a lock is 1.
    pub(crate) weight: u32,
    /// `true` if its weight may be lowered.
    pub(crate) lowers: bool,
    /// `true` if guards are released explicitly.
    pub(crate) by_hand: bool,
    /// `true` once the deadline was seen to pass before the machine reported the end.
    pub(crate) seen_over: bool,
    /// `true` once the machine has reported the end.
    pub(crate) ended: bool,
    /// The number of the store's data losses when it granted the hold.
    pub(crate) epoch: u8,
}

impl Belief {
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        self.guards > 0 && !self.ended && !self.seen_over && now < self.deadline
    }
}
