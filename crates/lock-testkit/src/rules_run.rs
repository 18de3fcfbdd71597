//! Random operations on a store, whose answers are compared with the store rules.

use crate::{Seed, Stream};
use lock_core::{
    __private::Slot,
    FencingToken, LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Backend, BackendExt as _, Floor, ForceReleaseRequest,
        ForceReleased, Inspected, LeaseId, LeaseNumber, NotifyWaiters, Operation, Outcome, ProcessId,
        ReleaseRequest, Released, RenewRequest, Renewed, Reply, StoredHold, Submission,
    },
    clock::UtcTime,
};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

const NAMES: u64 = 3;
const LEASES: u64 = 4;

/// A store may count an expiry from the start of an operation, the rules from the time that it read. If the server waits
/// for its core in between, a lease ends a little early. Nothing is compared that close to an end.
const BLUR: Duration = Duration::from_millis(50);

/// Stores count in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(3);

/// A run of random operations on a few names of a store, each of whose answers must be that of the store rules. The names
/// must have no other users, and the store's default retention must be at least an hour.
///
/// A difference panics.
#[derive(Debug)]
pub struct RulesRun {
    store: Arc<dyn Backend>,
    model: HashMap<LockName, Slot>,
    /// The longest round trip of an operation that may have set the expiry of a name.
    round_trips: HashMap<LockName, Duration>,
    random: Stream,
    names: Vec<LockName>,
    leases: Vec<LeaseId>,
    seen: HashMap<&'static str, u64>,
}

impl RulesRun {
    /// Begins a run. Runs at the same time on one store need different seeds.
    #[must_use]
    pub fn new(store: Arc<dyn Backend>, seed: Seed) -> Self {
        let mut random = seed.stream();
        let process = ProcessId::random();
        let name = |which| LockName::new(format!("same:{process}:{which}")).expect("valid name");
        Self {
            store,
            model: HashMap::new(),
            round_trips: HashMap::new(),
            leases: (0..LEASES).map(|_| LeaseId::new(process, LeaseNumber::new(random.number()))).collect(),
            names: (0..NAMES).map(name).collect(),
            random,
            seen: HashMap::new(),
        }
    }

    fn name(&mut self) -> LockName {
        let at = self.random.below(NAMES);
        self.names[usize::try_from(at).expect("a small number")].clone()
    }

    fn lease(&mut self) -> LeaseId {
        let at = self.random.below(LEASES);
        self.leases[usize::try_from(at).expect("a small number")]
    }

    /// Usually long, occasionally shorter than the sequence.
    fn duration(&mut self) -> Duration {
        let millis = if self.random.chance(0.2) {
            5 + self.random.below(30)
        } else {
            10_000 + self.random.below(50_000)
        };
        Duration::from_millis(millis)
    }

    fn server_now(&self) -> UtcTime {
        self.store.server_now(&self.names[0]).expect("the server answered")
    }

    /// Occasionally already in the past.
    fn not_after(&mut self) -> UtcTime {
        let now = self.server_now();
        if self.random.chance(0.1) {
            UtcTime::from_micros(now.as_micros() - 1_000_000)
        } else {
            now + Duration::from_secs(10)
        }
    }

    /// Occasionally a floor near the clock, usually a little ahead of it.
    fn floor(&mut self) -> Floor {
        let around = self.server_now().as_micros() - 2_000 + self.random.below(10_000);
        self.random.chance(0.1).then(|| FencingToken::new(around))
    }

    /// Long retentions, so that no counter expires here.
    fn retention(&mut self) -> Retention {
        match self.random.below(4) {
            0 => Retention::Forever,
            1 => Retention::For(Duration::from_secs(2 * 60 * 60)),
            _ => Retention::Backend,
        }
    }

    fn slot(&mut self, name: &LockName) -> &mut Slot {
        self.model.entry(name.clone()).or_default()
    }

    /// Waits until no lease of the name is about to end.
    async fn away_from_the_end(&mut self, name: &LockName) {
        loop {
            let now = self.server_now();
            let mut slot = self.slot(name).clone();
            let Some((.., remaining)) = slot.inspect(UtcTime::from_micros(now.as_micros() - 3_000)) else {
                return;
            };
            if remaining > 3 * BLUR {
                return;
            }
            tokio::time::sleep(remaining + 2 * BLUR).await;
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Sends an operation, and compares the answer.
    ///
    /// # Panics
    /// Panics if the answer differs from that of the rules, or if the store fails.
    pub async fn step(&mut self) {
        let name = self.name();
        let lease = self.lease();
        self.away_from_the_end(&name).await;
        match self.random.below(10) {
            0..=3 => self.acquire(name, lease).await,
            4..=5 => self.renew(name, lease).await,
            6..=7 => self.release(name, lease).await,
            8 => self.inspect(name).await,
            _ => self.force(name, lease).await,
        }
    }

    fn mode(&mut self) -> AcquireMode {
        match self.random.below(4) {
            0 => AcquireMode::Reenter {
                depth: 2 + u32::try_from(self.random.below(3)).expect("a small number"),
            },
            n => AcquireMode::New {
                reserve: u32::try_from((n - 1) * 7).expect("a small number"),
                floor: self.floor(),
            },
        }
    }

    async fn acquire(&mut self, name: LockName, lease: LeaseId) {
        let (mode, retention) = (self.mode(), self.retention());
        let (duration, not_after) = (self.duration(), self.not_after());
        let request = AcquireRequest { name: name.clone(), lease, duration, not_after, mode, retention };
        let sent = Instant::now();
        let reply = self.store.acquire(request.clone()).await.expect("the store answers");
        let took = self.took(&name, sent);
        self.is_acquired(request, reply, took);
    }

    fn is_acquired(&mut self, request: AcquireRequest, reply: Reply<Acquired>, took: Duration) {
        let AcquireRequest { name, lease, duration, not_after, mode, retention } = request;
        let retention = retention.unless(Some(Duration::from_secs(60 * 60)));
        let expected = self.slot(&name).acquire(reply.now, lease, duration, not_after, mode, retention);
        self.count(match &expected {
            Acquired::Granted { .. } => "granted",
            Acquired::Reentered => "re-entered",
            Acquired::Busy { .. } => "busy",
            Acquired::Gone => "gone",
            _ => "late",
        });
        match (reply.outcome, expected) {
            (Acquired::Busy { remaining: Some(a), .. }, Acquired::Busy { remaining: Some(b), .. }) => {
                self.lasts_as_long(&name, a, b, took);
            }
            (answer, expected) => assert_eq!(answer, expected),
        }
    }

    async fn renew(&mut self, name: LockName, lease: LeaseId) {
        let other = self.name();
        self.away_from_the_end(&other).await;
        self.away_from_the_end(&name).await;
        let mut items = Vec::new();
        for name in [name, other] {
            let (duration, not_after) = (self.duration(), self.not_after());
            items.push(RenewRequest { name, lease, duration, not_after });
        }
        let sent = Instant::now();
        let replies = self.store.renew(items.clone()).await;
        for item in &items {
            self.took(&item.name, sent);
        }
        for (item, reply) in items.iter().zip(replies) {
            self.is_renewed(item, &reply.expect("the store answers"));
        }
    }

    fn is_renewed(&mut self, item: &RenewRequest, reply: &Reply<Renewed>) {
        let expected = self.slot(&item.name).renew(reply.now, item.lease, item.duration, item.not_after);
        assert_eq!(reply.outcome, expected);
        self.count(if expected == Renewed::Renewed { "renewed" } else { "not renewed" });
    }

    async fn release(&mut self, name: LockName, lease: LeaseId) {
        let depth_left = u32::try_from(self.random.below(3)).expect("a small number");
        let request = ReleaseRequest { name, lease, depth_left, notify: NotifyWaiters::No };
        let reply = self.store.release(request.clone()).await.expect("the store answers");
        self.is_released(&request, &reply);
    }

    fn is_released(&mut self, request: &ReleaseRequest, reply: &Reply<Released>) {
        let expected = self.slot(&request.name).release(reply.now, request.lease, request.depth_left);
        let answer = match reply.outcome {
            // The rules count nobody.
            Released::Released { .. } => Released::Released { listeners: None },
            other => other,
        };
        assert_eq!(answer, expected);
        self.count(if matches!(expected, Released::Gone { .. }) { "nothing to release" } else { "released" });
    }

    async fn inspect(&mut self, name: LockName) {
        let sent = Instant::now();
        let reply = self.store.inspect(name.clone()).await.expect("the store answers");
        let expected = self.slot(&name).inspect(reply.now);
        match (reply.outcome, expected) {
            (Inspected::Free, None) => {}
            (Inspected::Held(StoredHold { lease, depth, remaining: Some(a), .. }), Some((holder, d, b))) => {
                assert_eq!((lease, depth), (holder.to_string(), d));
                self.lasts_as_long(&name, a, b, sent.elapsed());
            }
            (answer, expected) => panic!("{answer:?} instead of {expected:?}"),
        }
    }

    /// Records a round trip that may have set the expiry of the name.
    fn took(&mut self, name: &LockName, sent: Instant) -> Duration {
        let took = sent.elapsed();
        let longest = self.round_trips.entry(name.clone()).or_default();
        *longest = took.max(*longest);
        took
    }

    /// Asserts that a lease lasts as long in the store as under the rules. They may differ by the time between the reading
    /// of the clock and that of the expiry. If the server waits for its core there, the difference is
    /// still below the round trip.
    fn lasts_as_long(&self, name: &LockName, stored: Duration, rules: Duration, read_in: Duration) {
        let set_in = self.round_trips.get(name).copied().unwrap_or_default();
        let most = ROUNDING + set_in + read_in;
        assert!(
            stored.abs_diff(rules) <= most,
            "{stored:?}, but {rules:?} by the rules; they may differ by {most:?}"
        );
    }

    async fn force(&mut self, name: LockName, lease: LeaseId) {
        if !self.random.chance(0.3) {
            return;
        }
        let seen = lease.to_string();
        let reply = self
            .store
            .force_release(ForceReleaseRequest { name: name.clone(), seen: seen.clone() })
            .await
            .expect("the store answers");
        let expected = self.slot(&name).force_release(reply.now, &seen);
        assert_eq!(reply.outcome, expected);
        self.count(if expected == ForceReleased::Released { "forced" } else { "not forced" });
    }

    /// Returns the number of answers of each kind.
    #[must_use]
    pub fn seen(&self) -> &HashMap<&'static str, u64> {
        &self.seen
    }

    /// Sends up to 41 operations together, which the store must execute in their order, and compares the answers. No lease
    /// ends here.
    ///
    /// # Panics
    /// Panics if an answer differs from that of the rules, or if the store fails.
    pub async fn batch(&mut self) {
        let operations: Vec<_> = (0..2 + self.random.below(40)).map(|_| self.operation()).collect();
        let sent = Instant::now();
        let submit = |operation: &Operation| {
            let (submission, answer) = Submission::channel(operation.clone());
            self.store.submit(submission);
            answer
        };
        let answers: Vec<_> = operations.iter().map(submit).collect();
        let mut replies = Vec::new();
        for answer in answers {
            replies.push(answer.await.expect("the store answers"));
        }
        for operation in &operations {
            self.took(operation.name(), sent);
        }
        for (operation, Reply { now, outcome, .. }) in operations.into_iter().zip(replies) {
            match (operation, outcome) {
                (Operation::Acquire(request), Outcome::Acquired(outcome)) => {
                    self.is_acquired(request, Reply::new(now, outcome), sent.elapsed());
                }
                (Operation::Renew(request), Outcome::Renewed(outcome)) => {
                    self.is_renewed(&request, &Reply::new(now, outcome));
                }
                (Operation::Release(request), Outcome::Released(outcome)) => {
                    self.is_released(&request, &Reply::new(now, outcome));
                }
                _ => panic!("an answer of another kind"),
            }
        }
    }

    fn operation(&mut self) -> Operation {
        let (name, lease, not_after) = (self.name(), self.lease(), self.not_after());
        let duration = Duration::from_millis(20_000 + self.random.below(40_000));
        match self.random.below(8) {
            0..=3 => {
                let (mode, retention) = (self.mode(), self.retention());
                Operation::Acquire(AcquireRequest { name, lease, duration, not_after, mode, retention })
            }
            4..=5 => Operation::Renew(RenewRequest { name, lease, duration, not_after }),
            _ => {
                let depth_left = u32::try_from(self.random.below(3)).expect("a small number");
                Operation::Release(ReleaseRequest { name, lease, depth_left, notify: NotifyWaiters::No })
            }
        }
    }
}
