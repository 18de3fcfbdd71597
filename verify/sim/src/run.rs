//! Runs: a storm for a number of events, then a calm, after which every client is granted every lock again.
//!
//! At the end, nothing may be left. Many seeds run on two threads.

use crate::{
    plan::{LATEST, Plan, Topology},
    process::{Life, lives},
    state::Happening,
    store::{Store, Stores},
    trace::Who,
    world::World,
};
use lock_core::{LockErrorKind, LockFactory};
use lock_testkit::{
    Seed,
    planted::{BuggyStore, PlantedBug},
};
use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle},
    task::JoinSet,
    time::{sleep, timeout},
};

const THREADS: usize = 2;

/// The summary of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The hash of all events, which is the same for all runs of a seed.
    pub hash: u64,
    /// The number of events.
    pub events: u64,
    /// The number of holds.
    pub grants: u64,
    /// The number of lost holds.
    pub losses: u64,
    /// The virtual time, in µs.
    pub time: u64,
    /// The longest wait for a lock after everything worked again, in µs.
    pub worst_wait: u64,
    /// Other counters, mainly of faults.
    pub counts: BTreeMap<&'static str, u64>,
}

/// A violation.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed of the run.
    pub seed: Seed,
    /// The violation.
    pub what: String,
    /// The last events.
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}seed {}: {}", self.trace, self.seed, self.what)
    }
}

/// Runs a seed, optionally with a planted bug.
///
/// # Errors
/// The first violation.
///
/// # Panics
/// If a client panics, or no runtime can be created.
pub fn run(topology: Topology, seed: Seed, bug: Option<PlantedBug>) -> Result<Report, Failure> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(live(topology, seed, bug))
}

async fn live(topology: Topology, seed: Seed, bug: Option<PlantedBug>) -> Result<Report, Failure> {
    let plan = Plan::of(topology, seed);
    let mut dice = Seed::new(seed.get().rotate_left(17) ^ 0x5EED).stream();
    let empty = BuggyStore::new(bug, plan.retention);
    let stores = Stores::new(plan.clocks.iter().map(|clock| Store::new(clock.clone(), empty.clone())));
    let world = World::new(plan, bug, stores, Seed::new(dice.number()).stream());
    let physics = tokio::spawn(world.clone().run());
    tokio::select! {
        biased;
        () = broken(&world) => {}
        () = script(&world, &mut dice) => {}
    }
    physics.abort();
    let _ = physics.await;
    world.with(|state| {
        if state.oracle.broken.is_none() {
            state.oracle.check_history();
        }
        match state.oracle.broken.take() {
            Some(what) => Err(Failure { seed, what, trace: state.trace.tail(trace_length()) }),
            None => Ok(Report {
                hash: state.trace.hash(),
                events: state.trace.len(),
                grants: state.oracle.begun,
                losses: state.oracle.lost,
                time: state.now,
                worst_wait: state.oracle.worst_wait,
                counts: state.counts.clone(),
            }),
        }
    })
}

fn trace_length() -> usize {
    std::env::var("LOCK_SIM_TRACE").ok().and_then(|length| length.parse().ok()).unwrap_or(60)
}

async fn broken(world: &World) {
    loop {
        world.alarm.notified().await;
        if world.with(|state| state.oracle.broken.is_some()) {
            return;
        }
    }
}

async fn script(world: &Arc<World>, dice: &mut lock_testkit::Stream) {
    let (processes, calm, first) = world.with(|s| (s.plan.processes, s.plan.is_calm(), s.plan.trouble_every));
    if !calm {
        world.with(|state| state.after(first, Happening::Trouble));
    }
    let mut all = JoinSet::new();
    for process in 0..processes {
        all.spawn(lives(world.clone(), process, Seed::new(dice.number()).stream()));
    }
    let enough = world.with(|state| state.plan.events);
    let mut rounds = 0;
    while world.with(|state| state.trace.len()) < enough {
        sleep(Duration::from_millis(100)).await;
        rounds += 1;
        if rounds > 500_000 {
            return world.with(|s| s.oracle.must(false, || "the run does not continue".to_owned()));
        }
    }
    world.with(|state| {
        state.heal();
        state.closing = true;
    });
    let mut ended: Vec<Life> = Vec::new();
    let bound = Duration::from_secs(200) + stretch(world);
    while let Ok(Some(done)) = timeout(bound, all.join_next()).await {
        ended.extend(done.expect("processes do not panic"));
    }
    if !all.is_empty() {
        return world.with(|s| s.oracle.must(false, || "a process does not end".to_owned()));
    }
    ended.sort_by_key(|life| life.link);
    probe(world, &ended).await;
    nothing_is_left(world, ended).await;
}

/// Makes every living client take each lock once, which must succeed soon.
async fn probe(world: &Arc<World>, ended: &[Life]) {
    // Attempts that were lost in the storm time out first.
    sleep(world.with(|state| state.plan.longest_operation()) + Duration::from_millis(50)).await;
    let mut turns = JoinSet::new();
    for life in ended.iter().filter(|life| is_alive(world, life)) {
        turns.spawn(probe_one(world.clone(), life.link, life.factory.clone()));
    }
    while let Some(done) = turns.join_next().await {
        done.expect("not poisoned");
    }
}

async fn probe_one(world: Arc<World>, link: usize, factory: LockFactory) {
    let (names, quorum, slow) = world.with(|s| (s.plan.names.clone(), s.plan.quorum, s.plan.may_be_slow()));
    // Restarted nodes do not vote yet.
    let quarantine = quorum.map_or(Duration::ZERO, |quorum| quorum.max_lease);
    let longest = world.with(|state| state.plan.max_lease());
    let bound = longest * 3 + Duration::from_secs(10) + quarantine + stretch(&world);
    for name in names {
        let began = world.with(|state| state.now);
        let lock = factory.named(&name).expect("valid name");
        let acquire = async {
            loop {
                match lock.acquire().await {
                    Err(error)
                        if (slow || quorum.is_some()) && error.kind() == LockErrorKind::Unavailable => {}
                    other => break other,
                }
            }
        };
        let guard = timeout(bound, acquire).await;
        let took = world.with(|state| {
            let took = state.now - began;
            state.oracle.worst_wait = state.oracle.worst_wait.max(took);
            took
        });
        let Ok(Ok(guard)) = guard else {
            let what = format!("link {link} did not get {name} in {took} µs: {guard:?}");
            return world.with(|s| s.oracle.must(false, || what));
        };
        let answer = guard.release().await;
        let held = answer.as_ref().is_ok_and(|outcome| outcome.was_held());
        world.with(|s| s.oracle.must(held || slow, || format!("in the calm, a release returned {answer:?}")));
    }
}

fn is_alive(world: &World, life: &Life) -> bool {
    world.with(|state| !state.links[life.link].dead && !state.links[life.link].closed)
}

/// Returns the additional time for which a store whose clock stepped back keeps unknown leases: up to a lease.
fn stretch(world: &World) -> Duration {
    world.with(|state| match state.oracle.stepped_back {
        true => state.stores.farthest_step() + state.plan.max_lease(),
        false => Duration::ZERO,
    })
}

async fn nothing_is_left(world: &Arc<World>, ended: Vec<Life>) {
    let (operation, lease) = world.with(|s| (s.plan.longest_operation(), s.plan.max_lease()));
    // Late messages arrive, then two operation timeouts pass.
    sleep(Duration::from_millis(LATEST) + operation * 2).await;
    world.with(|state| {
        for (_, stored) in state.stores.left(state.now, &state.plan.names) {
            // Documented limitations: a clock that stepped back revives requests that were void, and a process that has
            // not heard from the store uses its own clock.
            let far = state.oracle.leases.get(&stored.lease).is_none_or(|lease| lease.far_stamp);
            // The leases of dead processes expire.
            let link = usize::try_from(stored.lease.process().as_uuid().as_u64_pair().1).unwrap_or(0);
            let dead = state.links.get(link).is_none_or(|link| link.dead || link.copied);
            // So do those that a shutdown left because their minimum was not over.
            let closed = state.links.get(link).is_some_and(|link| link.closed);
            let kept = closed && !state.plan.longest_minimum().is_zero();
            let excused = far || dead || kept || state.oracle.stepped_back;
            state.oracle.must(excused, || format!("an orphan: {stored:?}"));
        }
    });
    // A process with a wrong estimate of the store's clock undoes for a whole lease, and a subscription outlives its
    // waiter by 2 s.
    sleep(lease + operation + Duration::from_secs(3) + stretch(world)).await;
    let watchers =
        world.with(|s| s.stores.iter().flat_map(|store| store.watchers.clone()).collect::<Vec<_>>());
    for life in &ended {
        let (held, waiting) =
            (life.ear.holding.load(Ordering::Relaxed), life.ear.waiting.load(Ordering::Relaxed));
        let names = if is_alive(world, life) { life.factory.active_locks() } else { 0 };
        let link = life.link;
        world.with(|s| {
            s.oracle.must((held, waiting, names) == (0, 0, 0), || {
                format!("link {link} still has {held} holds, {waiting} waits, {names} names")
            });
            let watches = watchers.iter().any(|(_, watcher)| *watcher == link);
            s.oracle.must(!watches, || format!("link {link} is still subscribed"));
        });
    }
    world.with(|state| {
        let left = state.stores.left(state.now, &state.plan.names);
        state.oracle.must(left.is_empty(), || format!("orphans: {left:?}"));
        let open = state.calls.values().filter(|call| !call.is_closed()).count();
        state.oracle.must(open == 0, || format!("{open} calls are under way"));
    });
    for life in ended {
        let report = life.factory.shutdown().await;
        let clean = report.is_clean() || !is_alive(world, &life);
        world.with(|s| s.oracle.must(clean, || format!("link {}: {report:?}", life.link)));
        drop(life);
    }
    // The time within which the task of a factory has ended: the time limit of a shutdown.
    sleep(Duration::from_secs(10) + Duration::from_millis(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    world.with(|s| {
        s.note(Who::Store(0), "is left with tasks", (tasks as u64, 0));
        s.oracle.must(tasks == 1, || format!("{} tasks are left", tasks - 1));
    });
}

/// The summary of many runs.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The number of runs.
    pub runs: u64,
    /// The sums of the reports, except for waits, of which only the longest is kept.
    pub sum: Report,
    /// The smallest number of events in a run.
    pub fewest_events: u64,
    /// The failures, in the order in which they were found.
    pub failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, result: Result<Report, Failure>) {
        self.runs += 1;
        let report = match result {
            Ok(report) => report,
            Err(failure) => return self.failures.push(failure),
        };
        let sum = &mut self.sum;
        sum.events += report.events;
        sum.grants += report.grants;
        sum.losses += report.losses;
        sum.time += report.time;
        sum.worst_wait = sum.worst_wait.max(report.worst_wait);
        self.fewest_events = match self.fewest_events {
            0 => report.events,
            fewest => fewest.min(report.events),
        };
        for (what, count) in report.counts {
            *sum.counts.entry(what).or_default() += count;
        }
    }
}

/// Runs these seeds, and stops at the first failures.
#[must_use]
pub fn campaign(topology: Topology, seeds: &[Seed], bug: Option<PlantedBug>) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let result =
                catch_unwind(AssertUnwindSafe(|| run(topology, seed, bug))).unwrap_or_else(|panic| {
                    let what =
                        panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned());
                    Err(Failure { seed, what, trace: String::new() })
                });
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(result);
            if !tally.failures.is_empty() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { events, grants, losses, time, worst_wait, counts, .. } = &self.sum;
        let hours = time / 3_600_000_000;
        let counts: BTreeMap<_, _> = counts.iter().collect();
        write!(
            f,
            "{} runs, {events} events (at least {} each), {hours} virtual hours: {grants} holds, {losses} lost, \
             worst wait in the calm {} ms; {counts:?}",
            self.runs,
            self.fewest_events,
            worst_wait / 1_000,
        )
    }
}
