//! A job: when, what, and on which terms.

use crate::{
    context::RunContext,
    error::{CronError, CronErrorKind},
    options::{JobTerms, Misfire, OnOrphan, Overlap, Retries, Scope, StartJitter},
    schedule::Schedule,
    scheduler::Scheduler,
    time::UtcTime,
};
use lock_core::LockName;
use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

/// What a body gives: nothing, or why it failed.
pub type RunResult = Result<(), Box<dyn Error + Send + Sync>>;

type Body = Arc<dyn Fn(RunContext) -> Pin<Box<dyn Future<Output = RunResult> + Send>> + Send + Sync>;

/// A job as it was registered.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) name: LockName,
    pub(crate) schedule: Schedule,
    pub(crate) terms: JobTerms,
    pub(crate) body: Body,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, schedule, terms, .. } = self;
        f.debug_struct("Job").field("name", name).field("schedule", schedule).field("terms", terms).finish()
    }
}

/// A job that is being described; [`register`](Self::register) makes it known.
///
/// | term | default |
/// | --- | --- |
/// | [`overlap`](Self::overlap) | [`Overlap::Skip`] |
/// | [`misfire`](Self::misfire) | [`Misfire::FireOnce`] |
/// | [`grace`](Self::grace) | half the distance to the next instant; 24 h if there is none |
/// | [`on_orphan`](Self::on_orphan) | [`OnOrphan::Skip`] |
/// | [`retries`](Self::retries) | none |
/// | [`timeout`](Self::timeout) | none |
/// | [`cancel_grace`](Self::cancel_grace) | 5 s |
/// | [`jitter`](Self::jitter) | none |
/// | [`scope`](Self::scope) | [`Scope::Fleet`] |
#[must_use = "a job runs only if it is registered"]
#[derive(Debug)]
pub struct JobBuilder {
    scheduler: Scheduler,
    name: String,
    schedule: Schedule,
    terms: JobTerms,
    body: BodySlot,
}

struct BodySlot(Body);

impl fmt::Debug for BodySlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("body")
    }
}

impl JobBuilder {
    pub(crate) fn new<F, W>(scheduler: Scheduler, name: &str, schedule: Schedule, body: F) -> Self
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = RunResult> + Send + 'static,
    {
        let body: Body = Arc::new(move |run| Box::pin(body(run)));
        Self { scheduler, name: name.to_owned(), schedule, terms: JobTerms::default(), body: BodySlot(body) }
    }

    /// What becomes of a run while others of this job are open.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.terms.overlap = overlap;
        self
    }

    /// Sets which missed instants are started: those that nobody started within their [grace](Self::grace).
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.terms.misfire = misfire;
        self
    }

    /// Sets how late a run may start before it is missed and the [misfire policy](Self::misfire) decides about it; at least a second.
    /// An instant is also missed when a later one has come.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.terms.grace = Some(grace);
        self
    }

    /// What becomes of a run whose node died.
    pub fn on_orphan(mut self, on_orphan: OnOrphan) -> Self {
        self.terms.on_orphan = on_orphan;
        self
    }

    /// Whether a run that failed is tried again.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.terms.retries = retries;
        self
    }

    /// How long one attempt may take. The body is told by [`RunContext::cancelled`], and dropped after
    /// the [grace](Self::cancel_grace) for that.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.terms.timeout = Some(timeout);
        self
    }

    /// How long a body that was told to end may take to do so.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.terms.cancel_grace = grace;
        self
    }

    /// Sets a wait before the body begins: at most a day, and at most the distance between two instants of the schedule.
    pub fn jitter(mut self, jitter: StartJitter) -> Self {
        self.terms.jitter = jitter;
        self
    }

    /// Whether it runs once in the fleet or on every node.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.terms.scope = scope;
        self
    }

    /// Adds the job to this scheduler. It does no IO: the leader makes the job known to the store, and from then on its instants
    /// count. A new job, a job whose schedule was changed, and a job that comes back never run for the past. A job comes back if no
    /// leader had it for 10 minutes while the group had a leader. A schedule without an instant left is logged as a warning.
    ///
    /// # Errors
    /// [`CronErrorKind::InvalidName`], [`InvalidOptions`](CronErrorKind::InvalidOptions),
    /// [`InvalidSchedule`](CronErrorKind::InvalidSchedule) for a schedule with `H` that fits no date with this name,
    /// [`DuplicateJob`](CronErrorKind::DuplicateJob), [`Running`](CronErrorKind::Running). The job is not registered then.
    pub fn register(self) -> Result<(), CronError> {
        let name = LockName::new(&self.name)?;
        if name.as_str().len() > MAX_JOB_NAME {
            let about = format!("a job name has {} bytes: use at most {MAX_JOB_NAME}", name.as_str().len());
            return Err(CronError::new(CronErrorKind::InvalidName).about(about));
        }
        check(&self.terms)?;
        let schedule = self.schedule.for_job(name.as_str())?;
        let now = self.scheduler.inner.node.store.now();
        check_jitter(self.terms.jitter, &schedule, now)?;
        if schedule.next_after(now).is_none() {
            tracing::warn!(cron.job = %name, %schedule, "the schedule has no instant left, so the job never runs");
        }
        self.scheduler.register(Job { name, schedule, terms: self.terms, body: self.body.0 })
    }
}

/// The longest name of a group or a job, in bytes.
pub(crate) const MAX_JOB_NAME: usize = 200;

/// Leaves time to plan and to claim a run.
const MIN_GRACE: Duration = Duration::from_secs(1);

const LONGEST_JITTER: Duration = Duration::from_secs(86_400);

/// How many instants of a schedule are compared with the jitter.
const COMPARED: usize = 100;

/// A wait that is longer than the distance between two instants would make the job skip instants.
fn check_jitter(jitter: StartJitter, schedule: &Schedule, now: UtcTime) -> Result<(), CronError> {
    let (StartJitter::Fixed(most) | StartJitter::Random(most)) = jitter else { return Ok(()) };
    let instants: Vec<_> = schedule.after(now).take(COMPARED).collect();
    let shortest = instants.windows(2).map(|pair| pair[1].since(pair[0])).min();
    match shortest.filter(|shortest| most > *shortest) {
        Some(shortest) => {
            let about =
                format!("the jitter is longer than the {shortest:?} between two instants: use at most that");
            Err(CronError::new(CronErrorKind::InvalidOptions).about(about))
        }
        None => Ok(()),
    }
}

fn check(terms: &JobTerms) -> Result<(), CronError> {
    let refuse = |about: &str| Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
    if terms.overlap == (Overlap::Allow { max: 0 }) {
        return refuse("`Overlap::Allow { max: 0 }` would run nothing: use at least 1");
    }
    if terms.misfire == (Misfire::FireAll { max: 0 }) {
        return refuse("`Misfire::FireAll { max: 0 }` would run nothing: use `Misfire::Skip`");
    }
    if terms.grace.is_some_and(|grace| grace < MIN_GRACE) {
        return refuse(
            "a grace shorter than a second would miss runs on a busy machine: use at least a second",
        );
    }
    if terms.timeout == Some(Duration::ZERO) {
        return refuse("a timeout of zero would end every run at once: leave it out for none");
    }
    if let StartJitter::Fixed(most) | StartJitter::Random(most) = terms.jitter
        && most > LONGEST_JITTER
    {
        return refuse("the jitter is longer than a day: give the job another schedule");
    }
    if terms.scope == Scope::PerNode && (terms.on_orphan != OnOrphan::Skip || terms.retries.max > 0) {
        return refuse("a job of each node has no record, so it cannot be retried: try again in its body");
    }
    Ok(())
}
