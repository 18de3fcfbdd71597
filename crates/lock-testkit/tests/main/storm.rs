//! Tests of whole factories under random faults, in virtual time. The seed determines the run.
//!
//! During the storm, no two holds are valid at the same time, and tokens increase. Afterwards,
//! every factory can acquire the lock again, and no lease, call or lock entry is left behind.

use crate::planted::BuggyBackend;
use lock_core::{
    Lock, LockError, LockErrorKind, LockFactory, LockGuard, LockName, LockOptions, MemoryBackend, Store,
    backend::Inspected,
    clock::{Clock, TestClock},
};
use lock_testkit::{
    FaultyBackend, History, Op, Seed, Stream,
    planted::{Checker, PlantedBug},
};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::time::{sleep, timeout};

const PROCESSES: usize = 3;
const TASKS: usize = 2;
const ROUNDS: usize = 8;
const RUNS: u64 = 150;
/// Seeds that are tried for a planted bug, of which the rarest is found after some hundreds.
const BUGGY_RUNS: u64 = 2_000;
const LEASE: Duration = Duration::from_secs(3);

/// Runs a storm over memory or over a store with this bug. In virtual time, hours take seconds.
fn run(seed: Seed, bug: Option<PlantedBug>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async move { Storm::new(seed, bug).blow().await });
}

#[test]
fn no_storm_breaks_exclusion_or_leaves_anything_behind() {
    let first = Seed::of_this_run();
    let mut seeds = first.stream();
    run(first, None);
    for _ in 1..RUNS {
        let seed = Seed::new(seeds.number());
        if let Err(panic) = catch_unwind(|| run(seed, None)) {
            eprintln!("repeat this run with {}={seed}", Seed::VARIABLE);
            resume_unwind(panic);
        }
    }
}

/// Checks that the storm detects stores that break the rules.
#[test]
fn a_storm_finds_planted_bugs() {
    for bug in PlantedBug::caught_by_checker(Checker::Storm) {
        let found = (0..BUGGY_RUNS).any(|seed| catch_unwind(|| run(Seed::new(seed), Some(bug))).is_err());
        assert!(found, "{bug:?} was not found");
    }
}

struct Storm {
    seed: Seed,
    store: Store,
    clock: Arc<TestClock>,
    processes: Vec<(FaultyBackend, LockFactory)>,
    history: Arc<History>,
    name: LockName,
}

impl Storm {
    fn new(seed: Seed, bug: Option<PlantedBug>) -> Self {
        let clock = Arc::new(TestClock::new());
        let store: Store = match bug {
            None => MemoryBackend::with_clock(clock.clone()).into(),
            bug => BuggyBackend::new(bug, clock.clone()).into(),
        };
        let processes = (0..PROCESSES).map(|_| {
            let faulty = FaultyBackend::new(store.clone());
            let builder = LockFactory::builder(faulty.clone()).clock(clock.clone());
            (faulty, builder.options(LockOptions::new().lease(LEASE)).build().unwrap())
        });
        let (processes, name) = (processes.collect(), LockName::new("storm").unwrap());
        Self { seed, store, clock, processes, history: Arc::new(History::new()), name }
    }

    async fn blow(self) {
        let mut seeds = self.seed.stream();
        let mut tasks = Vec::new();
        for (faulty, locks) in &self.processes {
            faulty.random(seeds.number(), 0.3);
            for _ in 0..TASKS {
                let worker = Worker {
                    lock: locks.named(&self.name).unwrap(),
                    clock: self.clock.clone(),
                    history: self.history.clone(),
                    dice: Seed::new(seeds.number()).stream(),
                };
                tasks.push(tokio::spawn(worker.work()));
            }
        }
        for task in tasks {
            timeout(Duration::from_secs(3600), task).await.expect("a worker hung").unwrap();
        }
        self.history.assert_clean();
        self.must_calm_down().await;
    }

    async fn must_calm_down(&self) {
        for (faulty, locks) in &self.processes {
            faulty.heal();
            assert!(
                faulty.most_in_flight(Op::Acquire) <= 1,
                "at most one acquire per lock may be in progress"
            );
            let lock = locks.named(&self.name).unwrap();
            let guard =
                timeout(LEASE * 4, lock.acquire()).await.expect("the lock did not become free").unwrap();
            guard.release().await.unwrap();
        }
        // The last undo completes up to one lease after the last attempt.
        sleep(LEASE * 3).await;
        let left = self.store.backend.inspect(self.name.clone()).await.unwrap().outcome;
        assert_eq!(left, Inspected::Free, "a lease was left behind");
        for (faulty, locks) in &self.processes {
            assert_eq!(
                (faulty.in_flight(), locks.active_locks()),
                (0, 0),
                "a call or a lock entry was left behind"
            );
        }
    }
}

/// A task that acquires the lock in various ways.
struct Worker {
    lock: Lock,
    clock: Arc<TestClock>,
    history: Arc<History>,
    dice: Stream,
}

impl Worker {
    async fn work(mut self) {
        for _ in 0..ROUNDS {
            sleep(self.up_to(LEASE / 3)).await;
            if let Some(guard) = self.get().await {
                self.hold(guard).await;
            }
        }
    }

    fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.dice.below(u64::try_from(longest.as_micros()).unwrap()))
    }

    /// Acquires with or without a timeout, with one try, or drops the acquire.
    async fn get(&mut self) -> Option<LockGuard> {
        let patience = self.up_to(LEASE * 2);
        let acquired = match self.dice.below(5) {
            0 => self.lock.acquire_timeout(patience).await,
            1 => return self.lock.try_acquire().await.unwrap_or_else(|error| expected(&error)),
            2 => timeout(patience, self.lock.acquire()).await.ok()?,
            3 => self.lock.with_fixed_lease(LEASE / 2).unwrap().acquire().await,
            _ => self.lock.acquire().await,
        };
        acquired.map_or_else(|error| expected(&error), Some)
    }

    /// Holds the lock for a while, sometimes re-enters, and ends the hold in a random way.
    async fn hold(&mut self, guard: LockGuard) {
        let (hold, now) = (guard.hold(), self.clock.now());
        let key = self.history.granted(hold.name(), hold.fencing_token(), now, now + hold.remaining());
        let until = now + self.up_to(LEASE * 2);
        if self.dice.chance(0.2) {
            let _ = timeout(LEASE / 4, guard.reenter()).await;
        }
        while hold.is_held() && self.clock.now() < until {
            self.history.extended(key, self.clock.now() + hold.remaining());
            let step = self.up_to(LEASE / 10);
            let _ = timeout(step, hold.ended()).await;
        }
        self.history.ended(key, self.clock.now());
        match self.dice.below(3) {
            0 => drop(guard),
            1 => drop(timeout(self.up_to(LEASE / 4), guard.release()).await),
            _ => drop(guard.release().await),
        }
    }
}

/// Asserts that a failing store can cause this error.
fn expected<T>(error: &LockError) -> Option<T> {
    let kinds = [LockErrorKind::Timeout, LockErrorKind::Unavailable, LockErrorKind::Backend];
    assert!(kinds.contains(&error.kind()), "{error:?}");
    None
}
