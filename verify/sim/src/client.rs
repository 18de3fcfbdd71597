//! A task of a process that acquires locks in every available way, and gives up in every available way.

use crate::{
    clock::micros,
    gate::Fickle,
    oracle::SLACK,
    plan::{Terms, Trouble},
    trace::Who,
    world::World,
};
use lock_core::{Hold, Lock, LockError, LockErrorKind, LockFactory, LockGuard, RunError};
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

    pub(crate) fn choose(&mut self) -> (Lock, Terms) {
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
    pub(crate) fn in_time(&self, what: &str, began: u64, most: u64) {
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
}
