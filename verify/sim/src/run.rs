//! One run: a storm for a number of events, then a calm, after which nothing may be left.

use crate::{
    calm::{nothing_is_left, probe, stretch},
    plan::{Plan, Topology},
    process::{Life, lives},
    state::Happening,
    store::Store,
    stores::Stores,
    world::World,
};
use lock_testkit::{
    Seed,
    planted::{BuggyStore, PlantedBug},
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{sleep, timeout},
};

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
