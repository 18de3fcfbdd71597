//! Redis and the store rules give the same answers, over random sequences of operations.

use super::support::{client, long, name};
use futures_util::future::join_all;
use lock_core::{
    FencingToken, LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Backend, BackendExt as _, Floor, ForceReleaseRequest,
        ForceReleased, Inspected, LeaseId, LeaseNumber, NotifyWaiters, ProcessId, ReleaseRequest, Released,
        RenewRequest, Renewed, Reply, StoredHold,
    },
    clock::UtcTime,
    model::Slot,
};
use lock_testkit::{RedisServer, Seed, Stream, contender::Contender};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

const SEQUENCES: u64 = 10;
/// The number of steps in a long run; otherwise half of it.
const STEPS: u64 = 10_000;
const NAMES: u64 = 3;
const LEASES: u64 = 4;
/// Redis counts an expiry from the start of a script, the rules from the `TIME` that it read. If the server waits for
/// its core in between, a lease ends a little early. Nothing is compared that close to an end.
const BLUR: Duration = Duration::from_millis(50);
/// Redis counts in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(3);
struct Run {
    store: Arc<dyn Backend>,
    model: HashMap<LockName, Slot>,
    /// The longest round trip of an operation that may have set the expiry of a name.
    round_trips: HashMap<LockName, Duration>,
    random: Stream,
    names: Vec<LockName>,
    leases: Vec<LeaseId>,
    seen: HashMap<&'static str, u64>,
}

impl Run {
    async fn of(server: &RedisServer, number: u64, seed: Seed) -> Self {
        let mut random = seed.stream();
        let process = ProcessId::random();
        Self {
            store: client(&server.url()).await,
            model: HashMap::new(),
            round_trips: HashMap::new(),
            leases: (0..LEASES).map(|_| LeaseId::new(process, LeaseNumber::new(random.number()))).collect(),
            names: (0..NAMES).map(|which| name(&format!("same:{number}:{which}"))).collect(),
            random,
            seen: HashMap::new(),
        }
    }

    fn name(&mut self) -> LockName {
        let at = self.random.below(NAMES);
        self.names[usize::try_from(at).unwrap()].clone()
    }

    fn lease(&mut self) -> LeaseId {
        let at = self.random.below(LEASES);
        self.leases[usize::try_from(at).unwrap()]
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
        self.store.server_now(&name("any")).expect("the server answered")
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

    async fn step(&mut self) {
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
            0 => AcquireMode::Reenter { depth: 2 + u32::try_from(self.random.below(3)).unwrap() },
            n => AcquireMode::New { reserve: u32::try_from((n - 1) * 7).unwrap(), floor: self.floor() },
        }
    }

    async fn acquire(&mut self, name: LockName, lease: LeaseId) {
        let (mode, retention) = (self.mode(), self.retention());
        let (duration, not_after) = (self.duration(), self.not_after());
        let request = AcquireRequest { name: name.clone(), lease, duration, not_after, mode, retention };
        let sent = Instant::now();
        let reply = self.store.acquire(request.clone()).await.unwrap();
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
            self.is_renewed(item, &reply.unwrap());
        }
    }

    fn is_renewed(&mut self, item: &RenewRequest, reply: &Reply<Renewed>) {
        let expected = self.slot(&item.name).renew(reply.now, item.lease, item.duration, item.not_after);
        assert_eq!(reply.outcome, expected);
        self.count(if expected == Renewed::Renewed { "renewed" } else { "not renewed" });
    }

    async fn release(&mut self, name: LockName, lease: LeaseId) {
        let depth_left = u32::try_from(self.random.below(3)).unwrap();
        let request = ReleaseRequest { name, lease, depth_left, notify: NotifyWaiters::No };
        let reply = self.store.release(request.clone()).await.unwrap();
        self.is_released(&request, &reply);
    }

    fn is_released(&mut self, request: &ReleaseRequest, reply: &Reply<Released>) {
        let expected = self.slot(&request.name).release(reply.now, request.lease, request.depth_left);
        assert_eq!(reply.outcome, expected);
        self.count(if matches!(expected, Released::Gone { .. }) { "nothing to release" } else { "released" });
    }

    async fn inspect(&mut self, name: LockName) {
        let sent = Instant::now();
        let reply = self.store.inspect(name.clone()).await.unwrap();
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

    /// Asserts that a lease lasts as long in Redis as under the rules. They may differ by the time between the `TIME`
    /// of a script and the setting or reading of the expiry. If the server waits for its core there, the difference is
    /// still below the round trip.
    fn lasts_as_long(&self, name: &LockName, redis: Duration, rules: Duration, read_in: Duration) {
        let set_in = self.round_trips.get(name).copied().unwrap_or_default();
        let most = ROUNDING + set_in + read_in;
        assert!(
            redis.abs_diff(rules) <= most,
            "{redis:?}, but {rules:?} by the rules; they may differ by {most:?}"
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
            .unwrap();
        let expected = self.slot(&name).force_release(reply.now, &seen);
        assert_eq!(reply.outcome, expected);
        self.count(if expected == ForceReleased::Released { "forced" } else { "not forced" });
    }
}

/// The number of batches in a long run; otherwise a twentieth of it.
const BATCHES: u64 = 10_000;

/// An operation of a batch.
enum Asked {
    Acquire(AcquireRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

/// The answer to it.
enum Answer {
    Acquired(Reply<Acquired>),
    Renewed(Reply<Renewed>),
    Released(Reply<Released>),
}

impl Asked {
    async fn ask(&self, store: &dyn Backend) -> Answer {
        match self {
            Self::Acquire(request) => Answer::Acquired(store.acquire(request.clone()).await.unwrap()),
            Self::Renew(request) => {
                Answer::Renewed(store.renew(vec![request.clone()]).await.remove(0).unwrap())
            }
            Self::Release(request) => Answer::Released(store.release(request.clone()).await.unwrap()),
        }
    }

    fn name(&self) -> &LockName {
        match self {
            Self::Acquire(AcquireRequest { name, .. })
            | Self::Renew(RenewRequest { name, .. })
            | Self::Release(ReleaseRequest { name, .. }) => name,
        }
    }
}

impl Run {
    /// Loads the scripts into the server. Otherwise a text that is sent after its hash was refused could be overtaken
    /// by the next call.
    async fn load_scripts(&self) {
        let warm = Contender::new(&self.store);
        let name = name("warm");
        warm.take(&name, Duration::from_secs(60)).await;
        warm.keep(&name, 2, Duration::from_secs(60)).await;
        for renewals in [1, 3] {
            self.store.renew(vec![warm.renewal(&name, Duration::from_secs(60)); renewals]).await;
        }
        warm.free(&name).await;
    }

    /// Sends operations together, on few names. No lease ends here.
    async fn batch(&mut self) {
        let mut asked = Vec::new();
        for _ in 0..2 + self.random.below(40) {
            let (name, lease, not_after) = (self.name(), self.lease(), self.not_after());
            let duration = Duration::from_millis(20_000 + self.random.below(40_000));
            asked.push(match self.random.below(8) {
                0..=3 => {
                    let (mode, retention) = (self.mode(), self.retention());
                    Asked::Acquire(AcquireRequest { name, lease, duration, not_after, mode, retention })
                }
                4..=5 => Asked::Renew(RenewRequest { name, lease, duration, not_after }),
                _ => {
                    let depth_left = u32::try_from(self.random.below(3)).unwrap();
                    Asked::Release(ReleaseRequest { name, lease, depth_left, notify: NotifyWaiters::No })
                }
            });
        }
        let (store, sent) = (self.store.clone(), Instant::now());
        let answers = join_all(asked.iter().map(|asked| asked.ask(&*store))).await;
        for asked in &asked {
            self.took(asked.name(), sent);
        }
        // One connection executes them in order.
        for (asked, answer) in asked.into_iter().zip(answers) {
            match (asked, answer) {
                (Asked::Acquire(request), Answer::Acquired(reply)) => {
                    self.is_acquired(request, reply, sent.elapsed());
                }
                (Asked::Renew(request), Answer::Renewed(reply)) => self.is_renewed(&request, &reply),
                (Asked::Release(request), Answer::Released(reply)) => self.is_released(&request, &reply),
                _ => panic!("an answer of another kind"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_batches_are_answered_as_the_store_rules_say() {
    let (server, seed) = (RedisServer::start(), Seed::of_this_run());
    let mut run = Run::of(&server, 0, seed).await;
    run.load_scripts().await;
    let batches = if long() { BATCHES } else { BATCHES / 20 };
    for _ in 0..batches {
        run.batch().await;
    }
    assert!(run.seen.len() >= 9, "some kinds of answers are missing: {:?}", run.seen);
    assert!(
        run.seen.values().all(|&times| times >= batches / 50),
        "some kinds of answers are too rare: {:?}",
        run.seen
    );
}

/// Runs several sequences at once, since they mostly wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_are_answered_as_the_store_rules_say() {
    let (server, seed) = (Arc::new(RedisServer::start()), Seed::of_this_run());
    let sequences: Vec<_> = (0..SEQUENCES)
        .map(|number| tokio::spawn(sequence(server.clone(), number, Seed::new(seed.get() ^ number))))
        .collect();
    for sequence in sequences {
        sequence.await.unwrap();
    }
}

async fn sequence(server: Arc<RedisServer>, number: u64, seed: Seed) {
    let mut run = Run::of(&server, number, seed).await;
    let steps = if long() { STEPS } else { STEPS / 2 };
    for _ in 0..steps {
        run.step().await;
    }
    assert!(run.seen.len() >= 11, "some kinds of answers are missing: {:?}", run.seen);
    assert!(
        run.seen.values().all(|&times| times >= steps / 500),
        "some kinds of answers are too rare: {:?}",
        run.seen
    );
}
