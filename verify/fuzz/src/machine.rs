//! Events to the state machine, in any order that a driver could produce, with answers of the store; and its invariants.

use crate::{AnyDuration, millis_below};
use arbitrary::{Arbitrary, Result, Unstructured};
use lock_core::{
    FencingToken, LockName,
    backend::{AcquireMode, Acquired, Applied, Operation, ProcessId, Released, Renewed, Reply},
    clock::{Moment, UtcTime},
    model::{
        Command, Entry, Env, Event, Failure, HandOffBudget, HoldEnd, HoldId, Join, Keep, Machine,
        MachineConfig, OwnerId, TermValues, Terms, Ticket, WaitPolicy, WaiterId, WatchAnswer,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use uuid::Uuid;

/// The maximum number of events; more reveal nothing new.
const EVENTS: usize = 400;
const WAITERS: u32 = 8;

/// Checks the state machine with arbitrary events.
///
/// # Panics
/// If an invariant breaks.
pub fn events(data: &[u8]) {
    let mut world = World::new();
    world.run(&mut Unstructured::new(data)).expect("numbers and choices need no bytes");
    world.end();
}

/// Lease ids that never repeat, and a server clock that runs with the machine's.
struct Dice {
    drawn: u64,
    now: Moment,
}

impl Env for Dice {
    fn address(&self) -> (LockName, ProcessId) {
        (LockName::new("x").expect("a valid name"), ProcessId::from_uuid(Uuid::nil()))
    }

    fn unclaimed(&mut self, _: HoldId, _: Moment) -> u32 {
        u32::from(self.jitter().is_multiple_of(16))
    }

    fn unique(&mut self) -> Option<u64> {
        Some(self.jitter())
    }

    fn jitter(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }
    fn server_now(&mut self) -> UtcTime {
        UtcTime::from_micros(1_000_000_000 + self.now.as_micros())
    }
}

struct World {
    machine: Machine,
    dice: Dice,
    token: u64,
    next: u64,
    /// Requested IO. Each request is answered exactly once.
    asked: Vec<(Command, Moment)>,
    waiting: BTreeSet<WaiterId>,
    /// The number of guards of each hold.
    guards: BTreeMap<HoldId, u32>,
    ended: BTreeSet<HoldId>,
    tickets: BTreeSet<Ticket>,
    /// `true` while a guard is being dropped and the machine has not yet reported it.
    dropping: bool,
}

impl World {
    fn new() -> Self {
        let rules = MachineConfig { max_waiters: WAITERS, ..MachineConfig::default() };
        let dice = Dice { drawn: 0, now: Moment::START };
        let (asked, waiting, guards) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let (ended, tickets) = (BTreeSet::new(), BTreeSet::new());
        Self {
            machine: Machine::new(rules),
            dice,
            token: 1,
            next: 0,
            asked,
            waiting,
            guards,
            ended,
            tickets,
            dropping: false,
        }
    }

    fn run(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        for _ in 0..EVENTS {
            if u.is_empty() {
                break;
            }
            self.step(u)?;
        }
        Ok(())
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        match u.int_in_range(0..=12)? {
            0..=1 => self.enter(u)?,
            2 => {
                if let Some(waiter) = one_of(self.waiting.iter(), u)? {
                    self.waiting.remove(&waiter);
                    self.feed(Event::Leave { waiter });
                }
            }
            3..=6 => {
                if !self.asked.is_empty() {
                    let command = self.asked.swap_remove(u.choose_index(self.asked.len())?);
                    self.answer(command, &u.arbitrary()?);
                }
            }
            7 => self.put_down(u)?,
            8 => self.feed(u.choose(&[Event::Woken, Event::Suspicion, Event::RenewEarly])?.clone()),
            9 => {
                if let Some((_, hold, _, deadline)) = self.machine.holder()
                    && deadline <= self.dice.now
                {
                    self.feed(Event::Expired { hold });
                }
            }
            10 => self.pass(millis_below(u, 40_000)?),
            11 => {
                if let Some((_, hold, ..)) = self.machine.holder() {
                    self.feed(Event::Pin { hold });
                }
            }
            _ => self.tick(),
        }
        Ok(())
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn enter(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let waiter = WaiterId(self.fresh());
        let owner = OwnerId(u.int_in_range(0..=2)?);
        let guard = if u.arbitrary()? { one_of(self.guards.keys(), u)? } else { None };
        let kind = if u.arbitrary()? { Join::Extend } else { Join::Reenter };
        let join = guard.map(kind);
        let wait_policy = match u.int_in_range(0..=2)? {
            0 => WaitPolicy::NoWait,
            1 => WaitPolicy::Deadline(self.dice.now + millis_below(u, 60_000)?),
            _ => WaitPolicy::Unbounded,
        };
        let terms = terms(u)?;
        self.waiting.insert(waiter);
        self.feed(Event::Enter(Entry { waiter, owner, owned: true, terms, wait_policy, join }));
        Ok(())
    }

    /// Answers a request in an arbitrary way.
    fn answer(&mut self, (command, sent): (Command, Moment), answer: &Answer) {
        let now = self.dice.server_now();
        let event = match command {
            Command::Io { operation: Operation::Acquire(request), .. } => {
                let (lease, mode) = (request.lease.number(), request.mode);
                let reentry = matches!(mode, AcquireMode::Reenter { .. });
                let outcome = match answer.outcome {
                    0..=2 if !reentry => {
                        let first = FencingToken::new(self.token + 1 + answer.others);
                        let AcquireMode::New { reserve, .. } = mode else { unreachable!("not a re-entry") };
                        self.token = first.get() + u64::from(reserve);
                        Acquired::Granted { first, last: FencingToken::new(self.token) }
                    }
                    0..=2 => Acquired::Reentered,
                    3 if !reentry => Acquired::Busy { remaining: answer.remaining },
                    4 if reentry => Acquired::Gone,
                    _ => Acquired::Late,
                };
                Event::Acquired { lease, outcome: answer.of(now, outcome) }
            }
            Command::Io { operation: Operation::Renew(request), .. } => {
                let lease = request.lease.number();
                let outcome = match answer.outcome {
                    0..=2 => Renewed::Renewed,
                    3 => Renewed::Gone,
                    _ => Renewed::Late,
                };
                Event::Renewed { lease, sent, outcome: answer.of(now, outcome) }
            }
            Command::Io { operation: Operation::Release(request), .. } => {
                let (lease, depth_left) = (request.lease.number(), request.depth_left);
                let outcome = match answer.outcome {
                    4.. => Released::Gone { held_by_other: answer.held_by_other },
                    _ if depth_left > 0 => Released::Kept,
                    _ => Released::Released { listeners: answer.listeners },
                };
                Event::Released { lease, depth_left, outcome: answer.of(now, outcome) }
            }
            Command::Watch => Event::Watched(answer.watch()),
            Command::Unwatch => Event::Unwatched(answer.watch()),
            other => unreachable!("{other:?} needs no answer"),
        };
        self.feed(event);
    }

    /// Releases or drops a guard at an arbitrary time.
    fn put_down(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(hold) = one_of(self.guards.keys(), u)? else { return Ok(()) };
        let left = self.guards.get_mut(&hold).expect("chosen from these");
        *left -= 1;
        if *left == 0 {
            self.guards.remove(&hold);
        }
        if u.arbitrary()? {
            let ticket = Ticket(self.fresh());
            self.tickets.insert(ticket);
            self.feed(Event::Release { hold, ticket });
        } else {
            self.feed(Event::Drop { hold });
        }
        Ok(())
    }

    fn pass(&mut self, time: Duration) {
        self.dice.now = self.dice.now + time;
        self.feed(Event::Tick);
    }

    /// Advances to the next wake-up of the machine, or a little.
    fn tick(&mut self) {
        let at = self.machine.wake_at().unwrap_or(self.dice.now + Duration::from_millis(1));
        self.dice.now = self.dice.now.max(at);
        self.feed(Event::Tick);
    }

    fn feed(&mut self, event: Event) {
        self.handle(event);
        // An end at this very moment may cause one more turn, but not two: the driver would spin.
        for _ in 0..2 {
            if self.machine.wake_at().is_some_and(|at| at <= self.dice.now) {
                self.handle(Event::Tick);
            }
        }
        let wake_at = self.machine.wake_at();
        assert!(
            wake_at.is_none_or(|at| at > self.dice.now),
            "{wake_at:?} at {:?}: {:#?}",
            self.dice.now,
            self.machine
        );
    }

    fn handle(&mut self, event: Event) {
        self.dropping = matches!(event, Event::Drop { .. });
        let mut commands = Vec::new();
        self.machine.handle(self.dice.now, event, &mut self.dice, &mut commands);
        commands.into_iter().for_each(|command| self.obey(command));
        assert!(!self.dropping, "a drop is reported at once");
        let next = |(asked, _): &&(Command, Moment)| match asked {
            Command::Io { operation: Operation::Acquire(request), .. } => {
                matches!(request.mode, AcquireMode::New { .. })
            }
            _ => false,
        };
        assert!(self.asked.iter().filter(next).count() <= 1, "one acquire in flight");
        assert_eq!(self.machine.waiters(), self.waiting.len(), "the machine has exactly the waiting futures");
        if let Some((_, hold, guards, deadline)) = self.machine.holder() {
            assert!(deadline > self.dice.now, "a hold past its deadline has ended");
            assert!(!self.ended.contains(&hold), "an ended hold stays ended");
            assert_eq!(self.guards.get(&hold).copied().unwrap_or_default(), guards);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Io { .. } | Command::Watch | Command::Unwatch => {
                self.asked.push((command, self.dice.now))
            }
            Command::Grant { waiter, grant } => {
                assert!(self.waiting.remove(&waiter), "only a waiter is granted");
                assert!(!self.ended.contains(&grant.hold) && grant.deadline > self.dice.now);
                assert!(grant.hold.token.get() <= self.token, "only tokens issued by the store");
                let guards = self.guards.entry(grant.hold).or_default();
                *guards += 1;
                assert_eq!(*guards, grant.depth);
            }
            Command::Refuse { waiter, .. } => {
                assert!(self.waiting.remove(&waiter), "only a waiter is refused")
            }
            Command::Extended { hold, deadline } => {
                assert!(!self.ended.contains(&hold), "extended after its end");
                assert!(deadline > self.dice.now, "extended to {deadline:?} at {:?}", self.dice.now);
            }
            Command::Ended { hold, how } => {
                assert!(self.ended.insert(hold), "a hold ends once");
                // A hold whose last guard waits for an answer may also be lost.
                assert!(
                    how != HoldEnd::Released || !self.guards.contains_key(&hold),
                    "released by its last guard"
                );
            }
            Command::ReleaseAnswered { ticket: None, .. } => {
                assert!(std::mem::take(&mut self.dropping), "each drop is reported once");
            }
            Command::ReleaseAnswered { ticket: Some(ticket), .. } => {
                assert!(self.tickets.remove(&ticket), "each release is answered once")
            }
            Command::Notice(_) => {}
        }
    }

    /// Shuts down, answers everything successfully and lets time pass. Nothing may be left.
    fn end(mut self) {
        self.feed(Event::Shutdown);
        assert!(self.waiting.is_empty(), "a shutdown ends every wait");
        for _ in 0..EVENTS * 4 {
            while let Some(command) = self.asked.pop() {
                self.answer(command, &Answer::GOOD);
            }
            if let Some(hold) = self.guards.keys().next().copied() {
                self.guards.remove(&hold);
                self.feed(Event::Drop { hold });
            } else if self.machine.is_drained() && self.tickets.is_empty() {
                return;
            } else {
                self.tick();
            }
        }
        panic!("the machine never becomes idle: {:?}, tickets {:?}", self.machine, self.tickets);
    }
}

fn terms(u: &mut Unstructured<'_>) -> Result<Terms> {
    let lease = Duration::from_millis(500) + millis_below(u, 60_000)?;
    let keep = if u.ratio(1_u8, 4)? { Keep::Fixed } else { Keep::Renewed { every: lease / 3 } };
    Ok(Terms::from(TermValues {
        lease,
        keep,
        operation_timeout: lease / 10,
        margin: lease / 100 + Duration::from_millis(2),
        outage_budget: lease,
        poll_interval: Duration::from_secs(5),
        max_hold: u.ratio(1_u8, 4)?.then_some(lease * 2),
        token_floor: None,
        retention: lock_core::Retention::Backend,
        hand_off: HandOffBudget { passes: u.int_in_range(0..=3)?, within: millis_below(u, 20)? },
        min_hold: if u.ratio(1_u8, 4)? { lease / 2 } else { Duration::ZERO },
        share: None,
    }))
}

fn one_of<'s, T: Copy + 's>(
    all: impl ExactSizeIterator<Item = &'s T>,
    u: &mut Unstructured<'_>,
) -> Result<Option<T>> {
    if all.len() == 0 { Ok(None) } else { u.choose_iter(all).map(|one| Some(*one)) }
}

/// An answer of the store. Only the fields that fit the request are used.
struct Answer {
    failure: Option<Failure>,
    /// Selects one of the possible outcomes; below 6.
    outcome: u8,
    /// The number of tokens that others drew in the meantime.
    others: u64,
    remaining: Option<Duration>,
    held_by_other: bool,
    listeners: Option<u32>,
}

impl Answer {
    /// A success without other contenders.
    const GOOD: Self =
        Self { failure: None, outcome: 0, others: 0, remaining: None, held_by_other: false, listeners: None };

    fn of<T>(&self, now: UtcTime, outcome: T) -> std::result::Result<Reply<T>, Failure> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(Reply::new(now, outcome)),
        }
    }

    fn watch(&self) -> WatchAnswer {
        if self.failure.is_some() { WatchAnswer::Failed } else { WatchAnswer::Acknowledged }
    }
}

impl<'a> Arbitrary<'a> for Answer {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let failure = if u.ratio(1_u8, 4)? {
            let applied = if u.arbitrary()? { Applied::No } else { Applied::Unknown };
            Some(Failure { applied, retryable: u.ratio(3_u8, 4)? })
        } else {
            None
        };
        Ok(Self {
            failure,
            outcome: u.int_in_range(0..=5)?,
            others: u.int_in_range(0..=2)?,
            remaining: u.arbitrary::<Option<AnyDuration>>()?.map(|AnyDuration(remaining)| remaining),
            held_by_other: u.arbitrary()?,
            listeners: u.arbitrary::<Option<u8>>()?.map(u32::from),
        })
    }
}
