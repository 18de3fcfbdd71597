//! Questions about the jobs of a group: their list, their next runs and their history.

use crate::{
    error::{CronError, CronErrorKind},
    job::{self, Job, Kind, Progress},
    ledger_client::NO_REVISION,
    plan::EffectiveControls,
    schedule::Schedule,
    scheduler::Scheduler,
};
use lock_core::{__private::lock, LockName, clock::UtcTime};
use lock_ledger::{
    Attempt, Backfill, FleetControls, HeartbeatReply, Instance, Instances, JobControls, JobSummary, OpenRun,
    PauseNote, PoolLimit, Registration,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The current state of a job, as known to this node.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobInfo {
    /// The name of the job.
    pub name: LockName,
    /// The current schedule, which is the job's own or its [replacement](Scheduler::replace).
    pub schedule: Schedule,
    /// `true` if the schedule is a replacement.
    pub replaced: bool,
    /// `true` if the job's scheduled runs are paused.
    pub paused: bool,
    /// The author of the pause and the reason for it; empty unless the job is paused.
    pub note: PauseNote,
    /// The pool and its limit on this node; `None` for a job without a pool, and for an instance whose kind this node
    /// has not registered.
    pub pool: Option<PoolLimit>,
    /// The time of the next run; `None` if the job is paused or has no further runs.
    pub next_run: Option<UtcTime>,
    /// The end of the last successful run, by the server's clock; `None` before the first one.
    pub last_success: Option<UtcTime>,
    /// `true` if the job has not succeeded within its
    /// [`alert_after`](crate::JobBuilder::alert_after). Always `false` for a paused job, and for an
    /// instance whose kind this node has not registered.
    pub overdue: bool,
    /// The time for which no scheduled run starts because the watermark is in the future; zero unless the server's
    /// clock was ahead. [`Scheduler::reset`] corrects it.
    pub ahead_by: Duration,
    /// The open runs in the fleet.
    pub open: Vec<OpenRun>,
    /// The properties of an instance of a [kind](Scheduler::kind); `None` for a job defined in code.
    pub instance: Option<InstanceInfo>,
    /// `true` for an instance whose kind no live node has registered, so nothing runs.
    pub unowned: bool,
}

/// The properties specific to an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceInfo {
    /// The kind.
    pub kind: String,
    /// The name of the node that added or last changed the instance.
    pub added_by: String,
    /// The time at which the instance was added or last changed, by the server's clock.
    pub added_at: UtcTime,
}

impl Scheduler {
    /// Returns the jobs registered by this node and all instances of the group, sorted by name,
    /// with their controls and open runs. Instances whose schedules this program version cannot
    /// read are omitted.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// for job in cron.list().await? {
    ///     println!("{} ({}) runs next at {:?}", job.name, job.schedule, job.next_run);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::Store`] if a request to the store fails.
    ///
    /// # Cancel safety
    /// This method is cancel safe. It changes nothing.
    pub async fn list(&self) -> Result<Vec<JobInfo>, CronError> {
        let ledger = &self.shared.node.ledger;
        let HeartbeatReply { controls, nodes, .. } = ledger.observe().await?;
        let (controls, open) = (by_name(controls), ledger.open_runs().await?);
        let (jobs, kinds) = {
            let registry = lock(&self.shared.registry);
            (registry.jobs.clone(), registry.kinds.clone())
        };
        let in_code = jobs.values().map(|job| Listed::in_code(job));
        let instances = self.instances().await?;
        let mut listed: Vec<_> = in_code
            .chain(instances.iter().filter_map(|instance| Listed::instance(instance, &kinds)))
            .collect();
        listed.sort_by(|a, b| a.name.cmp(b.name));
        let effective: Vec<_> = listed
            .iter()
            .map(|job| job::effective(job.name, &job.schedule, controls.get(job.name)))
            .collect();
        let registration = |(job, effective): (&Listed<'_>, &EffectiveControls)| Registration {
            job: job.name.clone(),
            schedule: effective.schedule.identity(),
        };
        let watermarks = self.watermarks(listed.iter().zip(&effective).map(registration).collect()).await?;
        let summaries = ledger.summary().await?.outcome.jobs;
        let summaries: BTreeMap<LockName, JobSummary> =
            summaries.into_iter().map(|summary| (summary.job.clone(), summary)).collect();
        let now = ledger.now();
        let view = |(job, effective): (Listed<'_>, EffectiveControls)| {
            let EffectiveControls { paused, schedule, .. } = effective;
            let from = watermarks.get(job.name).map_or(now, |watermark| now.max(*watermark));
            let summary = summaries.get(job.name);
            let progress = Progress::new(job.alert_after, job.since, summary, controls.get(job.name));
            JobInfo {
                overdue: progress.overdue(now).is_some(),
                ahead_by: from.since(now),
                replaced: controls.get(job.name).is_some_and(|controls| controls.schedule.is_some()),
                paused,
                note: controls
                    .get(job.name)
                    .map_or_else(PauseNote::default, |controls| controls.note.clone()),
                last_success: progress.last_success,
                pool: job.pool,
                next_run: if paused { None } else { schedule.next_after(from) },
                open: open.iter().filter(|run| run.job == *job.name).cloned().collect(),
                name: job.name.clone(),
                schedule,
                unowned: job.instance.is_some() && !job::is_on_a_node(job.name, &nodes),
                instance: job.instance,
            }
        };
        Ok(listed.into_iter().zip(effective).map(view).collect())
    }

    /// Returns the next `n` runs of a job, by the server's clock and the fleet's controls, so the
    /// result is the same on every node. A pause is ignored. A job defined in code must be
    /// registered on this node; the schedule of an instance is read from the store.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// let runs = cron.next_runs("invoices", 3).await?;
    /// assert!(runs.len() == 3 && runs.is_sorted());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`]; [`UnknownJob`](CronErrorKind::UnknownJob) if this
    /// node has not registered the job and no such instance exists;
    /// [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// This method is cancel safe. It changes nothing.
    pub async fn next_runs(&self, job: &str, n: usize) -> Result<Vec<UtcTime>, CronError> {
        let name = LockName::new(job)?;
        let schedule = self
            .effective_schedule(
                &name,
                "and `next_runs` needs its schedule: check the name, or register the job",
            )
            .await?;
        let registration = Registration { job: name.clone(), schedule: schedule.identity() };
        let watermarks = self.watermarks(vec![registration]).await?;
        let now = self.shared.node.ledger.now();
        let from = watermarks.get(&name).map_or(now, |watermark| now.max(*watermark));
        Ok(schedule.after(from).take(n).collect())
    }

    /// Returns up to `n` entries of a job's history, newest first. Entries are ended attempts and
    /// skipped runs. They are read from the store, so a tool needs no registered jobs.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// for attempt in cron.history("invoices", 10).await? {
    ///     println!("{attempt:?}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`]; [`UnknownJob`](CronErrorKind::UnknownJob) if this
    /// node has not registered the job and the store has no history for it;
    /// [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// This method is cancel safe. It changes nothing.
    pub async fn history(&self, job: &str, n: usize) -> Result<Vec<Attempt>, CronError> {
        let name = LockName::new(job)?;
        let is_ours = lock(&self.shared.registry).jobs.contains_key(&name);
        let mut history = self.shared.node.ledger.history(&name, n.max(1)).await?;
        if !is_ours && history.is_empty() {
            // An instance may not have run yet.
            let registration = Registration { job: name.clone(), schedule: 0 };
            if job::kind_of(&name).is_none() || self.watermarks(vec![registration]).await?.is_empty() {
                return Err(not_registered_here(
                    &name,
                    "and the store has no history for it: check the name",
                ));
            }
        }
        history.truncate(n);
        Ok(history)
    }

    /// Reads the payload of an instance, as JSON. Returns `None` if there is no such instance.
    /// [`list`](Self::list) does not read payloads, since they can be large.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_cron::{MemoryLedger, Schedule, Scheduler};
    /// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
    /// # let cron = Scheduler::builder(locks, MemoryLedger::new()).build()?;
    /// cron.add("import", "tenant-7", Schedule::cron("H/15 * * * *")?, &7).await?;
    /// assert_eq!(cron.payload("import", "tenant-7").await?.as_deref(), Some("7"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`] or [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// This method is cancel safe. It changes nothing.
    pub async fn payload(&self, kind: &str, id: &str) -> Result<Option<String>, CronError> {
        let name = job::instance_name(kind, id)?;
        Ok(self.shared.node.ledger.instance(&name).await?.map(|detail| detail.payload))
    }

    /// Returns the group's unfinished backfills, oldest first.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// for backfill in cron.backfills().await? {
    ///     println!("{}: {} of {} started", backfill.job, backfill.done, backfill.count);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::Store`] if a request to the store fails.
    ///
    /// # Cancel safety
    /// This method is cancel safe. It changes nothing.
    pub async fn backfills(&self) -> Result<Vec<Backfill>, CronError> {
        match self.shared.node.ledger.controls(NO_REVISION).await? {
            FleetControls::Changed { backfills, .. } => Ok(backfills),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the schedule that applies to a job of this node or to an instance.
    pub(crate) async fn effective_schedule(&self, name: &LockName, why: &str) -> Result<Schedule, CronError> {
        let known = lock(&self.shared.registry).jobs.get(name).cloned();
        let schedule = match known {
            Some(job) => job.schedule.clone(),
            None => {
                let is_instance = job::kind_of(name).is_some();
                let detail = if is_instance { self.shared.node.ledger.instance(name).await? } else { None };
                job::schedule_of(&detail.ok_or_else(|| not_registered_here(name, why))?.instance)?
            }
        };
        let controls = self.controls().await?;
        Ok(job::effective(name, &schedule, controls.get(name)).schedule)
    }

    /// Reads the watermarks of the jobs registered in the store.
    pub(crate) async fn watermarks(
        &self,
        jobs: Vec<Registration>,
    ) -> Result<BTreeMap<LockName, UtcTime>, CronError> {
        if jobs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let watermarks = self.shared.node.ledger.watermarks(jobs.clone()).await?;
        let known = jobs.into_iter().zip(watermarks);
        Ok(known.filter_map(|(job, watermark)| Some((job.job, watermark?))).collect())
    }

    /// Reads the fleet's controls, regardless of the revision known to this node.
    pub(crate) async fn controls(&self) -> Result<BTreeMap<LockName, JobControls>, CronError> {
        Ok(by_name(self.shared.node.ledger.controls(NO_REVISION).await?))
    }

    /// Reads the group's instances.
    async fn instances(&self) -> Result<Vec<Instance>, CronError> {
        match self.shared.node.ledger.instances(NO_REVISION).await? {
            Instances::All { instances, .. } => Ok(instances),
            _ => Ok(Vec::new()),
        }
    }
}

/// A job in code, or an instance.
struct Listed<'a> {
    name: &'a LockName,
    schedule: Schedule,
    pool: Option<PoolLimit>,
    instance: Option<InstanceInfo>,
    alert_after: Option<Duration>,
    /// For an instance, the time from which `alert_after` is measured before the first success.
    since: Option<UtcTime>,
}

impl<'a> Listed<'a> {
    fn in_code(job: &'a Job) -> Self {
        let (schedule, pool) = (job.schedule.clone(), job.terms.pool.clone());
        let alert_after = job.terms.alert_after;
        Self { name: &job.name, schedule, pool, instance: None, alert_after, since: None }
    }

    fn instance(instance: &'a Instance, kinds: &BTreeMap<String, Arc<Kind>>) -> Option<Self> {
        let kind = job::kind_of(&instance.name)?;
        let info = InstanceInfo {
            kind: kind.to_owned(),
            added_by: instance.added_by.clone(),
            added_at: instance.added_at,
        };
        let schedule = job::schedule_of(instance).ok()?;
        let terms = kinds.get(kind).map(|kind| &kind.terms);
        let alert_after = terms.and_then(|terms| terms.alert_after);
        let pool = terms.and_then(|terms| terms.pool.clone());
        let since = Some(job::counts_from(instance));
        Some(Self { name: &instance.name, schedule, pool, instance: Some(info), alert_after, since })
    }
}

/// Returns the controls of each job.
fn by_name(controls: FleetControls) -> BTreeMap<LockName, JobControls> {
    match controls {
        FleetControls::Changed { jobs, .. } => jobs.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}

fn not_registered_here(job: &LockName, more: &str) -> CronError {
    CronError::new(CronErrorKind::UnknownJob)
        .about(format_args!("this node has not registered a job named `{job}`, {more}"))
}
