//! The state of the run loop, and its tasks.

use super::{
    effect::Effect, instances::KnownInstances, leadership::Leadership, phase::Phase, unowned::UnownedJobs,
};
use crate::{
    error::CronError,
    hash::StableHash,
    job::Job,
    kind::Kind,
    ledger_client::NO_REVISION,
    options::Scope,
    plan::Planner,
    running::RunKey,
    shared::{Lifecycle, Shared},
    time::UtcTime,
};
use futures_util::FutureExt;
use lock_core::{__private::lock, LockName};
use lock_ledger::{Backfill, JobControls, Trigger};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
};
use tokio::{task::JoinSet, time::Instant};

pub(crate) struct RunLoop {
    pub(super) shared: Arc<Shared>,
    /// The jobs in code, and the instances of the kinds.
    pub(super) jobs: BTreeMap<LockName, Arc<Job>>,
    pub(super) kinds: BTreeMap<String, Arc<Kind>>,
    pub(super) instances: KnownInstances,
    /// The hash of the fleet's jobs in code, their schedules, and the kinds. Nodes with the same hash elect one leader, and share the runs.
    pub(super) fingerprint: u64,
    pub(super) planner: Planner,
    pub(super) effects: JoinSet<Effect>,
    pub(super) phase: Phase,
    pub(super) leadership: Option<Leadership>,
    pub(super) resigning: bool,
    /// The jobs that this node has registered. If one is new to the ledger, the ledger lost its data.
    pub(super) registered: BTreeSet<LockName>,
    pub(super) unowned: UnownedJobs,
    pub(super) timers: Timers,
    /// The controls, the waiting triggers and the backfills that were read last.
    pub(super) controls: BTreeMap<LockName, JobControls>,
    pub(super) triggers: Vec<Trigger>,
    pub(super) backfills: Vec<Backfill>,
    /// The revision of the controls that the planner has.
    pub(super) known_revision: u64,
    pub(super) heartbeat_in_flight: bool,
    /// Set while the store is asked to remove this node.
    pub(super) leaving: bool,
    pub(super) renewing: bool,
    /// The claims in flight.
    pub(super) claims: usize,
    pub(super) taking_over: BTreeSet<RunKey>,
    pub(super) failure: Option<CronError>,
}

/// The times of the next repeated requests.
pub(super) struct Timers {
    pub(super) registration: Instant,
    pub(super) heartbeat: Instant,
    pub(super) open_runs: Instant,
    pub(super) renewal: Instant,
}

impl RunLoop {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: BTreeMap<LockName, Arc<Job>>,
        kinds: BTreeMap<String, Arc<Kind>>,
    ) -> Self {
        let mut planner = Planner::default();
        let now = shared.node.ledger.now();
        for job in jobs.values() {
            planner.add(now, job.name.clone(), job.schedule.clone(), job.terms);
        }
        let begin = Instant::now();
        Self {
            shared,
            fingerprint: fingerprint(jobs.values(), kinds.keys()),
            jobs,
            kinds,
            instances: KnownInstances::default(),
            planner,
            effects: JoinSet::new(),
            phase: Phase::Running,
            leadership: None,
            resigning: false,
            registered: BTreeSet::new(),
            unowned: UnownedJobs::default(),
            timers: Timers { registration: begin, heartbeat: begin, open_runs: begin, renewal: begin },
            controls: BTreeMap::new(),
            triggers: Vec::new(),
            backfills: Vec::new(),
            known_revision: NO_REVISION,
            heartbeat_in_flight: false,
            leaving: false,
            renewing: false,
            claims: 0,
            taking_over: BTreeSet::new(),
            failure: None,
        }
    }

    /// Runs a task whose result is an event of the loop. If it panics, the event is `failed`, and only this task
    /// fails.
    pub(super) fn spawn(&mut self, task: impl Future<Output = Effect> + Send + 'static, failed: Effect) {
        self.effects.spawn(async move {
            AssertUnwindSafe(task).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!("task of the scheduler panicked");
                failed
            })
        });
    }

    pub(super) fn now(&self) -> UtcTime {
        self.shared.node.ledger.now()
    }

    /// Returns the number of further runs that this node may start.
    pub(super) fn room(&self) -> u32 {
        let node = &self.shared.node;
        let taken = node.running.held() + self.claims;
        node.terms.max_running.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    pub(super) fn fleet_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.values().filter(|job| job.terms.scope == Scope::Fleet)
    }

    pub(super) fn has_fleet_job(&self, name: &LockName) -> bool {
        self.jobs.get(name).is_some_and(|job| job.terms.scope == Scope::Fleet)
    }

    /// Returns `true` if this node takes part in the group.
    pub(super) fn is_member(&self) -> bool {
        !self.kinds.is_empty() || self.fleet_jobs().next().is_some()
    }

    pub(super) fn fleet_names(&self) -> Vec<LockName> {
        self.fleet_jobs().map(|job| job.name.clone()).collect()
    }
}

/// Hashes the fleet's jobs, their schedules and the kinds. Versions of the zone data are not included, so that nodes
/// started before and after an update have the same hash.
fn fingerprint<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>, kinds: impl Iterator<Item = &'a String>) -> u64 {
    let of_fleet = jobs.filter(|job| job.terms.scope == Scope::Fleet);
    let lines = of_fleet.map(|job| format!("{}\n{:016x}\n", job.name, job.schedule.identity()));
    let kinds = kinds.map(|kind| format!("{kind}/\n"));
    StableHash::of(&lines.chain(kinds).collect::<String>())
}

impl Drop for RunLoop {
    /// Resigns even if the loop is dropped before its end.
    fn drop(&mut self) {
        drop(self.follow());
        lock(&self.shared.registry).lifecycle = Lifecycle::Ended;
    }
}
