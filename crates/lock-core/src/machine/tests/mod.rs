//! Tests in the form of stories: a machine gets events at given times of a virtual clock and returns commands.

mod acquisition;
mod depth;
mod fairness;
mod hand_off;
mod hold;
mod release;
mod watch;

use super::*;
use crate::{
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, NotifyWaiters, Operation, ReleaseRequest, Released,
        Renewed, Reply,
    },
    ids::{FencingToken, LeaseNumber, ProcessId},
    name::LockName,
    options::Terms,
    time::UtcTime,
};
use std::{collections::VecDeque, time::Duration};
use uuid::Uuid;

const A: WaiterId = WaiterId(1);
const B: WaiterId = WaiterId(2);
const C: WaiterId = WaiterId(3);

/// The server's clock at the start of a story.
const SERVER: u64 = 1_000_000_000_000;

/// Lease 30 s, renewal at 10 s, operation timeout 3 s, margin 302 ms.
fn terms() -> Terms {
    crate::options::LockOptions::new().terms().unwrap()
}

fn fixed(lease: Duration) -> Terms {
    crate::options::LockOptions::new().fixed_lease(lease).terms().unwrap()
}

/// Returns terms with a `max_hold` that may be shorter than the options allow.
fn bounded(max_hold: Duration) -> Terms {
    crate::options::TermValues { max_hold: Some(max_hold), ..*terms() }.into()
}

fn at(seconds: f64) -> Moment {
    Moment::START + Duration::from_secs_f64(seconds)
}

#[derive(Clone)]
struct Story {
    machine: Machine,
    now: Moment,
    said: VecDeque<Command>,
    /// The machine's reports about drops and renewals.
    reports: Vec<Command>,
    world: World,
    next_token: u64,
}

/// The machine's environment. Its random numbers are distinct and the same in every run.
#[derive(Clone)]
struct World {
    drawn: u64,
    /// Set if there are no random numbers.
    drained: bool,
    server: UtcTime,
    /// The grant times of guards that are not taken.
    unclaimed: Vec<Moment>,
}

impl Env for World {
    fn address(&self) -> (LockName, ProcessId) {
        (LockName::new("story").unwrap(), ProcessId::from_uuid(Uuid::nil()))
    }
    fn unique(&mut self) -> Option<u64> {
        (!self.drained).then(|| self.jitter())
    }
    fn jitter(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn << 32
    }
    fn server_now(&mut self) -> UtcTime {
        self.server
    }
    fn unclaimed(&mut self, _: HoldId, granted_by: Moment) -> u32 {
        self.unclaimed.iter().filter(|granted| **granted <= granted_by).count().try_into().unwrap()
    }
}

impl Story {
    fn begins() -> Self {
        Self::with(MachineConfig::default())
    }

    fn with(config: MachineConfig) -> Self {
        let world =
            World { drawn: 0, drained: false, server: UtcTime::from_micros(SERVER), unclaimed: Vec::new() };
        Self {
            machine: Machine::new(config),
            now: Moment::START,
            said: VecDeque::new(),
            reports: Vec::new(),
            world,
            next_token: 100,
        }
    }

    /// Returns a copy of the process with all its state, which draws other random numbers.
    fn copy(&self) -> Self {
        let mut copy = self.clone();
        copy.world.drawn += 1_000;
        copy
    }

    /// Advances to this second. Every wake-up that the machine requests happens on the way.
    fn at(&mut self, seconds: f64) -> &mut Self {
        let to = at(seconds);
        while let Some(wake) = self.machine.wake_at().filter(|wake| *wake <= to && *wake > self.now) {
            self.jump(wake);
            self.tell(Event::Tick);
        }
        self.jump(to);
        self
    }

    /// Advances without any wake-up: the process was paused.
    fn paused_until(&mut self, seconds: f64) -> &mut Self {
        self.jump(at(seconds));
        self
    }

    fn jump(&mut self, to: Moment) {
        self.world.server = self.world.server + to.since(self.now);
        self.now = to;
    }

    fn tell(&mut self, event: Event) -> &mut Self {
        let mut out = Vec::new();
        self.machine.handle(self.now, event, &mut self.world, &mut out);
        let is_report = |command: &Command| {
            matches!(
                command,
                Command::ReleaseAnswered { ticket: None, .. } | Command::Notice(Notice::Renewal { .. })
            )
        };
        let (reports, said): (Vec<_>, Vec<_>) = out.into_iter().partition(is_report);
        self.reports.extend(reports);
        self.said.extend(said);
        self
    }

    fn enters(&mut self, waiter: WaiterId) -> &mut Self {
        self.enters_with(waiter, |_| {})
    }

    fn enters_with(&mut self, waiter: WaiterId, change: impl FnOnce(&mut Entry)) -> &mut Self {
        let owner = OwnerId(waiter.0);
        let wait_policy = WaitPolicy::Unbounded;
        let mut entry = Entry { waiter, owner, owned: false, terms: terms(), wait_policy, join: None };
        change(&mut entry);
        self.tell(Event::Enter(entry))
    }

    fn enters_as(&mut self, waiter: WaiterId, owner: WaiterId) -> &mut Self {
        self.enters_with(waiter, |entry| {
            entry.owner = OwnerId(owner.0);
            entry.owned = true;
        })
    }

    fn acquired(&mut self, lease: LeaseNumber, outcome: Acquired) -> &mut Self {
        let reply = Reply::new(self.world.server, outcome);
        self.tell(Event::Acquired { lease, outcome: Ok(reply) })
    }

    fn granted(&mut self, lease: LeaseNumber) -> HoldId {
        self.granted_with(lease, 0)
    }

    /// Grants with this many further tokens in reserve.
    fn granted_with(&mut self, lease: LeaseNumber, reserve: u64) -> HoldId {
        let token = FencingToken::new(self.next_token + 1);
        self.next_token += 1 + reserve;
        self.acquired(lease, Acquired::Granted { first: token, last: FencingToken::new(self.next_token) });
        HoldId { lease, token }
    }

    fn busy(&mut self, lease: LeaseNumber, remaining: Duration) -> &mut Self {
        self.acquired(lease, Acquired::Busy { remaining: Some(remaining) })
    }

    fn acquire_unknown(&mut self, lease: LeaseNumber) -> &mut Self {
        self.tell(Event::Acquired { lease, outcome: Err(Failure::UNKNOWN) })
    }

    fn released(&mut self, lease: LeaseNumber, depth_left: u32, outcome: Released) -> &mut Self {
        let reply = Reply::new(self.world.server, outcome);
        self.tell(Event::Released { lease, depth_left, outcome: Ok(reply) })
    }

    fn release_unknown(&mut self, lease: LeaseNumber, depth_left: u32) -> &mut Self {
        self.tell(Event::Released { lease, depth_left, outcome: Err(Failure::UNKNOWN) })
    }

    fn renewed(&mut self, lease: LeaseNumber, sent: Moment, outcome: Renewed) -> &mut Self {
        let reply = Reply::new(self.world.server, outcome);
        self.tell(Event::Renewed { lease, sent, outcome: Ok(reply) })
    }

    fn renew_unknown(&mut self, lease: LeaseNumber, sent: Moment) -> &mut Self {
        self.tell(Event::Renewed { lease, sent, outcome: Err(Failure::UNKNOWN) })
    }

    /// Returns the machine's next command.
    fn next(&mut self) -> Command {
        self.said.pop_front().expect("the machine said something")
    }

    #[track_caller]
    fn says(&mut self, expected: Command) {
        assert_eq!(self.next(), expected);
    }

    #[track_caller]
    fn says_nothing(&mut self) {
        assert!(self.said.is_empty(), "the machine said {:?}", self.said);
    }

    /// Returns the machine's next command, an acquire.
    #[track_caller]
    fn asks(&mut self) -> AcquireRequest {
        match self.next() {
            Command::Io { operation: Operation::Acquire(request), .. } => request,
            other => panic!("not an acquire: {other:?}"),
        }
    }

    /// Returns the machine's next command, a release.
    #[track_caller]
    fn asks_to_release(&mut self) -> ReleaseRequest {
        match self.next() {
            Command::Io { operation: Operation::Release(request), .. } => request,
            other => panic!("not a release: {other:?}"),
        }
    }

    #[track_caller]
    fn tries(&mut self) -> LeaseNumber {
        let request = self.asks();
        assert!(matches!(request.mode, AcquireMode::New { .. }), "not an attempt: {request:?}");
        request.lease.number()
    }

    #[track_caller]
    fn tries_to_keep(&mut self, depth: u32) -> LeaseNumber {
        let request = self.asks();
        assert_eq!(request.mode, AcquireMode::Reenter { depth });
        request.lease.number()
    }

    #[track_caller]
    fn renews(&mut self) -> (LeaseNumber, Moment) {
        match self.next() {
            Command::Io { operation: Operation::Renew(request), .. } => (request.lease.number(), self.now),
            other => panic!("not a renewal: {other:?}"),
        }
    }

    #[track_caller]
    fn releases(&mut self, depth: u32) -> LeaseNumber {
        let request = self.asks_to_release();
        assert_eq!(request.depth_left, depth);
        request.lease.number()
    }

    #[track_caller]
    fn grants(&mut self, waiter: WaiterId) -> Grant {
        match self.next() {
            Command::Grant { waiter: w, grant } if w == waiter => grant,
            other => panic!("{waiter:?} is not granted: {other:?}"),
        }
    }

    #[track_caller]
    fn refuses(&mut self, waiter: WaiterId, refusal: Refusal) {
        self.says(Command::Refuse { waiter, refusal });
    }

    #[track_caller]
    fn loses(&mut self, hold: HoldId, reason: LostReason) {
        self.says(Command::Ended { hold, how: HoldEnd::Lost(reason) });
    }

    /// Starts a story in which `A` has held the lock since second 0.
    fn with_a_holding() -> (Self, LeaseNumber, HoldId) {
        let mut story = Self::begins();
        story.enters(A);
        let lease = story.tries();
        let hold = story.granted(lease);
        story.grants(A);
        (story, lease, hold)
    }

    /// Starts a story in which `A` waits for a lock that another process holds with a lease of 20 s, and subscribes.
    fn with_a_waiting() -> (Self, LeaseNumber) {
        let mut story = Self::begins();
        story.enters(A);
        let lease = story.tries();
        story.busy(lease, Duration::from_secs(20));
        story.says(Command::Watch);
        (story, lease)
    }

    #[track_caller]
    fn ends_idle(&self) {
        assert!(self.machine.is_drained(), "something is left: {:#?}", self.machine);
    }
}
/// Each is moved several times for every step of every lock, so the size affects the hot path.
#[test]
fn events_and_commands_stay_small() {
    let sizes = [size_of::<Terms>(), size_of::<Entry>(), size_of::<Event>(), size_of::<Command>()];
    let most = [8, 72, 80, 136];
    assert!(sizes.into_iter().zip(most).all(|(size, most)| size <= most), "{sizes:?}, at most {most:?}");
}

/// The driver allocates a machine for each acquire of a free lock and frees it with the release. glibc keeps freed
/// blocks of up to 1,032 bytes for the thread's next request, and the driver's part of the block takes 248 of them.
#[test]
fn machine_fits_a_block_that_the_allocator_keeps() {
    let size = size_of::<Machine>();
    assert!(size <= 784, "{size}");
}
