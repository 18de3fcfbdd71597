//! The scheduler of a node: its options and their validation, its jobs, and its run.

use crate::{
    context::RunContext,
    error::{CronError, CronErrorKind},
    job::{MAX_NAME_BYTES, RunResult},
    job_builder::JobBuilder,
    ledger_client::LedgerClient,
    observer::{CronObserver, Observers},
    run_loop::RunLoop,
    running::RunningRuns,
    schedule::Schedule,
    shared::{Lifecycle, LoopTerms, Node, RunTerms, Shared, ShutdownProgress},
};
use lock_core::{__private::lock, LockFactory, LockOptions, backend::ProcessId};
use lock_ledger::{DEFAULT_HISTORY, GroupName, MAX_HISTORY, RunLedger};
use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A scheduler of cron jobs that start exactly once across a fleet.
///
/// Every node of a group registers its jobs and runs its scheduler. A hash of the job and the
/// scheduled time selects the node that starts a run; see [`Placement`](crate::Placement). One node
/// is elected leader: it makes up for missed runs, takes over the runs of dead nodes, and starts
/// triggered runs. The hash and the election only improve efficiency. A claim of (job, scheduled
/// time) in the store ensures that each run is started once, so nodes that disagree are harmless.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{LockFactory, MemoryBackend, clock::TestClock};
/// use lock_cron::{MemoryLedger, Overlap, Schedule, Scheduler};
/// use std::{sync::Arc, time::Duration};
///
/// // In production, `distlock::connect_with_ledger(url).await?` returns both, on every node.
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
/// # Guarantees
/// There is exactly one *start* per scheduled time, as long as the store keeps its data, and no
/// start before the scheduled time by the server's clock. The *effects* of a run happen only once
/// if the resource checks the [token](crate::RunContext::fencing_token) or the
/// [id](crate::RunContext::id) of the run. The runs of a node that dies end with it, unless
/// [`on_orphan`](crate::JobBuilder::on_orphan) retries them.
///
/// # Data in the store
/// For each job, the store keeps a history and a watermark, the time up to which the job's scheduled runs are decided.
/// For a job defined in code, they never expire, even after the job is removed from the program. For an instance,
/// [`forget`](Self::forget) removes them.
///
/// Clones refer to the same scheduler.
#[derive(Debug, Clone)]
pub struct Scheduler {
    pub(crate) shared: Arc<Shared>,
}

impl Scheduler {
    /// Creates a builder for a scheduler that elects its leader with `locks` and records runs in
    /// `ledger`. See [`SchedulerBuilder`].
    ///
    /// Both usually use the same store, as `distlock::connect_with_ledger` returns them. All nodes of a group must use the
    /// same ledger, because it decides which runs start.
    ///
    /// ```
    /// use lock_core::{LockFactory, MemoryBackend};
    /// use lock_cron::{MemoryLedger, Scheduler};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let cron = Scheduler::builder(locks, MemoryLedger::new()).group("billing").node("billing-1").build()?;
    /// # Ok::<(), lock_cron::CronError>(())
    /// ```
    pub fn builder(locks: LockFactory, ledger: impl RunLedger) -> SchedulerBuilder {
        SchedulerBuilder::new(locks, Arc::new(ledger))
    }

    /// Creates a builder for a job; [`register`](JobBuilder::register) adds it. All nodes should register the same
    /// jobs. Nodes with the same set of jobs elect their own leader.
    ///
    /// ```
    /// use lock_core::{LockFactory, MemoryBackend};
    /// use lock_cron::{MemoryLedger, Retries, RunContext, Schedule, Scheduler};
    ///
    /// let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// cron.job("invoices", Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?, |run: RunContext| async move {
    ///     println!("{} under token {}", run.scheduled_at(), run.fencing_token());
    ///     Ok(())
    /// })
    /// .retries(Retries::times(3))
    /// .register()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Rolling deployments
    /// While nodes with the old and the new program run side by side, a job with a changed schedule
    /// runs at the times of both schedules, once per time. After a change from `0 2 * * *` to
    /// `0 3 * * *`, the job may run twice that night. A removed job runs until the last node that
    /// registered it stops. A new job runs as soon as the first node has registered it.
    pub fn job<F, W>(&self, name: &str, schedule: Schedule, body: F) -> JobBuilder
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = RunResult> + Send + 'static,
    {
        JobBuilder::new(self.shared.clone(), name, Some(schedule), body)
    }

    /// Creates a builder for a kind of jobs: a body and its terms, without a schedule.
    /// [`register`](JobBuilder::register) adds it. Any node can [add](Self::add) instances at run
    /// time, each with a schedule and a [payload](RunContext::payload). The nodes that registered
    /// the kind start their runs.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_cron::{AddOutcome, MemoryLedger, RunContext, Schedule, Scheduler};
    /// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
    /// # let cron = Scheduler::builder(locks, MemoryLedger::new()).build()?;
    /// cron.kind("import", |run: RunContext| async move {
    ///     let tenant: u32 = run.payload()?;
    ///     println!("import tenant {tenant}");
    ///     Ok(())
    /// })
    /// .register()?;
    ///
    /// // At any time, on any node:
    /// let quarterly = Schedule::cron("H/15 * * * *")?;
    /// assert_eq!(cron.add("import", "tenant-7", quarterly, &7).await?, AddOutcome::Added);
    /// assert!(cron.remove("import", "tenant-7").await?);
    /// # Ok(()) }
    /// ```
    pub fn kind<F, W>(&self, name: &str, body: F) -> JobBuilder
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = RunResult> + Send + 'static,
    {
        JobBuilder::new(self.shared.clone(), name, None, body)
    }

    /// Runs the jobs until `signal` completes, then shuts down gracefully. The scheduler claims no
    /// further runs and resigns, so another node continues immediately. Running bodies may finish
    /// within the [shutdown grace](crate::SchedulerBuilder::shutdown_grace). After that, they are
    /// told to stop.
    ///
    /// During store outages, the scheduler waits and retries.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// let shutdown = tokio::time::sleep(std::time::Duration::from_millis(50)); // in production: SIGTERM
    /// cron.run_until(shutdown).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::Running`] if the scheduler is already running, [`Ended`](CronErrorKind::Ended) if it
    /// has already ended, and [`Store`](CronErrorKind::Store) if the lock factory was shut down.
    ///
    /// # Cancel safety
    /// Dropping the future drops every body at its current await point, and the runs become
    /// orphans. Prefer the signal.
    pub async fn run_until(&self, signal: impl Future<Output = ()>) -> Result<(), CronError> {
        let (jobs, kinds) = {
            let mut registry = lock(&self.shared.registry);
            registry.check_new()?;
            registry.lifecycle = Lifecycle::Running;
            (registry.jobs.clone(), registry.kinds.clone())
        };
        RunLoop::new(self.shared.clone(), jobs, kinds).run(signal).await
    }

    /// Returns `true` if this node is currently the leader.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// assert!(!cron.is_leading(), "it does not run yet");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.shared.leading.load(Ordering::SeqCst)
    }
}

/// Options for a [`Scheduler`].
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`group`](Self::group) | `default` | the name shared by the schedulers of a group |
/// | [`node`](Self::node) | the factory's process id | the name of this process in the history |
/// | [`leadership_lease`](Self::leadership_lease) | 10 s | the time within which another node takes over after the leader dies |
/// | [`run_lease`](Self::run_lease) | 30 s | the time after which a run whose node died is an orphan |
/// | [`shutdown_grace`](Self::shutdown_grace) | 20 s | the time that a shutdown waits for claims and running bodies |
/// | [`trigger_life`](Self::trigger_life) | 10 min | the maximum time a trigger waits for a leader |
/// | [`max_running`](Self::max_running) | no limit | the maximum number of simultaneous runs on this node |
/// | [`history`](Self::history) | 100 | the length of each job's history, in entries |
/// | [`observer`](Self::observer) | none | an observer in addition to the `tracing` events |
#[derive(Debug)]
#[must_use]
pub struct SchedulerBuilder {
    locks: LockFactory,
    ledger: Arc<dyn RunLedger>,
    group: String,
    node: Option<String>,
    leadership_lease: Duration,
    run_lease: Duration,
    shutdown_grace: Duration,
    trigger_life: Duration,
    max_running: Option<u32>,
    history: u32,
    observers: Vec<Arc<dyn CronObserver>>,
}

/// The maximum life of a trigger.
const MAX_TRIGGER_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The maximum timeout of a request to the run ledger. Short leases shorten the timeout.
const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum length of a node's name, in characters.
const MAX_NODE_NAME: usize = 200;

impl SchedulerBuilder {
    fn new(locks: LockFactory, ledger: Arc<dyn RunLedger>) -> Self {
        Self {
            locks,
            ledger,
            group: "default".to_owned(),
            node: None,
            leadership_lease: Duration::from_secs(10),
            run_lease: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(20),
            trigger_life: Duration::from_secs(600),
            max_running: None,
            history: DEFAULT_HISTORY,
            observers: Vec::new(),
        }
    }

    /// Sets the name of the group. All schedulers with the same name on the same store form a
    /// group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Sets a readable name for this process, for example its host name.
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Sets the leadership lease. When the leader dies, another node takes over within this time
    /// plus a second.
    pub fn leadership_lease(mut self, lease: Duration) -> Self {
        self.leadership_lease = lease;
        self
    }

    /// Sets the lease of a run. A run whose node died stays open until its lease expires. With
    /// `Overlap::Skip`, runs that become due before that are skipped, because the earlier run may
    /// still be in progress.
    ///
    /// The timeout of a request to the run ledger is a tenth of the shorter of the two leases, and at most 3 s.
    pub fn run_lease(mut self, lease: Duration) -> Self {
        self.run_lease = lease;
        self
    }

    /// Sets the time that a shutdown waits for pending claims and running bodies. After that,
    /// bodies are told to stop, and have their
    /// [`cancel_grace`](crate::JobBuilder::cancel_grace) to do so. The defaults of 20 s and 5 s fit within
    /// the 30 s after which Kubernetes kills a process. With `Duration::MAX`, the shutdown waits
    /// for all bodies.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Sets the time after which a [trigger](Scheduler::trigger) sent by this node expires, from a
    /// second to a week.
    pub fn trigger_life(mut self, life: Duration) -> Self {
        self.trigger_life = life;
        self
    }

    /// Sets the maximum number of simultaneous runs on this node, which must be at least 1. A run
    /// counts from its claim to its recorded end, including retries. A node without room leaves
    /// runs for other nodes. If no node has room within the run's
    /// [grace](crate::JobBuilder::grace), the run is skipped as
    /// [`NoCapacity`](crate::observer::SkipReason::NoCapacity). Catch-up runs and triggers wait for
    /// room on the leader. If they have waited for 3 s while another node has room, and this node has
    /// led for at least its [`leadership_lease`](Self::leadership_lease), that node takes over the
    /// leadership.
    pub fn max_running(mut self, runs: u32) -> Self {
        self.max_running = Some(runs);
        self
    }

    /// Sets the length of each job's history, from 1 to 1000 entries. Adjacent skips with the same
    /// reason count as one entry.
    pub fn history(mut self, entries: u32) -> Self {
        self.history = entries;
        self
    }

    /// Adds an observer, for example `observer::OtelCronObserver`.
    pub fn observer(mut self, observer: impl CronObserver) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Creates the scheduler, without performing any IO.
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`] if the group name is invalid, and [`CronErrorKind::InvalidOptions`] if a
    /// lease is shorter than a second or rejected by the lock factory, or if another option is out of range.
    pub fn build(self) -> Result<Scheduler, CronError> {
        if self.group.is_empty() {
            let about = "the group name is empty: use a name such as `billing`, or omit it for `default`";
            return Err(CronError::new(CronErrorKind::InvalidName).about(about));
        }
        let in_group = |error| CronError::from(error).about(format_args!("group `{}`", self.group));
        let group = GroupName::new(&self.group).map_err(in_group)?;
        let invalid = |about: String| CronError::new(CronErrorKind::InvalidOptions).about(about);
        if self.group.len() > MAX_NAME_BYTES {
            let about =
                format!("the group name is {} bytes long: use at most {MAX_NAME_BYTES}", self.group.len());
            return Err(CronError::new(CronErrorKind::InvalidName).about(about));
        }
        for (option, lease) in [("leadership_lease", self.leadership_lease), ("run_lease", self.run_lease)] {
            if lease < Duration::from_secs(1) {
                return Err(invalid(format!("`{option}` is {lease:?}: use at least a second")));
            }
            if let Err(error) = self.locks.check_options(&LockOptions::new().lease(lease)) {
                return Err(invalid(format!("`{option}`: {error:#}")));
            }
        }
        if !(1..=MAX_HISTORY).contains(&self.history) {
            return Err(invalid(format!("`history` is {}: use 1 to {MAX_HISTORY} entries", self.history)));
        }
        if !(Duration::from_secs(1)..=MAX_TRIGGER_LIFE).contains(&self.trigger_life) {
            return Err(invalid(format!(
                "`trigger_life` is {:?}: use a second to a week",
                self.trigger_life
            )));
        }
        if self.max_running == Some(0) {
            return Err(invalid("`max_running` is 0: use at least 1, or omit it for no limit".to_owned()));
        }
        let name = self.node.unwrap_or_else(|| self.locks.process_id().to_string());
        if name.chars().count() > MAX_NODE_NAME {
            return Err(invalid(format!(
                "the node name is too long: use at most {MAX_NODE_NAME} characters"
            )));
        }
        let shorter = self.leadership_lease.min(self.run_lease);
        let (clock, timeout) = (self.locks.clock().clone(), (shorter / 10).min(MAX_REQUEST_TIMEOUT));
        let node = Node {
            id: *ProcessId::random().as_uuid(),
            name,
            locks: self.locks,
            ledger: LedgerClient::new(self.ledger, clock, group, timeout),
            terms: RunTerms {
                lease: self.run_lease,
                history: self.history,
                trigger_life: self.trigger_life,
                max_running: self.max_running.unwrap_or(u32::MAX),
            },
            observers: Observers::new(&self.group, self.observers),
            running: RunningRuns::default(),
            shutdown: ShutdownProgress::default(),
        };
        let leadership = LockOptions::new().lease(self.leadership_lease);
        let shared = Shared {
            node: Arc::new(node),
            terms: LoopTerms {
                leadership,
                leadership_lease: self.leadership_lease,
                shutdown_grace: self.shutdown_grace,
            },
            registry: Mutex::default(),
            leading: AtomicBool::new(false),
            wake: Notify::new(),
        };
        Ok(Scheduler { shared: Arc::new(shared) })
    }
}
