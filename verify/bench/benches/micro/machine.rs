//! The state machine without a driver: events in, commands out. The simulated store grants every request.

use divan::Bencher;
use lock_core::{
    FencingToken, LockName, Retention,
    backend::{Acquired, LeaseNumber, Operation, ProcessId, Released, Reply},
    clock::{Moment, UtcTime},
    model::{
        Command, Entry, Env, Event, HandOffBudget, HoldId, Keep, Machine, MachineConfig, OwnerId, TermValues,
        Terms, Ticket, WaitPolicy, WaiterId,
    },
};
use std::time::Duration;

/// Lets one waiter acquire and release the lock.
#[divan::bench]
fn uncontended_cycle(bencher: Bencher<'_, '_>) {
    let mut story = Story::new();
    bencher.bench_local(|| {
        story.enter();
        story.until_released();
    });
}

/// Lets sixteen waiters enter at once and serves each of them.
#[divan::bench]
fn sixteen_waiters(bencher: Bencher<'_, '_>) {
    let mut story = Story::new();
    bencher.bench_local(|| {
        for _ in 0..16 {
            story.enter();
        }
        story.until_released();
    });
}

struct Story {
    machine: Machine,
    world: World,
    commands: Vec<Command>,
    waiters: u64,
    tokens: u64,
}

struct World {
    name: LockName,
    process: ProcessId,
    drawn: u64,
}

const SERVER_NOW: UtcTime = UtcTime::from_micros(1_700_000_000_000_000);

impl Env for World {
    fn address(&self) -> (LockName, ProcessId) {
        (self.name.clone(), self.process)
    }

    fn unique(&mut self) -> Option<u64> {
        Some(self.jitter())
    }

    fn jitter(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn << 32
    }

    fn server_now(&mut self) -> UtcTime {
        SERVER_NOW
    }

    fn unclaimed(&mut self, _: HoldId, _: Moment) -> u32 {
        0
    }
}

impl Story {
    fn new() -> Self {
        // Without push, the machine sends no subscription that needs an answer.
        let config = MachineConfig { push: false, ..MachineConfig::default() };
        Self {
            machine: Machine::new(config),
            world: World {
                name: LockName::new("x").expect("a valid name"),
                process: ProcessId::random(),
                drawn: 0,
            },
            commands: Vec::new(),
            waiters: 0,
            tokens: 0,
        }
    }

    fn enter(&mut self) {
        self.waiters += 1;
        self.handle(Event::Enter(Entry {
            waiter: WaiterId(self.waiters),
            owner: OwnerId(self.waiters),
            owned: false,
            terms: terms(),
            wait_policy: WaitPolicy::Unbounded,
            join: None,
        }));
    }

    /// Answers the requests of the machine to the store, and releases every hold immediately, until no request is left.
    fn until_released(&mut self) {
        while let Some(command) = self.commands.pop() {
            match command {
                Command::Io { operation: Operation::Acquire(request), .. } => {
                    let lease = request.lease.number();
                    self.tokens += 1;
                    let token = FencingToken::new(self.tokens);
                    let granted = Acquired::Granted { first: token, last: token };
                    self.handle(Event::Acquired { lease, outcome: Ok(Reply::new(SERVER_NOW, granted)) });
                }
                Command::Io { operation: Operation::Release(request), .. } => {
                    self.released(request.lease.number(), request.depth_left);
                }
                Command::Grant { grant, .. } => {
                    self.handle(Event::Release { hold: grant.hold, ticket: Ticket(self.tokens) });
                }
                _ => {}
            }
        }
    }

    fn released(&mut self, lease: LeaseNumber, depth_left: u32) {
        let outcome = Ok(Reply::new(SERVER_NOW, Released::Released { listeners: None }));
        self.handle(Event::Released { lease, depth_left, outcome });
    }

    fn handle(&mut self, event: Event) {
        self.machine.handle(Moment::START, event, &mut self.world, &mut self.commands);
    }
}

/// The default options.
fn terms() -> Terms {
    Terms::from(TermValues {
        lease: Duration::from_secs(30),
        keep: Keep::Renewed { every: Duration::from_secs(10) },
        operation_timeout: Duration::from_secs(3),
        margin: Duration::from_millis(302),
        outage_budget: Duration::from_secs(30),
        poll_interval: Duration::from_secs(30),
        max_hold: None,
        min_hold: Duration::ZERO,
        token_floor: None,
        retention: Retention::Backend,
        hand_off: HandOffBudget { passes: 256, within: Duration::from_millis(40) },
        share: None,
    })
}
