//! A task of a process that acquires locks in every available way, uses them, and gives up in every available way.

use crate::{
    clock::micros,
    oracle::SLACK,
    plan::{Terms, Trouble},
    state::Happening,
    store::Write,
    trace::Who,
    world::{Fickle, World},
};
use lock_core::{Hold, Lock, LockError, LockErrorKind, LockFactory, LockGuard, ReleaseOutcome, RunError};
use lock_testkit::{Stream, planted::PlantedBug};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) link: usize,
    pub(crate) process: usize,
    pub(crate) factory: LockFactory,
    pub(crate) dice: Stream,
}

impl Client {
    pub(crate) async fn work(mut self) {
        loop {
            let (closing, idle) = self.world.with(|s| (s.closing || s.links[self.link].closed, s.plan.idle));
            if closing {
                return;
            }
            sleep(self.millis(idle)).await;
            let (lock, terms) = self.choose();
            match self.dice.below(12) {
                0 => self.run(&lock, terms, false).await,
                1 => self.run(&lock, terms, true).await,
                2 if self.dice.chance(0.3) => self.inspect_or_force(&lock).await,
                3 => self.own(&lock, terms).await,
                _ => {
                    if let Some(guard) = self.get(&lock, terms).await {
                        self.hold(guard, terms).await;
                    }
                }
            }
        }
    }

    pub(crate) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.dice.below(most + 1))
    }

    fn choose(&mut self) -> (Lock, Terms) {
        let (name, terms, ignores) = self.world.with(|state| {
            let name = state.plan.names
                [usize::try_from(self.dice.below(state.plan.names.len() as u64)).unwrap_or(0)]
            .clone();
            let terms = state.plan.menu[usize::try_from(self.dice.below(3)).unwrap_or(0)];
            (name, terms, state.bug == Some(PlantedBug::IgnoresMinHold))
        });
        let options = if ignores { terms.options.min_hold(Duration::ZERO) } else { terms.options };
        let lock = self.factory.named(name).and_then(|lock| lock.with_options(options));
        (lock.expect("valid names and options"), terms)
    }

    /// Acquires by an unlimited wait, by a limited wait, or by one try; or gives up.
    async fn get(&mut self, lock: &Lock, terms: Terms) -> Option<LockGuard> {
        let patience = self.millis(3_000);
        let polls = 1 + self.dice.below(4);
        let way = self.dice.below(6);
        let began = self.note("asks", (way, micros(patience)));
        let operation = self.world.with(|state| micros(state.plan.longest_operation()));
        let (got, most) = match way {
            0 => (lock.acquire_timeout(patience).await.map(Some), micros(patience).max(6 * operation)),
            1 | 2 => (lock.try_acquire().await, 6 * operation + 50_000),
            3 => (timeout(patience, lock.acquire()).await.ok().transpose(), micros(patience)),
            4 => (Fickle::new(polls, lock.acquire()).await.transpose(), u64::MAX / 2),
            _ => (lock.acquire().await.map(Some), u64::MAX / 2),
        };
        let most = if way == 0 && micros(patience) > 0 { micros(patience) } else { most };
        self.in_time("an acquire", began, most + micros(terms.lease) / 100);
        self.checked(got)
    }

    fn checked(&self, got: Result<Option<LockGuard>, LockError>) -> Option<LockGuard> {
        let kind = match got {
            Ok(guard) => return guard,
            Err(error) => error.kind(),
        };
        let expected = [
            LockErrorKind::Timeout,
            LockErrorKind::Unavailable,
            LockErrorKind::TooManyWaiters,
            LockErrorKind::ShutDown,
            LockErrorKind::Lost,
        ];
        self.note("is refused", (kind as u64, 0));
        self.world
            .with(|state| state.oracle.must(expected.contains(&kind), || format!("refused as {kind:?}")));
        None
    }

    /// Fails if this took longer than `most`, unless the process was paused in the meantime.
    fn in_time(&self, what: &str, began: u64, most: u64) {
        self.world.with(|state| {
            let took = state.now - began;
            let paused = state.pauses[self.process].felt_until() >= began;
            state.oracle.must(paused || took <= most + SLACK, || {
                format!("{what} of link {} took {took} µs instead of {most}", self.link)
            });
        });
    }

    pub(crate) fn note(&self, what: &'static str, numbers: (u64, u64)) -> u64 {
        self.world.with(|state| {
            state.note(Who::Link(self.link), what, numbers);
            state.now
        })
    }

    async fn run(&mut self, lock: &Lock, terms: Terms, once: bool) {
        let patience = self.millis(5_000);
        let time = self.millis(1_000);
        let world = self.world.clone();
        let me = self.link;
        let work = async move |hold: Hold| {
            world.with(|state| state.oracle.taken(state.now, &hold, terms));
            world.with(|state| state.note(Who::Link(me), "runs", (hold.fencing_token().get(), 0)));
            world.with(|state| state.look());
            sleep(time).await;
            hold
        };
        self.note("asks to run", (once.into(), micros(patience)));
        let done = match once {
            true => timeout(patience, lock.try_run(work)).await,
            false => timeout(patience, async { lock.run(work).await.map(Some) }).await,
        };
        match done {
            Ok(Err(RunError::NotAcquired(error))) => drop(self.checked(Err(error))),
            Ok(Err(RunError::Lost(reason))) => drop(self.note("run lost", (reason as u64, 0))),
            Ok(Ok(Some(hold))) => drop(self.note("has run", (hold.fencing_token().get(), 0))),
            Ok(Ok(None) | Err(_)) | Err(_) => {}
        }
    }

    /// Takes the lock twice with one owner, possibly with other options the second time.
    async fn own(&mut self, lock: &Lock, terms: Terms) {
        let owner = self.factory.owner();
        let (_, others) = self.choose();
        let own = |lock: Lock| lock.with_owner(&owner).expect("an owner of this factory");
        let first = own(lock.clone());
        let second = own(lock.with_options(others.options).expect("valid options"));
        let Some(outer) = self.get(&first, terms).await else { return };
        self.take(&outer, terms);
        if let Some(inner) = self.get(&second, others).await {
            // If the first hold had been lost in the meantime, the re-entry would be refused. So this must be the same
            // hold.
            let same = inner.fencing_token() == outer.fencing_token();
            self.world.with(|state| {
                state.oracle.must(same, || "an owner was granted two holds".to_owned());
                state.look();
            });
            if self.dice.chance(0.5) {
                return self.hold(outer, terms).await;
            }
            drop(inner);
        }
        self.hold(outer, terms).await;
    }

    pub(crate) fn take(&self, guard: &LockGuard, terms: Terms) {
        let hold = guard.hold();
        self.world.with(|state| {
            state.note(Who::Link(self.link), "takes", (hold.fencing_token().get(), 0));
            state.oracle.taken(state.now, &hold, terms);
            state.look();
        });
    }

    /// Inspects a lock or forcibly releases it.
    async fn inspect_or_force(&mut self, lock: &Lock) {
        let force = self.world.with(|state| !state.calm && state.plan.troubles.contains(&Trouble::Force));
        if force && self.dice.chance(0.5) {
            let _ = self.factory.force_release(lock.name()).await;
        } else {
            let _ = self.factory.inspect(lock.name()).await;
        }
        self.note("meddles", (force.into(), 0));
    }

    pub(crate) async fn hold(&mut self, guard: LockGuard, terms: Terms) {
        self.take(&guard, terms);
        let hold = guard.hold();
        let longest = self.world.with(|state| state.plan.hold);
        let until = self.now() + micros(self.millis(2 * longest));
        let to_the_end = self.dice.chance(0.05);
        let stubborn = self.dice.chance(0.1);
        let mut inner = Vec::new();
        while self.now() < until && (stubborn || hold.is_held()) && !self.world.with(|s| s.closing) {
            // Without a pause, a client that is refused everything would try again in a tight loop.
            sleep(Duration::from_millis(1)).await;
            match self.dice.below(4) {
                0 => self.read_and_write(&hold).await,
                1 if inner.len() < 3 => inner.extend(self.reenter(&guard).await),
                _ => {
                    let step = self.millis(longest / 4);
                    let _ = timeout(step, hold.ended()).await;
                }
            }
        }
        if to_the_end && terms.every.is_none() {
            let _ = timeout(Duration::from_secs(30), hold.ended()).await;
        }
        for guard in inner {
            self.let_go(guard, terms).await;
        }
        self.let_go(guard, terms).await;
        if !hold.is_held() && self.dice.chance(0.2) {
            // A late writer that has not noticed the loss.
            self.read_and_write(&hold).await;
        }
    }

    fn now(&self) -> u64 {
        self.world.with(|state| state.now)
    }

    async fn reenter(&mut self, guard: &LockGuard) -> Option<LockGuard> {
        let (polls, patience) = (1 + self.dice.below(4), self.millis(500));
        self.note("re-enters", (guard.fencing_token().get(), 0));
        let inner = match self.dice.chance(0.5) {
            true => Fickle::new(polls, guard.reenter()).await,
            false => timeout(patience, guard.reenter()).await.ok(),
        };
        let inner = inner?.ok()?;
        let same = inner.fencing_token() == guard.fencing_token();
        self.world.with(|state| {
            state.oracle.must(same, || "a re-entry has another token".to_owned());
            state.count("re-entry");
            state.look();
        });
        Some(inner)
    }

    /// Reads and writes. The write may come late: after a pause of this process, or after the loss of its lock.
    async fn read_and_write(&mut self, hold: &Hold) {
        let (lease, token, name) = (hold.lease_id(), hold.fencing_token(), hold.name().clone());
        let link = self.link;
        let Some(value) = self.world.with(|state| state.read(link, &name, lease, token)) else { return };
        let think = self.millis(20);
        sleep(think).await;
        let way = if self.dice.chance(0.02) { 3_000 } else { 20 };
        let way = self.dice.below(way);
        self.world.with(|state| {
            let write = Write { link, name, lease, token, value: value + 1 };
            state.after(way, Happening::Write(write));
        });
        // The next read by this holder must see the write.
        sleep(Duration::from_millis(way + 1)).await;
    }

    async fn let_go(&mut self, guard: LockGuard, terms: Terms) {
        let hold = guard.hold();
        let polls = 1 + self.dice.below(3);
        let began = self.note("lets go", (hold.fencing_token().get(), hold.is_held().into()));
        match self.dice.below(4) {
            0 => drop(guard),
            1 => {
                if let Some(answer) = Fickle::new(polls, guard.release()).await {
                    self.released(&hold, answer);
                }
            }
            _ => {
                let answer = guard.release().await;
                self.in_time("a release", began, micros(terms.operation) * 2 + micros(terms.lease) / 100);
                self.released(&hold, answer);
            }
        }
    }

    fn released(&self, hold: &Hold, answer: Result<ReleaseOutcome, LockError>) {
        let (lease, token) = (hold.lease_id(), hold.fencing_token());
        self.world.with(|state| {
            let code = match &answer {
                Ok(outcome) => outcome.was_held().into(),
                Err(_) => 2,
            };
            state.note(Who::Link(self.link), "released", (token.get(), code));
            if matches!(answer, Ok(ReleaseOutcome::StillHeld { depth: 0 })) {
                state.count("kept for its minimum");
            }
            match answer {
                Ok(outcome) if !outcome.was_held() => state.oracle.release_found_nothing(lease, token),
                Ok(ReleaseOutcome::Released) => state.oracle.release_claims(lease),
                Ok(_) => {}
                Err(error) => {
                    let unconfirmed = error.kind() == LockErrorKind::Unconfirmed;
                    state.oracle.must(unconfirmed, || format!("a release failed as {error:?}"));
                }
            }
        });
    }
}
