//! The builder of a job, and the validation of its terms.

use crate::{
    context::RunContext,
    error::{CronError, CronErrorKind},
    job::{Body, Job, Kind, RunResult, pool_name, static_name},
    options::{Jitter, JobTerms, Misfire, OnOrphan, Overlap, Placement, Retries},
    schedule::Schedule,
    shared::Shared,
};
use lock_core::clock::UtcTime;
use lock_ledger::PoolLimit;
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// The builder of a job or of a kind of jobs; [`register`](Self::register) adds it to its scheduler.
///
/// | term | default |
/// | --- | --- |
/// | [`overlap`](Self::overlap) | [`Overlap::Skip`] |
/// | [`pool`](Self::pool) | none |
/// | [`misfire`](Self::misfire) | [`Misfire::FireOnce`] |
/// | [`grace`](Self::grace) | half the interval to the next run; 24 h if there is none |
/// | [`on_orphan`](Self::on_orphan) | [`OnOrphan::Skip`] |
/// | [`retries`](Self::retries) | none |
/// | [`timeout`](Self::timeout) | none |
/// | [`cancel_grace`](Self::cancel_grace) | 5 s |
/// | [`jitter`](Self::jitter) | none |
/// | [`alert_after`](Self::alert_after) | none |
/// | [`placement`](Self::placement) | [`Placement::Spread`] |
#[must_use = "a job runs only if it is registered"]
#[derive(Debug)]
pub struct JobBuilder {
    shared: Arc<Shared>,
    name: String,
    /// `None` for a kind.
    schedule: Option<Schedule>,
    terms: JobTerms,
    /// The name and the limit, not yet validated.
    pool: Option<(String, u32)>,
    body: BodySlot,
}

struct BodySlot(Body);

impl fmt::Debug for BodySlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("body")
    }
}

impl JobBuilder {
    pub(crate) fn new<F, W>(shared: Arc<Shared>, name: &str, schedule: Option<Schedule>, body: F) -> Self
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = RunResult> + Send + 'static,
    {
        let body: Body = Arc::new(move |run| Box::pin(body(run)));
        let (name, terms, body) = (name.to_owned(), JobTerms::default(), BodySlot(body));
        Self { shared, name, schedule, terms, pool: None, body }
    }

    /// Sets the policy for a run that is due while other runs of this job are open.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.terms.overlap = overlap;
        self
    }

    /// Limits the open runs of all jobs in this pool to `max` at a time across the whole group,
    /// even if nodes die. A kind's instances share its pool. Each job has at most one pool.
    /// [`max_running`] limits the runs per node.
    ///
    /// A run occupies its slot until its end is recorded, including while it waits for its next
    /// [attempt](Retries). If the node of a run dies, its slot is freed when the [`run_lease`]
    /// expires, and the next attempt needs a slot again. Triggered runs and catch-up runs also
    /// need a slot.
    ///
    /// If the pool is full, a run waits for a free slot. It starts immediately if a run of the
    /// pool ends on its node or on the leader, and otherwise within about 5 s. On each node, the
    /// run that has waited longest starts first. An on-time run whose [grace](Self::grace) has
    /// passed is skipped as [`NoCapacity`]. A triggered run waits until its trigger expires;
    /// catch-up runs and further attempts wait without limit.
    ///
    /// The claiming node's limit applies. While nodes with different limits run side by side,
    /// as in a deployment, each node uses its own limit. Runs claimed without the pool are not
    /// counted.
    ///
    /// ```
    /// use lock_core::{LockFactory, MemoryBackend};
    /// use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    ///
    /// let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// for report in ["sales", "stock", "returns"] {
    ///     let nightly = Schedule::cron("0 2 * * *")?;
    ///     cron.job(report, nightly, |_: RunContext| async { Ok(()) }).pool("heavy", 2).register()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`register`](Self::register) rejects a limit of 0, an invalid name, and a limit that differs
    /// from that of another job with the same pool in this scheduler.
    ///
    /// [`max_running`]: crate::SchedulerBuilder::max_running
    /// [`run_lease`]: crate::SchedulerBuilder::run_lease
    /// [`NoCapacity`]: crate::observer::SkipReason::NoCapacity
    pub fn pool(mut self, name: &str, max: u32) -> Self {
        self.pool = Some((name.to_owned(), max));
        self
    }

    /// Sets the policy for missed runs, which were not started within their [grace](Self::grace).
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.terms.misfire = misfire;
        self
    }

    /// Sets the maximum lateness of a run, at least a second. After that, the run counts as missed
    /// and the [misfire policy](Self::misfire) applies. A run is also missed if a later one has
    /// become due.
    ///
    /// The store checks the grace by its own clock, so a run whose claim was delayed or not answered
    /// does not start after it either, except as a catch-up run. The grace does not limit runs that
    /// the [overlap policy](Self::overlap) lets wait for other runs. A claim that the store granted
    /// within the grace starts its body even if the reply arrives later.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.terms.grace = Some(grace);
        self
    }

    /// Sets the policy for a run whose node died.
    pub fn on_orphan(mut self, on_orphan: OnOrphan) -> Self {
        self.terms.on_orphan = on_orphan;
        self
    }

    /// Sets the retries of a failed run.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.terms.retries = retries;
        self
    }

    /// Sets the timeout of an attempt. The body is told to stop through [`RunContext::cancelled`],
    /// and dropped after its [grace](Self::cancel_grace).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.terms.timeout = Some(timeout);
        self
    }

    /// Sets the time for which a body may continue after being told to stop.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.terms.cancel_grace = grace;
        self
    }

    /// Sets a delay before the body starts: at most a day, and at most the interval between two
    /// runs.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.terms.jitter = jitter;
        self
    }

    /// Sets the time without a success after which the job is *overdue*: at least a minute, and
    /// longer than the interval between two runs. Add the usual duration and some slack to the
    /// interval, such as 26 h for a daily job.
    ///
    /// The time is measured by the server's clock from the latest of the last success, the
    /// registration of the schedule, and the last change of the job's controls by an operator, such
    /// as a resume. It survives restarts and outages of the fleet. The leader checks it every
    /// minute and reports an overdue job with a warning, a metric and
    /// [`CronEvent::Overdue`](crate::observer::CronEvent::Overdue);
    /// [`JobInfo::overdue`](crate::JobInfo::overdue) and the console show it. A paused job is not
    /// overdue.
    ///
    /// For a kind, the time applies to each instance, and is measured from the last change of its
    /// schedule or, if it runs once, from its scheduled time. Choose a time that suits the instance
    /// with the longest interval.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # use std::time::Duration;
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) })
    ///     .alert_after(Duration::from_secs(26 * 60 * 60))
    ///     .register()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn alert_after(mut self, time: Duration) -> Self {
        self.terms.alert_after = Some(time);
        self
    }

    /// Sets the nodes that start the on-time runs of the job: any node, or the leader.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.terms.placement = placement;
        self
    }

    /// Adds the job or the kind to this scheduler, without performing any IO. The leader registers
    /// the job in the store, and the job runs from then on. A new job, a job with a changed
    /// schedule, and a returning job never run for scheduled times that have already passed. A job
    /// is returning if no leader had registered it for 10 minutes while the group had a leader. A
    /// schedule without upcoming runs is logged as a warning.
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`] if the name of the job or of its pool is invalid, or if the job's name
    /// contains a slash; [`InvalidOptions`](CronErrorKind::InvalidOptions);
    /// [`InvalidSchedule`](CronErrorKind::InvalidSchedule) for a schedule with `H` that matches no date with this name;
    /// [`DuplicateJob`](CronErrorKind::DuplicateJob); [`Running`](CronErrorKind::Running);
    /// [`Ended`](CronErrorKind::Ended). After an error, the job is not registered.
    pub fn register(self) -> Result<(), CronError> {
        let Self { shared, name: text, schedule, mut terms, pool, body: BodySlot(body) } = self;
        let add = || {
            let name = static_name(&text)?;
            terms.pool = pool.map(|(name, max)| pool_limit(&name, max)).transpose()?;
            check(&terms)?;
            let Some(schedule) = schedule else {
                return shared.insert_kind(name, Kind { terms, body });
            };
            let schedule = schedule.for_job(&text)?;
            let now = shared.node.ledger.now();
            check_distances(&terms, &schedule, now)?;
            if schedule.next_after(now).is_none() {
                tracing::warn!(
                    cron.job = %name, %schedule, "schedule has no upcoming run times; the job will not run"
                );
            }
            shared.insert(Job { name, schedule, terms, body, definition: 0, since: None })
        };
        add().map_err(|error: CronError| error.of_job(&text))
    }
}

/// The minimum grace, which leaves time to plan and claim a run.
const MIN_GRACE: Duration = Duration::from_secs(1);

const MAX_JITTER: Duration = Duration::from_secs(86_400);

/// The minimum time without a success before an alert. It is checked every minute.
const MIN_ALERT_AFTER: Duration = Duration::from_secs(60);

/// The number of scheduled times that are checked against the terms.
const COMPARED_INSTANTS: usize = 100;

/// Rejects a jitter longer than the shortest interval between two runs, because the job would skip
/// runs. Rejects an `alert_after` no longer than the longest interval, because the job would be
/// overdue between its runs.
fn check_distances(terms: &JobTerms, schedule: &Schedule, now: UtcTime) -> Result<(), CronError> {
    let jitter = match terms.jitter {
        Jitter::None => None,
        Jitter::Fixed(max) | Jitter::Random(max) => Some(max),
    };
    if jitter.or(terms.alert_after).is_none() {
        return Ok(());
    }
    let instants: Vec<_> = schedule.after(now).take(COMPARED_INSTANTS).collect();
    let distances = || instants.windows(2).map(|pair| pair[1].since(pair[0]));
    let invalid = |about| Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
    if let (Some(max), Some(shortest)) = (jitter, distances().min())
        && max > shortest
    {
        return invalid(format!(
            "the jitter exceeds the shortest interval between two runs: use at most {shortest:?}"
        ));
    }
    if let (Some(after), Some(longest)) = (terms.alert_after, distances().max())
        && after <= longest
    {
        return invalid(format!(
            "`alert_after` is {after:?}, but two runs may be {longest:?} apart: use a longer time"
        ));
    }
    Ok(())
}

fn pool_limit(name: &str, max: u32) -> Result<PoolLimit, CronError> {
    let limit = match max {
        0 => Err(CronError::new(CronErrorKind::InvalidOptions)
            .about("a limit of 0 would prevent every run: use at least 1, or pause the job")),
        _ => pool_name(name).map(|name| PoolLimit { name, max }),
    };
    limit.map_err(|error| error.of_pool(name))
}

fn check(terms: &JobTerms) -> Result<(), CronError> {
    let refuse = |about: &str| Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
    if terms.overlap == (Overlap::Allow { max: 0 }) {
        return refuse("`Overlap::Allow { max: 0 }` would prevent every run: use at least 1");
    }
    if terms.misfire == (Misfire::FireAll { max: 0 }) {
        return refuse("`Misfire::FireAll { max: 0 }` would start no missed runs: use `Misfire::Skip`");
    }
    if terms.grace.is_some_and(|grace| grace < MIN_GRACE) {
        return refuse(
            "a grace shorter than a second would cause missed runs on a busy machine: use at least a second",
        );
    }
    if terms.timeout == Some(Duration::ZERO) {
        return refuse("a timeout of zero would end every run immediately: omit it for no timeout");
    }
    if terms.alert_after.is_some_and(|after| after < MIN_ALERT_AFTER) {
        return refuse(
            "`alert_after` is shorter than a minute, the interval at which it is checked: use at least a minute",
        );
    }
    if let Jitter::Fixed(max) | Jitter::Random(max) = terms.jitter
        && max > MAX_JITTER
    {
        return refuse("the jitter is longer than a day: use at most a day, or change the schedule");
    }
    Ok(())
}
