//! Random operations on a pool, whose answers are compared with the rules of pools.

use crate::{Seed, Stream};
use lock_core::{
    __private::{Pool, semaphore_name},
    LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Backend, Inspected, LeaseId, LeaseNumber, NotifyWaiters,
        Operation, Outcome, PermitRequest, Place, ProcessId, ReleaseRequest, Released, RenewRequest, Share,
        StoredPool, Submission,
    },
    clock::UtcTime,
};
use std::{collections::HashMap, sync::Arc, time::Duration};

const NAMES: u64 = 2;
const LEASES: u64 = 8;

/// The largest difference between the remaining times of a store and of the rules: the round trips of the operations.
const BLUR: Duration = Duration::from_secs(5);

/// A run of random operations on a few pools of a store, each of whose answers must be that of the rules. No lease ends
/// in it: the conformance suite tests ends. A difference panics.
#[derive(Debug)]
pub struct PermitRun {
    store: Arc<dyn Backend>,
    model: HashMap<LockName, Pool>,
    random: Stream,
    names: Vec<LockName>,
    leases: Vec<LeaseId>,
    seen: HashMap<&'static str, u64>,
}

impl PermitRun {
    /// Begins a run.
    #[must_use]
    pub fn new(store: Arc<dyn Backend>, seed: Seed) -> Self {
        let mut random = seed.stream();
        let process = ProcessId::random();
        let name = |which| {
            let name = LockName::new(format!("permits:{process}:{which}")).expect("a valid name");
            semaphore_name(&name).expect("a short name")
        };
        Self {
            store,
            model: HashMap::new(),
            leases: (0..LEASES).map(|_| LeaseId::new(process, LeaseNumber::new(random.number()))).collect(),
            names: (0..NAMES).map(name).collect(),
            random,
            seen: HashMap::new(),
        }
    }

    fn small(&mut self, bound: u64) -> u32 {
        u32::try_from(self.random.below(bound)).expect("a small number")
    }

    fn lease(&mut self) -> LeaseId {
        let at = self.random.below(LEASES);
        self.leases[usize::try_from(at).expect("a small number")]
    }

    fn operation(&mut self) -> Operation {
        let at = self.random.below(NAMES);
        let name = self.names[usize::try_from(at).expect("a small number")].clone();
        let lease = self.lease();
        let duration = Duration::from_millis(60_000 + self.random.below(60_000));
        let now = self.store.server_now(&name).expect("the server answered");
        let not_after = match self.random.chance(0.1) {
            true => UtcTime::from_micros(now.as_micros() - 1_000_000),
            false => now + Duration::from_secs(30),
        };
        match self.random.below(8) {
            0..=3 => {
                let limit = 2 + self.small(5);
                let weight = 1 + self.small(limit.into());
                let id = if self.random.chance(0.8) { lease } else { self.lease() };
                let place = self.random.chance(0.8).then_some(Place { id, patience: duration });
                let share = Share { weight, limit };
                let mode = AcquireMode::Permit(PermitRequest { share, place, floor: None }.into());
                let retention = Retention::Backend;
                Operation::Acquire(AcquireRequest { name, lease, duration, not_after, mode, retention })
            }
            4 => Operation::Renew(RenewRequest { name, lease, duration, not_after }),
            _ => {
                let depth_left = if self.random.chance(0.4) { 1 + self.small(2) } else { 0 };
                let notify = NotifyWaiters::Yes;
                Operation::Release(ReleaseRequest { name, lease, depth_left, notify })
            }
        }
    }

    /// Submits up to this many operations together, which the store must execute in their order, and compares the
    /// answers, and then what is stored.
    ///
    /// # Panics
    /// Panics if an answer differs from that of the rules, or if the store fails.
    pub async fn step(&mut self, most: u64) {
        let operations: Vec<_> = (0..=self.random.below(most)).map(|_| self.operation()).collect();
        let submit = |operation: &Operation| {
            let (submission, answer) = Submission::channel(operation.clone());
            self.store.submit(submission);
            answer
        };
        let answers: Vec<_> = operations.iter().map(submit).collect();
        for (operation, answer) in operations.iter().zip(answers) {
            let reply = answer.await.expect("the store answers");
            let pool = self.model.entry(operation.name().clone()).or_default();
            let before = format!("{pool:?}");
            let expected = pool.execute(reply.now, operation, Some(Duration::from_secs(60 * 60))).outcome;
            *self.seen.entry(kind(&expected)).or_default() += 1;
            assert!(
                is_same(&reply.outcome, &expected),
                "{operation:?}: {:?} instead of {expected:?}, in {before}",
                reply.outcome
            );
        }
        self.look().await;
    }

    /// Compares what is stored.
    async fn look(&mut self) {
        for (name, pool) in &mut self.model {
            let reply = self.store.inspect(name.clone()).await.expect("the store answers");
            let expected = sorted(pool.inspect(reply.now));
            let stored = match reply.outcome {
                Inspected::Pool(stored) => sorted(stored),
                Inspected::Free => StoredPool::default(),
                other => panic!("expected a pool, got {other:?}"),
            };
            let both = [(&stored.holders, &expected.holders), (&stored.waiters, &expected.waiters)];
            for (stored, expected) in both {
                assert_eq!(stored.len(), expected.len(), "{stored:?} instead of {expected:?}");
                for (a, b) in stored.iter().zip(expected) {
                    let is_same = (&a.lease, a.weight) == (&b.lease, b.weight);
                    assert!(is_same && a.remaining.abs_diff(b.remaining) < BLUR, "{a:?} instead of {b:?}");
                }
            }
        }
    }

    /// Returns the number of answers of each kind.
    #[must_use]
    pub fn seen(&self) -> &HashMap<&'static str, u64> {
        &self.seen
    }
}

fn sorted(mut pool: StoredPool) -> StoredPool {
    pool.holders.sort_by(|a, b| a.lease.cmp(&b.lease));
    pool
}

/// Compares replies; remaining times are compared by what is stored.
fn is_same(answer: &Outcome, expected: &Outcome) -> bool {
    match (answer, expected) {
        (
            Outcome::Acquired(Acquired::Queued { remaining: a }),
            Outcome::Acquired(Acquired::Queued { remaining: b }),
        ) => a.is_some() == b.is_some(),
        (Outcome::Acquired(Acquired::Busy { .. }), Outcome::Acquired(Acquired::Busy { .. }))
        | (Outcome::Released(Released::Released { .. }), Outcome::Released(Released::Released { .. })) => {
            true
        }
        _ => answer == expected,
    }
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Acquired(Acquired::Granted { .. }) => "granted",
        Outcome::Acquired(Acquired::Queued { .. }) => "queued",
        Outcome::Acquired(Acquired::Busy { .. }) => "busy",
        Outcome::Acquired(_) => "late",
        Outcome::Renewed(_) => "renewed or not",
        Outcome::Released(Released::Released { .. }) => "released",
        Outcome::Released(Released::Kept) => "lowered",
        Outcome::Released(_) => "nothing to release",
    }
}
