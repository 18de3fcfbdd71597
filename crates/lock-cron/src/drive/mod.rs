//! The drive: carries out what the planner says. One loop, and one set of tasks; nobody else spawns.
//!
//! Everything that takes time is an [`Effect`]: a task of the set, whose result is an event of the loop. Dropping the loop drops
//! the set, and with it whatever is under way.

mod events;
mod lead;
mod unowned;

use crate::{
    error::CronError,
    job::Job,
    node::Ending,
    observer::CronEvent,
    options::Scope,
    plan::{Budget, ClaimOutcome, Due, Planner},
    running::{Held, Why},
    scheduler::Inner,
    start::Granted,
};
use futures_util::FutureExt;
use lock_core::{
    __private::lock,
    LockError, LockGuard, LockName, LostReason,
    backend::{Applied, BackendError, BackendErrorKind},
    clock::Moment,
};
use lock_ledger::{FleetControls, OpenRun, RegisteredJob, Registration, RenewRun, RunId, RunRenewal};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::{JoinError, JoinSet, yield_now},
    time::{Instant, sleep_until},
};

/// The longest sleep, so that a step of a clock and a machine that was suspended are noticed.
const SLICE: Duration = Duration::from_secs(1);

/// How often the orders of the fleet are read.
const ORDERS_EVERY: Duration = Duration::from_secs(1);

/// The longest period of a task that is repeated, whatever the leases.
const MAX_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

type Asked<T> = Result<T, BackendError>;

/// What a task came to.
enum Effect {
    Elected(Box<Result<LockGuard, LockError>>),
    /// The task of the election panicked.
    NotElected,
    Registered(Vec<Registration>, Asked<Vec<RegisteredJob>>),
    Orders(Asked<FleetControls>),
    Open(Asked<Vec<OpenRun>>),
    Kept(Moment, Vec<(LockName, RunId, Held)>, Asked<Vec<RunRenewal>>),
    Claimed(Due, ClaimOutcome, Option<Box<Granted>>),
    Adopted(LockName, RunId, Option<Box<Granted>>),
    Over(LockName, RunId),
    Resigned,
}

/// The phase of the scheduler. Draining and finishing have one deadline together; `None` is none.
enum Phase {
    Running,
    /// Nothing is claimed; the claims in flight are awaited.
    Draining(Option<Instant>),
    /// The leadership is given back; running bodies finish.
    Finishing(Option<Instant>),
    /// Bodies were told to end.
    Ending,
}

struct Leadership {
    guard: LockGuard,
    lost: Pin<Box<dyn Future<Output = LostReason> + Send>>,
}

pub(crate) struct Drive {
    inner: Arc<Inner>,
    jobs: BTreeMap<LockName, Arc<Job>>,
    planner: Planner,
    effects: JoinSet<Effect>,
    leadership: Option<Leadership>,
    /// The jobs that this node has registered: one that is new again was lost.
    registered: BTreeSet<LockName>,
    next_register: Instant,
    known_orders: u64,
    reading_orders: bool,
    keeping: bool,
    claims: usize,
    adopting: BTreeSet<(LockName, RunId)>,
    resigning: bool,
    unowned: unowned::Unowned,
    next_orders: Instant,
    next_open: Instant,
    next_keep: Instant,
    phase: Phase,
    failure: Option<CronError>,
}

impl Drive {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let jobs = lock(&inner.jobs).clone();
        let mut planner = Planner::default();
        let now = inner.node.store.now();
        for job in jobs.values() {
            planner.add(now, job.name.clone(), job.schedule.clone(), job.terms);
        }
        let begin = Instant::now();
        Self {
            inner,
            jobs,
            planner,
            effects: JoinSet::new(),
            leadership: None,
            registered: BTreeSet::new(),
            next_register: begin,
            known_orders: u64::MAX,
            reading_orders: false,
            keeping: false,
            claims: 0,
            adopting: BTreeSet::new(),
            resigning: false,
            unowned: unowned::Unowned::default(),
            next_orders: begin,
            next_open: begin,
            next_keep: begin,
            phase: Phase::Running,
            failure: None,
        }
    }

    /// Until the signal, and then until everything has ended.
    pub(crate) async fn run(mut self, signal: impl Future<Output = ()>) -> Result<(), CronError> {
        let mut signal = pin!(signal);
        self.elect(Duration::ZERO);
        while !self.is_done() {
            self.look_at_the_hold();
            self.periodic();
            let mut commands = Vec::new();
            self.planner.tick(self.now(), &mut Budget::default(), &mut commands);
            self.obey(commands);
            let wake = self.wake_at();
            let inner = self.inner.clone();
            tokio::select! {
                biased;
                () = &mut signal, if matches!(self.phase, Phase::Running) => self.drain(),
                reason = lost(&mut self.leadership) => self.leadership_lost(&reason),
                Some(done) = self.effects.join_next() => {
                    self.done(done);
                    // Together: planning costs a look at each job, and many runs may be due at once.
                    while let Some(done) = self.effects.try_join_next() {
                        self.done(done);
                    }
                }
                () = inner.nudge.notified() => self.next_orders = Instant::now(),
                () = until(wake) => {}
            }
            self.advance();
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Runs a task whose result is an event of the loop. A panic in it is the failure of this task alone: `failed` is the event then.
    fn spawn(&mut self, task: impl Future<Output = Effect> + Send + 'static, failed: Effect) {
        self.effects.spawn(async move {
            AssertUnwindSafe(task).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!("a task of the scheduler panicked");
                failed
            })
        });
    }

    fn done(&mut self, done: Result<Effect, JoinError>) {
        match done {
            Ok(effect) => self.handle(effect),
            // Only a runtime that shuts down ends them early: panics are caught in the task.
            Err(error) => tracing::error!(%error, "a task of the scheduler ended early"),
        }
    }

    fn now(&self) -> crate::UtcTime {
        self.inner.node.store.now()
    }

    fn fleet_jobs(&self) -> Vec<LockName> {
        self.jobs.values().filter(|job| job.terms.scope == Scope::Fleet).map(|job| job.name.clone()).collect()
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let planned = self.planner.wake_at().and_then(|at| now.checked_add(at.since(self.now())));
        let end = match self.phase {
            Phase::Draining(deadline) | Phase::Finishing(deadline) => deadline.filter(|at| *at > now),
            _ => None,
        };
        planned.into_iter().chain(end).fold(now + SLICE, Instant::min)
    }

    /// What has to be asked again and again.
    fn periodic(&mut self) {
        let now = Instant::now();
        let fleet = self.jobs.values().any(|job| job.terms.scope == Scope::Fleet);
        if fleet && now >= self.next_orders && !self.reading_orders && matches!(self.phase, Phase::Running) {
            self.read_orders();
        }
        if self.leadership.is_some() && now >= self.next_open {
            self.next_open = now + self.third_of_a_run_lease();
            let node = self.inner.node.clone();
            let ask = async move {
                let asked = node.store.ask(node.store.ledger().open_runs(node.store.group.clone())).await;
                Effect::Open(asked.map(|reply| reply.outcome))
            };
            self.spawn(ask, Effect::Open(Err(panicked())));
        }
        if self.leadership.is_some() && now >= self.next_register {
            self.next_register = now + lead::REGISTER_EVERY;
            // A job without a watermark has a registration under way.
            let mut jobs = self.fleet_jobs();
            jobs.retain(|job| !self.planner.waits_for_watermark(job));
            if !jobs.is_empty() {
                self.register(jobs, Duration::ZERO);
            }
        }
        if now >= self.next_keep && !self.keeping {
            self.next_keep = now + self.third_of_a_run_lease();
            self.keep();
        }
    }

    /// The period of looks at open runs and of renewals.
    fn third_of_a_run_lease(&self) -> Duration {
        (self.inner.node.terms.lease / 3).min(MAX_PERIOD)
    }

    /// All of them, whatever was known.
    fn read_all_orders(&mut self) {
        (self.known_orders, self.next_orders) = (u64::MAX, Instant::now());
    }

    fn read_orders(&mut self) {
        self.next_orders = Instant::now() + ORDERS_EVERY;
        self.reading_orders = true;
        let (node, known) = (self.inner.node.clone(), self.known_orders);
        let ask = async move {
            let asked = node.store.ask(node.store.ledger().controls(node.store.group.clone(), known)).await;
            if let Some(offset) = node.store.clock_offset() {
                node.observers.notify(|group| CronEvent::ClockCompared { group, offset });
            }
            Effect::Orders(asked.map(|reply| reply.outcome))
        };
        self.spawn(ask, Effect::Orders(Err(panicked())));
    }

    fn keep(&mut self) {
        let held = self.inner.node.running.to_keep();
        if held.is_empty() {
            return;
        }
        self.keeping = true;
        let (node, sent) = (self.inner.node.clone(), self.inner.node.store.moment());
        let failed = Effect::Kept(sent, held.clone(), Err(panicked()));
        let ask = async move {
            let item = |(job, run, held): &(LockName, RunId, Held)| RenewRun {
                job: job.clone(),
                run: *run,
                claim: held.claim,
                lease: node.terms.lease,
            };
            let items = held.iter().map(item).collect();
            let asked = node.store.ask(node.store.ledger().renew(node.store.group.clone(), items)).await;
            let kept = asked.and_then(|reply| of_length(held.len(), reply.outcome));
            Effect::Kept(sent, held, kept)
        };
        self.spawn(ask, failed);
    }

    fn drain(&mut self) {
        if matches!(self.phase, Phase::Running) {
            self.planner.drain();
            self.inner.node.end(Ending::Draining);
            self.phase = Phase::Draining(Instant::now().checked_add(self.inner.options.shutdown_grace));
        }
    }

    /// Goes on with the end, as far as it has come.
    fn advance(&mut self) {
        let is_over = |deadline: Option<Instant>| deadline.is_some_and(|deadline| Instant::now() >= deadline);
        match self.phase {
            Phase::Draining(deadline) if self.claims == 0 => {
                self.resign();
                self.phase = Phase::Finishing(deadline);
            }
            // The next leader finds what they may have started.
            Phase::Draining(deadline) if is_over(deadline) => self.inner.node.end(Ending::GivingUp),
            Phase::Finishing(deadline) if is_over(deadline) => {
                self.inner.node.end(Ending::GivingUp);
                self.inner.node.running.cancel(|_, _| true, Why::ShutDown);
                self.phase = Phase::Ending;
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Finishing(_) | Phase::Ending)
            && self.inner.node.running.is_empty()
            && !self.resigning
    }
}

impl Drop for Drive {
    /// Also one that is dropped where it stands leads no more.
    fn drop(&mut self) {
        drop(self.follow());
    }
}

/// The error of a task that panicked; its request may have been carried out.
fn panicked() -> BackendError {
    BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, "a task of the scheduler panicked")
}

/// Refuses answers that are not one for each question.
fn of_length<T>(asked: usize, answers: Vec<T>) -> Asked<Vec<T>> {
    if answers.len() == asked {
        return Ok(answers);
    }
    let about = format!(
        "the run ledger gave {} answers to {asked} questions: report it to its author",
        answers.len()
    );
    Err(BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, about))
}

/// Yields also if the instant has come: a planner that looks back over a long outage has work left after many ticks in a row.
async fn until(instant: Instant) {
    if instant <= Instant::now() {
        yield_now().await;
    } else {
        sleep_until(instant).await;
    }
}

/// Completes when the leadership is lost; never without one.
async fn lost(leadership: &mut Option<Leadership>) -> LostReason {
    match leadership {
        Some(leadership) => leadership.lost.as_mut().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_too_few_or_too_many_are_refused() {
        assert_eq!(of_length(2, vec![1, 2]).expect("one answer for each question"), [1, 2]);
        for answers in [vec![], vec![1], vec![1, 2, 3]] {
            let error = of_length(2, answers).expect_err("another number of answers");
            assert_eq!((error.kind(), error.applied()), (BackendErrorKind::Protocol, Applied::Unknown));
        }
    }
}
