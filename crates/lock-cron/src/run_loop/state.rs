//! The state of the run loop, and its tasks.

use super::{
    beats::Beats, clock_offset::ClockOffset, declined::DeclinedRuns, effect::Effect,
    instances::KnownInstances, leadership::Leadership, lost_data::LostData, phase::Phase,
    unowned::UnownedJobs,
};
use crate::{
    error::CronError,
    hash::StableHash,
    job::Job,
    kind::Kind,
    ledger_client::NO_REVISION,
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
    /// The hash of the jobs in code, their schedules, and the kinds. Nodes with the same hash elect one leader and
    /// share the runs.
    pub(super) fingerprint: u64,
    pub(super) planner: Planner,
    pub(super) effects: JoinSet<Effect>,
    pub(super) phase: Phase,
    pub(super) leadership: Option<Leadership>,
    pub(super) resigning: bool,
    /// The jobs that this node has registered. If one of them is new to the ledger, the ledger lost data.
    pub(super) registered: BTreeSet<LockName>,
    pub(super) unowned: UnownedJobs,
    pub(super) declined: DeclinedRuns,
    pub(super) lost: LostData,
    pub(super) clock_offset: ClockOffset,
    /// The jobs that this leader has reported as overdue.
    pub(super) overdue: BTreeSet<LockName>,
    pub(super) timers: Timers,
    /// The controls, pending triggers and backfills, as last read.
    pub(super) controls: BTreeMap<LockName, JobControls>,
    pub(super) triggers: Vec<Trigger>,
    pub(super) backfills: Vec<Backfill>,
    /// The revision of the controls passed to the planner.
    pub(super) known_revision: u64,
    pub(super) heartbeat_in_flight: bool,
    /// Set while a request to remove this node is pending.
    pub(super) leaving: bool,
    pub(super) renewing: bool,
    /// The number of claims in flight.
    pub(super) claims: usize,
    pub(super) taking_over: BTreeSet<RunKey>,
    /// Set if a run whose node has left may be waiting for a slot in a pool.
    pub(super) waits_for_pool: bool,
    pub(super) failure: Option<CronError>,
}

/// The times of the next repeated requests.
pub(super) struct Timers {
    pub(super) beats: Beats,
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
        let mut planner = Planner::new(shared.node.claim_terms());
        let now = shared.node.ledger.now();
        for job in jobs.values() {
            planner.add(now, job.name.clone(), job.schedule.clone(), job.terms.clone());
        }
        let begin = Instant::now();
        let beats = Beats::new(begin, shared.node.ledger.moment());
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
            declined: DeclinedRuns::default(),
            lost: LostData::default(),
            clock_offset: ClockOffset::default(),
            overdue: BTreeSet::new(),
            timers: Timers { beats, registration: begin, heartbeat: begin, open_runs: begin, renewal: begin },
            controls: BTreeMap::new(),
            triggers: Vec::new(),
            backfills: Vec::new(),
            known_revision: NO_REVISION,
            heartbeat_in_flight: false,
            leaving: false,
            renewing: false,
            claims: 0,
            taking_over: BTreeSet::new(),
            waits_for_pool: false,
            failure: None,
        }
    }

    /// Spawns a task whose result is an event of the loop. If the task panics, the event is `failed`; nothing else is
    /// affected.
    pub(super) fn spawn(&mut self, task: impl Future<Output = Effect> + Send + 'static, failed: Effect) {
        self.effects.spawn(async move {
            AssertUnwindSafe(task).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!("scheduler task panicked");
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
        let taken = node.running.count() + self.claims;
        node.terms.max_running.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// Returns `true` if this node takes part in the group.
    pub(super) fn is_member(&self) -> bool {
        !self.kinds.is_empty() || !self.jobs.is_empty()
    }

    pub(super) fn job_names(&self) -> Vec<LockName> {
        self.jobs.keys().cloned().collect()
    }
}

/// Hashes the jobs, their schedules and the kinds. Versions of the zone data are not included, so that nodes started
/// before and after an update have the same hash.
fn fingerprint<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>, kinds: impl Iterator<Item = &'a String>) -> u64 {
    let lines = jobs.map(|job| format!("{}\n{:016x}\n", job.name, job.schedule.identity()));
    let kinds = kinds.map(|kind| format!("{kind}/\n"));
    StableHash::of(&lines.chain(kinds).collect::<String>())
}

impl Drop for RunLoop {
    /// Resigns even if the loop is dropped before it ends.
    fn drop(&mut self) {
        drop(self.follow());
        lock(&self.shared.registry).lifecycle = Lifecycle::Ended;
    }
}
