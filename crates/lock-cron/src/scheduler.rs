//! The scheduler as a user sees it: built, given jobs, run, and told what to do.

use crate::{
    builder::SchedulerBuilder,
    context::RunContext,
    drive::Drive,
    error::{CronError, CronErrorKind},
    job::{Job, JobBuilder, RunResult},
    node::Node,
    options::Scope,
    schedule::Schedule,
    time::UtcTime,
};
use lock_core::{__private::lock, LockFactory, LockName};
use lock_ledger::{Attempt, FleetControls, JobControls, OpenRun, Registration, RunLedger};
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Jobs that run at their times, each instant once in the fleet.
///
/// Every node of a group registers its jobs and runs its scheduler. One of them is elected leader, and starts runs; when it dies,
/// another goes on. Leader election is for efficiency alone: that each run is started once is decided by the store, by a
/// claim of (job, scheduled instant), and two leaders at once are harmless.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{LockFactory, MemoryBackend, __private::lock, clock::TestClock};
/// use lock_cron::{MemoryLedger, Overlap, Schedule, Scheduler};
/// use std::{sync::Arc, time::Duration};
///
/// // In production `RedisBackend::connect(url).await?` is both, on every node.
/// let clock = Arc::new(TestClock::new());
/// let locks = LockFactory::builder(MemoryBackend::with_clock(clock.clone())).clock(clock.clone()).build()?;
///
/// let cron = Scheduler::builder(locks, MemoryLedger::with_clock(clock)).group("billing").build()?;
/// cron.job("invoices", Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?, |run| async move {
///     println!("run of {} with token {}", run.scheduled_at(), run.fencing_token());
///     Ok(())
/// })
/// .overlap(Overlap::Skip)
/// .timeout(Duration::from_secs(600))
/// .register()?;
///
/// cron.run_until(tokio::time::sleep(Duration::from_secs(24 * 60 * 60))).await?; // until a signal, in production
/// assert_eq!(cron.history("invoices", 10).await?.len(), 1);
/// # Ok(()) }
/// ```
///
/// # What it promises
/// Exactly one *start* per instant, as long as the store keeps its data; no start before the instant, by the server's clock. What a
/// run *does* happens once only if the resource checks the [token](RunContext::fencing_token) or the [id](RunContext::id) of
/// the run. A node that dies takes its runs with it, unless [`on_orphan`](JobBuilder::on_orphan) says otherwise.
///
/// # What stays in the store
/// The watermark and the history of every job name have no expiry, also after the job was removed.
///
/// Clones are the same scheduler.
#[derive(Debug, Clone)]
pub struct Scheduler {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) node: Arc<Node>,
    pub(crate) options: crate::builder::Options,
    pub(crate) jobs: Mutex<BTreeMap<LockName, Arc<Job>>>,
    pub(crate) running: AtomicBool,
    pub(crate) leading: AtomicBool,
    /// The orders of the fleet are to be read now.
    pub(crate) nudge: Notify,
}

/// A job, as this node sees it now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobView {
    /// Its name.
    pub name: LockName,
    /// When it runs: the schedule of the program, or the one that [replaced](Scheduler::replace) it.
    pub schedule: Schedule,
    /// Whether that is a replacement.
    pub replaced: bool,
    /// Whether its scheduled runs are paused.
    pub paused: bool,
    /// Where it runs.
    pub scope: Scope,
    /// Its next run, unless it is paused.
    pub next_run: Option<UtcTime>,
    /// The time for which nothing runs because its watermark is in the future; zero unless the server's clock was ahead.
    /// [`Scheduler::reset`] ends it.
    pub ahead_by: Duration,
    /// Its runs that have not ended, anywhere in the fleet.
    pub open: Vec<OpenRun>,
}

impl Scheduler {
    /// Begins a scheduler that elects its leader with `locks` and records runs in `ledger`; see [`SchedulerBuilder`].
    ///
    /// The two are usually one Redis: `Scheduler::builder(LockFactory::new(redis.clone()), redis)`. All nodes of a group must
    /// use the same ledger, since it decides which runs start.
    pub fn builder(locks: LockFactory, ledger: impl RunLedger) -> SchedulerBuilder {
        SchedulerBuilder::new(locks, Arc::new(ledger))
    }

    /// Describes a job; [`register`](JobBuilder::register) adds it. All nodes should register the same jobs. Nodes that know
    /// the same jobs elect a leader of their own.
    ///
    /// # Rolling deployments
    /// While nodes of the old and the new program run side by side, a job whose schedule was changed runs at the instants of both
    /// schedules, each instant once: after a change from `0 2 * * *` to `0 3 * * *` it may run twice in that night. A removed job runs
    /// until the last node ends that has it, and a new job runs from the first one on.
    pub fn job<F, W>(&self, name: &str, schedule: Schedule, body: F) -> JobBuilder
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = RunResult> + Send + 'static,
    {
        JobBuilder::new(self.clone(), name, schedule, body)
    }

    pub(crate) fn register(&self, job: Job) -> Result<(), CronError> {
        let refused = |kind| Err(CronError::new(kind).about(format_args!("job `{}`", job.name)));
        // In one step: `run_until` takes the jobs after it has set `running`.
        let mut jobs = lock(&self.inner.jobs);
        if self.inner.running.load(Ordering::SeqCst) {
            return refused(CronErrorKind::Running);
        }
        if jobs.contains_key(&job.name) {
            return refused(CronErrorKind::DuplicateJob);
        }
        jobs.insert(job.name.clone(), Arc::new(job));
        Ok(())
    }

    /// Runs the jobs until `signal` completes, then ends in good order: no further claims; the leadership is given back, so that
    /// another node goes on at once; running bodies finish within the
    /// [shutdown grace](SchedulerBuilder::shutdown_grace), and are told to end after it.
    ///
    /// Outages of the store are waited out.
    ///
    /// # Errors
    /// [`CronErrorKind::Running`] if it runs already, or did; [`CronErrorKind::Store`] if the lock factory was shut down.
    ///
    /// # Cancel safety
    /// Dropping it drops every body where it stands, and their runs are orphans: prefer the signal.
    pub async fn run_until(&self, signal: impl Future<Output = ()>) -> Result<(), CronError> {
        if self.inner.running.swap(true, Ordering::SeqCst) {
            return Err(CronError::new(CronErrorKind::Running));
        }
        Drive::new(self.inner.clone()).run(signal).await
    }

    /// Whether this node leads now.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.inner.leading.load(Ordering::SeqCst)
    }

    /// The jobs that this node registered, in the order of their names, with the orders of the fleet and their open runs.
    ///
    /// # Errors
    /// [`CronErrorKind::Store`].
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn list(&self) -> Result<Vec<JobView>, CronError> {
        let node = &self.inner.node;
        let orders = self.orders().await?;
        let open = node.store.ask(node.store.ledger().open_runs(node.store.group.clone())).await?.outcome;
        let jobs: Vec<_> = lock(&self.inner.jobs).values().cloned().collect();
        let fleet = jobs.iter().filter(|job| job.terms.scope == Scope::Fleet);
        let registrations: Vec<_> = fleet.map(|job| registration(job, orders.get(&job.name))).collect();
        let watermarks = self.watermarks(registrations).await?;
        let now = node.store.now();
        let view = |job: Arc<Job>| {
            let orders = orders.get(&job.name);
            let schedule = effective(&job, orders);
            let paused = orders.is_some_and(|orders| orders.paused);
            let watermark = watermarks.get(&job.name).copied();
            let from = watermark.map_or(now, |watermark| now.max(watermark));
            JobView {
                ahead_by: from.since(now),
                replaced: orders.is_some_and(|orders| orders.schedule.is_some()),
                paused,
                scope: job.terms.scope,
                next_run: if paused { None } else { schedule.next_after(from) },
                open: open.iter().filter(|run| run.job == job.name).cloned().collect(),
                name: job.name.clone(),
                schedule,
            }
        };
        Ok(jobs.into_iter().map(view).collect())
    }

    /// The next `n` runs of a job, by the server's clock and the orders of the fleet: the same on every node. Those of a
    /// paused job are the ones that it would have. The schedule is the program's, so this node has to have registered the job.
    ///
    /// # Errors
    /// [`CronErrorKind::InvalidName`]; [`UnknownJob`](CronErrorKind::UnknownJob) if this node did not register it;
    /// [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn next_runs(&self, job: &str, n: usize) -> Result<Vec<UtcTime>, CronError> {
        let name = LockName::new(job)?;
        let known = lock(&self.inner.jobs).get(&name).cloned();
        let job = known.ok_or_else(|| {
            not_registered_here(&name, "and `next_runs` and `list` tell of jobs that it knows")
        })?;
        let orders = self.orders().await?;
        let orders = orders.get(&job.name);
        let watermarks = match job.terms.scope {
            Scope::Fleet => self.watermarks(vec![registration(&job, orders)]).await?,
            Scope::PerNode => BTreeMap::new(),
        };
        let now = self.inner.node.store.now();
        let from = watermarks.get(&job.name).map_or(now, |watermark| now.max(*watermark));
        Ok(effective(&job, orders).after(from).take(n).collect())
    }

    /// The last attempts of a job that have ended or were skipped, the newest first: at most `n` entries. Of a job of
    /// each node, those of this process. Another node's job is found in the store, so that a tool without jobs may look.
    ///
    /// # Errors
    /// [`CronErrorKind::InvalidName`]; [`UnknownJob`](CronErrorKind::UnknownJob) if this node did not register it and the
    /// store has no attempt of it; [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn history(&self, job: &str, n: usize) -> Result<Vec<Attempt>, CronError> {
        let name = LockName::new(job)?;
        let scope = lock(&self.inner.jobs).get(&name).map(|job| job.terms.scope);
        let node = &self.inner.node;
        if scope == Some(Scope::PerNode) {
            return Ok(node.local_history(&name, n));
        }
        let asked = node.store.ledger().history(node.store.job(&name), n.max(1));
        let mut history = node.store.ask(asked).await?.outcome;
        if scope.is_none() && history.is_empty() {
            return Err(not_registered_here(&name, "and the store has no attempt of it"));
        }
        history.truncate(n);
        Ok(history)
    }

    /// The watermarks of those jobs that the store has.
    async fn watermarks(&self, jobs: Vec<Registration>) -> Result<BTreeMap<LockName, UtcTime>, CronError> {
        if jobs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let store = &self.inner.node.store;
        let asked = store.ask(store.ledger().watermarks(store.group.clone(), jobs.clone())).await?;
        let known = jobs.into_iter().zip(asked.outcome);
        Ok(known.filter_map(|(job, watermark)| Some((job.job, UtcTime::from(watermark?)))).collect())
    }

    /// The orders of the fleet, whatever this node knows of them.
    async fn orders(&self) -> Result<BTreeMap<LockName, JobControls>, CronError> {
        let store = &self.inner.node.store;
        match store.ask(store.ledger().controls(store.group.clone(), u64::MAX)).await?.outcome {
            FleetControls::Changed { jobs, .. } => Ok(jobs.into_iter().collect()),
            _ => Ok(BTreeMap::new()),
        }
    }
}

fn not_registered_here(job: &LockName, more: &str) -> CronError {
    CronError::new(CronErrorKind::UnknownJob)
        .about(format_args!("this node did not register a job of the name `{job}`, {more}"))
}

/// A job as the ledger knows it.
pub(crate) fn registration(job: &Job, orders: Option<&JobControls>) -> Registration {
    Registration { job: job.name.clone(), schedule: effective(job, orders).identity() }
}

/// The schedule that the fleet was told, or else that of the program.
pub(crate) fn effective(job: &Job, orders: Option<&JobControls>) -> Schedule {
    let Some(text) = orders.and_then(|orders| orders.schedule.as_deref()) else {
        return job.schedule.clone();
    };
    let read = Schedule::cron(text).and_then(|schedule| schedule.for_job(job.name.as_str()));
    match read {
        Ok(schedule) => schedule.on_dst(job.schedule.dst_policy()),
        Err(error) => {
            // Stored by another version of the program, or for a zone that this machine does not know.
            tracing::error!(cron.job = %job.name, %error, "the schedule of the fleet cannot be read here");
            job.schedule.clone()
        }
    }
}
