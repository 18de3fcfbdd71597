//! A Redis node and the store rules vote, extend and heal identically, over random sequences of operations.

use super::super::support::{long, name, redis};
use crate::client::RedisBackend;
use lock_core::{
    FencingToken, LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Backend, BackendExt as _, Inspected, LeaseId, LeaseNumber,
        NotifyWaiters, ProcessId, ReleaseRequest, Released,
    },
    clock::UtcTime,
    model::Slot,
};
use lock_quorum::{
    Extended, Extension, Freed, Healed, Healing, NodeReply, Proposal, QuorumNode, Vote, model,
};
use lock_testkit::{RedisServer, Seed, Stream};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The number of steps in a long run; otherwise a twentieth of it.
const STEPS: u64 = 100_000;
const NAMES: u64 = 3;
const LEASES: u64 = 2;
/// Redis counts an expiry from the start of a script, the rules from the `TIME` that it read.
const BLUR: Duration = Duration::from_millis(50);
const ROUNDING: Duration = Duration::from_millis(3);
const RETENTION: Duration = Duration::from_secs(60 * 60);
/// The number of kinds of answers.
const KINDS: usize = 17;

struct Run {
    server: RedisServer,
    node: RedisBackend,
    model: HashMap<LockName, Slot>,
    random: Stream,
    names: Vec<LockName>,
    leases: Vec<LeaseId>,
    /// The counters according to the last answers.
    counters: HashMap<LockName, u64>,
    last: Option<Proposal>,
    /// The time since which the node has kept its data, according to its answers.
    since: Option<u64>,
    longest: Duration,
    seen: HashMap<&'static str, u64>,
}

impl Run {
    async fn begin(seed: Seed) -> Self {
        let (server, mut random, process) = (RedisServer::start(), seed.stream(), ProcessId::random());
        let node = redis(&server.url()).await;
        Self {
            node,
            server,
            model: HashMap::new(),
            names: (0..NAMES).map(|which| name(&format!("same:{which}"))).collect(),
            leases: (0..LEASES).map(|_| LeaseId::new(process, LeaseNumber::new(random.number()))).collect(),
            random,
            counters: HashMap::new(),
            last: None,
            since: None,
            longest: Duration::ZERO,
            seen: HashMap::new(),
        }
    }

    fn pick<T: Clone>(&mut self, of: fn(&Self) -> &Vec<T>) -> T {
        let at = self.random.below(u64::try_from(of(self).len()).unwrap());
        of(self)[usize::try_from(at).unwrap()].clone()
    }

    fn now(&self) -> UtcTime {
        self.node.server_now(&self.names[0]).expect("the server answered")
    }

    /// Mostly long, occasionally one that ends before the sequence does.
    fn duration(&mut self) -> Duration {
        let millis = if self.random.chance(0.1) {
            5 + self.random.below(30)
        } else {
            20_000 + self.random.below(40_000)
        };
        Duration::from_millis(millis)
    }

    /// Occasionally already over.
    fn not_after(&mut self) -> UtcTime {
        match self.random.chance(0.1) {
            true => UtcTime::from_micros(self.now().as_micros() - 1_000_000),
            false => self.now() + Duration::from_secs(10),
        }
    }

    fn retention(&mut self) -> Retention {
        match self.random.below(4) {
            0 => Retention::Forever,
            1 => Retention::For(2 * RETENTION),
            _ => Retention::Backend,
        }
    }

    fn slot(&mut self, name: &LockName) -> &mut Slot {
        self.model.entry(name.clone()).or_default()
    }

    /// Waits until no lease of the name is about to end.
    async fn away_from_the_end(&mut self, name: &LockName) {
        loop {
            let now = UtcTime::from_micros(self.now().as_micros() - 3_000);
            let Some((.., remaining)) = self.slot(name).clone().inspect(now) else { return };
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
        let (name, lease) = (self.pick(|run| &run.names), self.pick(|run| &run.leases));
        self.away_from_the_end(&name).await;
        let sent = Instant::now();
        match self.random.below(20) {
            0..=7 => self.propose(name, lease).await,
            8..=10 => self.extend(name, lease).await,
            11..=13 => self.heal(name, lease).await,
            14 => self.acquire(name, lease).await,
            15..=18 => self.release(name, lease).await,
            _ => self.lose_the_marker().await,
        }
        self.longest = self.longest.max(sent.elapsed());
    }

    fn proposal(&mut self, name: LockName, lease: LeaseId) -> Proposal {
        if self.random.chance(0.1)
            && let Some(last) = self.last.clone()
        {
            return last;
        }
        let now = self.now().as_micros();
        let counter = self.counters.get(&name).copied().unwrap_or(now);
        let around = match self.random.below(4) {
            0 => counter,
            1 => counter.max(now) + self.random.below(2_000_000),
            2 => now - 2_000_000 + self.random.below(4_000_000),
            _ => now,
        };
        let floor = self.random.chance(0.05).then(|| FencingToken::new(now + self.random.below(2_000_000)));
        let token = around.max(floor.map_or(0, FencingToken::get)) + self.random.below(3);
        let last = token + self.random.below(20);
        // Around the age, if it is known.
        let age = now - self.since.unwrap_or(now);
        let min_age = match self.random.below(10) {
            0 => age + self.random.below(2_000_000),
            1..=4 => 0,
            _ => age / 2,
        };
        Proposal {
            name,
            lease,
            duration: self.duration(),
            not_after: self.not_after(),
            token: FencingToken::new(token),
            last: FencingToken::new(last),
            floor,
            min_age: Duration::from_micros(min_age),
            retention: self.retention(),
        }
    }

    async fn propose(&mut self, name: LockName, lease: LeaseId) {
        let proposal = self.proposal(name, lease);
        self.away_from_the_end(&proposal.name.clone()).await;
        self.last = Some(proposal.clone());
        let sent = Instant::now();
        let reply = self.node.propose(proposal.clone()).await.unwrap();
        let age = self.age_at(&reply, proposal.min_age);
        let retention = proposal.retention.unless(Some(RETENTION));
        let expected = model::propose(self.slot(&proposal.name), reply.now, age, &proposal, retention);
        self.count(match &expected {
            Vote::Granted => "granted",
            Vote::Busy { .. } => "busy",
            Vote::Stale { .. } => "stale",
            Vote::ClockOff => "clock",
            Vote::Quarantined => "quarantined",
            Vote::Late => "late",
        });
        if let Vote::Busy { counter, .. } | Vote::Stale { counter } = &expected {
            self.counters.insert(proposal.name.clone(), *counter);
        }
        match (reply.outcome, expected) {
            (
                Vote::Busy { holder, remaining: Some(redis), counter },
                Vote::Busy { holder: expected, remaining: Some(rules), counter: last },
            ) => {
                assert_eq!((holder, counter), (expected, last));
                let most = ROUNDING + self.longest + sent.elapsed();
                assert!(redis.abs_diff(rules) <= most, "{redis:?} is not {rules:?}, within {most:?}");
            }
            (vote, expected) => assert_eq!(vote, expected, "{proposal:?}"),
        }
    }

    /// Returns the age of the node at the time of a vote. A vote may report the least age in its place, which is then
    /// known from earlier replies. A node that need not be of any age does not look.
    fn age_at(&mut self, reply: &NodeReply<Vote>, least: Duration) -> Duration {
        let is_least = (reply.age == least && reply.outcome == Vote::Granted) || least.is_zero();
        if !is_least {
            self.is_of_age(reply);
        }
        let of_run = |since: u64| Duration::from_micros(reply.now.as_micros() - since);
        self.since.map_or(Duration::ZERO, of_run)
    }

    /// Asserts that the reported age is consistent with earlier replies.
    fn is_of_age<T>(&mut self, reply: &NodeReply<T>) {
        let since = reply.now.as_micros() - u64::try_from(reply.age.as_micros()).unwrap();
        assert_eq!(*self.since.get_or_insert(since), since, "since then it has kept its data");
    }

    async fn extend(&mut self, name: LockName, lease: LeaseId) {
        let other = self.pick(|run| &run.names);
        self.away_from_the_end(&other).await;
        self.away_from_the_end(&name).await;
        let mut items = Vec::new();
        for name in [name, other] {
            let (duration, not_after) = (self.duration(), self.not_after());
            let depth = self.random.chance(0.3).then(|| 1 + u32::try_from(self.random.below(4)).unwrap());
            items.push(Extension { name, lease, duration, not_after, depth });
        }
        let replies = self.node.extend(items.clone()).await;
        assert_eq!(replies.len(), items.len());
        for (item, reply) in items.iter().zip(replies) {
            let reply = reply.unwrap();
            self.is_of_age(&reply);
            let expected = model::extend(self.slot(&item.name), reply.now, item);
            assert_eq!(reply.outcome, expected, "{item:?}");
            self.count(match expected {
                Extended::Extended => "extended",
                Extended::Gone => "gone",
                Extended::Late => "extended late",
            });
        }
    }

    async fn heal(&mut self, name: LockName, lease: LeaseId) {
        let last = self.now().as_micros() - 1_000_000 + self.random.below(1_000_000);
        let healing = Healing {
            name,
            lease,
            duration: self.duration(),
            not_after: self.not_after(),
            depth: 1 + u32::try_from(self.random.below(4)).unwrap(),
            last: FencingToken::new(last),
            retention: self.retention(),
        };
        let reply = self.node.heal(healing.clone()).await.unwrap();
        self.is_of_age(&reply);
        let retention = healing.retention.unless(Some(RETENTION));
        let expected = model::heal(self.slot(&healing.name), reply.now, &healing, retention);
        assert_eq!(reply.outcome, expected, "{healing:?}");
        self.count(match expected {
            Healed::Set => "healed",
            Healed::Busy => "not healed",
            Healed::Late => "healed late",
        });
    }

    /// Operations of a single store also work on a node.
    async fn acquire(&mut self, name: LockName, lease: LeaseId) {
        let (duration, not_after, retention) = (self.duration(), self.not_after(), self.retention());
        let mode = AcquireMode::New { reserve: 7, floor: None };
        let request =
            AcquireRequest { name: name.clone(), lease, duration, not_after, mode: mode.clone(), retention };
        let reply = self.node.acquire(request).await.unwrap();
        let retention = retention.unless(Some(RETENTION));
        let expected = self.slot(&name).acquire(reply.now, lease, duration, not_after, mode, retention);
        if let Acquired::Busy { .. } = expected {
            assert!(matches!(reply.outcome, Acquired::Busy { .. }), "{:?}", reply.outcome);
            return;
        }
        assert_eq!(reply.outcome, expected);
        self.count("acquired");
    }

    async fn release(&mut self, name: LockName, lease: LeaseId) {
        let depth_left = u32::try_from(self.random.below(5)).unwrap() / 4;
        let request = ReleaseRequest { name: name.clone(), lease, depth_left, notify: NotifyWaiters::No };
        let (now, outcome) = if depth_left == 0 && self.random.chance(0.5) {
            let Freed { now, outcome } = self.node.free(request).await.unwrap();
            let is_found = matches!(outcome, Released::Released { .. });
            assert_eq!(now.is_none(), is_found, "the time is left out if the lease was there");
            self.count(if is_found { "freed" } else { "nothing to free" });
            (now.unwrap_or_else(|| self.now()), outcome)
        } else {
            let reply = self.node.release(request).await.unwrap();
            self.count("released");
            (reply.now, reply.outcome)
        };
        let expected = self.slot(&name).release(now, lease, depth_left);
        assert_eq!(outcome, expected);
        let inspected = self.node.inspect(name.clone()).await.unwrap();
        let held = self.slot(&name).inspect(inspected.now);
        let stored = match inspected.outcome {
            Inspected::Held(held) => Some((held.lease, held.depth)),
            _ => None,
        };
        assert_eq!(stored, held.map(|(lease, depth, _)| (lease.to_string(), depth)));
    }

    async fn lose_the_marker(&mut self) {
        if self.random.chance(0.05) {
            self.server.command(&["DEL", "distlock:node"]);
            self.since = None;
            self.count("marker lost");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_of_a_node_are_answered_as_the_store_rules_say() {
    let steps = if long() { STEPS } else { STEPS / 20 };
    let mut run = Run::begin(Seed::of_this_run()).await;
    for _ in 0..steps {
        run.step().await;
    }
    assert!(run.seen.len() >= KINDS, "every kind of answer came: {:?}", run.seen);
    assert!(run.seen.values().all(|&times| times >= steps / 2_000), "and not by chance: {:?}", run.seen);
}
