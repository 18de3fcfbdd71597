//! The run loop, which executes the planner's commands. It spawns all tasks of the scheduler, in one set.
//!
//! Everything that takes time is a task in this set. Its result is an [`Effect`], which the loop
//! handles as an event. Dropping the loop drops the set, and with it every running task.

mod group;
mod known;
mod runs;

use crate::{
    claim::ClaimedRun,
    error::CronError,
    hash::StableHash,
    job::{Job, Kind},
    ledger_client::{Answer, NO_REVISION, RETRY_PAUSE},
    observer::CronEvent,
    plan::{Budget, ClaimOutcome, Due, Planner},
    running::{CancelReason, HeldRun, RunKey},
    shared::{Lifecycle, Shared, ShutdownStage},
};
use futures_util::FutureExt;
use known::{ClockOffset, DeclinedRuns, KnownInstances, LostData, UnownedJobs};
use lock_core::{
    __private::{lock, reserved_name},
    LockError, LockErrorKind, LockGuard, LockName, LostReason,
    backend::{Applied, BackendError, BackendErrorKind, Reply},
    clock::{Moment, UtcTime},
};
use lock_ledger::{
    Backfill, GroupSummary, HeartbeatReply, Instances, JobControls, OpenRun, RegisteredJob, Registration,
    RunRenewal, Trigger,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    task::{JoinError, JoinSet, yield_now},
    time::{Instant, sleep, sleep_until},
};

/// The time between the registrations of a leader.
const REGISTRATION_INTERVAL: Duration = Duration::from_secs(60);

/// The time between heartbeats, which also read the controls.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum sleep, which limits the delay until clock steps and machine suspensions are
/// detected.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The time for which runs that only the leader may start must have waited for room before a node with room is to lead.
const ROOM_PATIENCE: Duration = Duration::from_secs(3);

/// The run loop of a node.
pub(crate) struct RunLoop {
    shared: Arc<Shared>,
    /// The jobs in code, and the instances of the kinds.
    jobs: BTreeMap<LockName, Arc<Job>>,
    kinds: BTreeMap<String, Arc<Kind>>,
    instances: KnownInstances,
    /// The hash of the jobs in code, their schedules, and the kinds. Nodes with the same hash elect one leader and
    /// share the runs.
    fingerprint: u64,
    planner: Planner,
    effects: JoinSet<Effect>,
    phase: Phase,
    leadership: Option<Leadership>,
    resigning: bool,
    /// The jobs that this node has registered. If one of them is new to the ledger, the ledger lost data.
    registered: BTreeSet<LockName>,
    unowned: UnownedJobs,
    declined: DeclinedRuns,
    lost: LostData,
    clock_offset: ClockOffset,
    /// The jobs that this leader has reported as overdue.
    overdue: BTreeSet<LockName>,
    timers: Timers,
    /// The controls, pending triggers and backfills, as last read.
    controls: BTreeMap<LockName, JobControls>,
    triggers: Vec<Trigger>,
    backfills: Vec<Backfill>,
    /// The revision of the controls passed to the planner.
    known_revision: u64,
    heartbeat_in_flight: bool,
    /// Set while a request to remove this node is pending.
    leaving: bool,
    renewing: bool,
    /// The number of claims in flight.
    claims: usize,
    taking_over: BTreeSet<RunKey>,
    /// Set if a run whose node has left may be waiting for a slot in a pool.
    waits_for_pool: bool,
    failure: Option<CronError>,
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
        let timers = Timers::new(Instant::now(), shared.node.ledger.moment());
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
            timers,
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

    /// Runs until the signal, then until everything has ended.
    pub(crate) async fn run(mut self, signal: impl Future<Output = ()>) -> Result<(), CronError> {
        let mut signal = pin!(signal);
        if self.is_member() {
            let jobs = self.fingerprint;
            self.shared.node.observers.notify(|group| CronEvent::Joined { group, jobs });
        }
        self.elect(Duration::ZERO);
        while !self.is_done() {
            self.check_leadership();
            self.poll_ledger();
            let mut commands = Vec::new();
            self.planner.tick(self.now(), self.room(), &mut Budget::default(), &mut commands);
            self.execute(commands);
            let wake = self.wake_at();
            let shared = self.shared.clone();
            tokio::select! {
                biased;
                () = &mut signal, if self.phase == Phase::Running => self.drain(),
                reason = leadership_loss(&mut self.leadership) => self.leadership_lost(&reason),
                Some(done) = self.effects.join_next() => {
                    self.task_done(done);
                    // Handled together: planning examines every job, and many runs may be due at once.
                    while let Some(done) = self.effects.try_join_next() {
                        self.task_done(done);
                    }
                }
                () = shared.wake.notified() => self.timers.heartbeat = Instant::now(),
                () = sleep_or_yield(wake) => {}
            }
            self.advance();
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn task_done(&mut self, done: Result<Effect, JoinError>) {
        match done {
            Ok(effect) => self.handle(effect),
            // A task only ends early if the runtime shuts down: panics are caught in the task.
            Err(error) => tracing::error!(%error, "scheduler task ended early"),
        }
    }

    fn handle(&mut self, effect: Effect) {
        match effect {
            Effect::Elected(elected) => self.elected(*elected),
            Effect::ElectionPanicked => self.elect(RETRY_PAUSE),
            Effect::Resigned => {
                self.resigning = false;
                self.elect(Duration::ZERO);
            }
            Effect::Registered { jobs, answer } => self.registered(jobs, answer),
            Effect::HeartbeatAnswered { asked, answer } => self.heartbeat_answered(&asked, answer),
            Effect::Reinstated => self.reinstated(),
            Effect::Left => self.leaving = false,
            Effect::InstancesRead(answer) => self.instances_read(answer),
            Effect::WatermarksRead { jobs, answer } => self.watermarks_read(jobs, answer),
            Effect::OpenRunsRead(answer) => self.open_runs_read(answer),
            Effect::SummaryRead(answer) => self.successes_read(answer),
            Effect::Renewed { sent, runs, answer } => self.renewed(sent, &runs, answer),
            Effect::DueClaimed { due, outcome, claimed } => self.due_claimed(&due, outcome, claimed),
            Effect::TakenOver { key, claimed } => self.taken_over(&key, claimed),
            Effect::RunEnded { key, declined } => self.run_ended(key, declined),
            Effect::Done => {}
        }
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let planned = self.planner.wake_at().and_then(|at| now.checked_add(at.since(self.now())));
        let heartbeat = Some(self.timers.heartbeat).filter(|_| self.phase == Phase::Running);
        let timers = self.phase.deadline().into_iter().chain(heartbeat).filter(|at| *at > now);
        planned.into_iter().chain(timers).fold(now + MAX_SLEEP, Instant::min)
    }

    /// Starts the shutdown: no further claims are sent.
    fn drain(&mut self) {
        if self.phase == Phase::Running {
            self.planner.drain();
            self.leave();
            self.shared.node.shutdown.advance(ShutdownStage::Draining);
            self.phase = Phase::Draining(Instant::now().checked_add(self.shared.terms.shutdown_grace));
        }
    }

    /// Advances the shutdown as far as possible.
    fn advance(&mut self) {
        let node = self.shared.node.clone();
        let is_overdue = self.phase.is_overdue(Instant::now());
        match self.phase {
            Phase::Draining(deadline) if self.claims == 0 => {
                self.resign();
                self.phase = Phase::Finishing(deadline);
            }
            // The next leader finds the runs that these claims may have started.
            Phase::Draining(_) if is_overdue => node.shutdown.advance(ShutdownStage::GivingUp),
            Phase::Finishing(_) if is_overdue => {
                node.shutdown.advance(ShutdownStage::GivingUp);
                node.running.cancel(|_| true, CancelReason::Shutdown);
                self.phase = Phase::Ending;
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Finishing(_) | Phase::Ending)
            && self.shared.node.running.is_empty()
            && !self.resigning
            && !self.leaving
    }

    /// Joins the election after this delay.
    fn elect(&mut self, after: Duration) {
        if self.phase != Phase::Running || !self.is_member() {
            return;
        }
        let node = self.shared.node.clone();
        let options = self.shared.terms.leadership;
        let name = format!("leader:{{{}}}:{:016x}", node.ledger.group(), self.fingerprint);
        let election = async move {
            sleep(after).await;
            let name = reserved_name(&name).expect("the group name was validated");
            let lock = node.locks.named(name).and_then(|lock| lock.with_options(options));
            let elected = match lock {
                Ok(lock) => lock.acquire().await,
                Err(error) => Err(error),
            };
            Effect::Elected(Box::new(elected))
        };
        self.spawn(election, Effect::ElectionPanicked);
    }

    fn elected(&mut self, elected: Result<LockGuard, LockError>) {
        match elected {
            Ok(guard) if self.phase == Phase::Running => self.lead(guard),
            // The shutdown has begun. The next candidate acquires the lock immediately.
            Ok(guard) => drop(guard),
            Err(error) if error.kind() == LockErrorKind::ShutDown => {
                self.failure = Some(error.into());
                self.drain();
            }
            Err(error) => {
                self.shared.node.store_failed(&error);
                self.elect(RETRY_PAUSE);
            }
        }
    }

    fn lead(&mut self, guard: LockGuard) {
        let token = guard.fencing_token();
        self.leadership = Some(Leadership::new(guard));
        self.shared.leading.store(true, Ordering::SeqCst);
        let jobs = self.fingerprint;
        self.shared.node.observers.notify(|group| CronEvent::Elected { group, jobs, token });
        self.planner.elected();
        self.read_all_controls();
        self.unowned = UnownedJobs::default();
        self.timers.open_runs = Instant::now();
        self.timers.registration = self.timers.beats.within(Instant::now(), REGISTRATION_INTERVAL);
        self.register(&self.job_names(), Duration::ZERO);
        self.describe_kinds();
    }

    /// Checks the leadership against the clock before anything is planned. After the process was suspended, timers may
    /// not have fired yet, and another leader may have started the runs that seem to be missed.
    fn check_leadership(&mut self) {
        if self.leadership.as_ref().is_some_and(|leadership| !leadership.guard.is_held()) {
            self.leadership_lost(&"the leadership lease was lost");
        }
    }

    fn leadership_lost(&mut self, reason: &dyn fmt::Display) {
        tracing::warn!(cron.group = self.shared.node.observers.group(), %reason, "leadership lost");
        self.follow();
        self.elect(Duration::ZERO);
    }

    /// Ends this node's leadership, and returns its lock without releasing it.
    fn follow(&mut self) -> Option<LockGuard> {
        let Leadership { guard, .. } = self.leadership.take()?;
        self.shared.leading.store(false, Ordering::SeqCst);
        let jobs = self.fingerprint;
        self.shared.node.observers.notify(|group| CronEvent::Resigned { group, jobs });
        self.planner.resigned();
        self.hand_over_overdue();
        Some(guard)
    }

    /// Ends this node's leadership and releases its lock.
    fn resign(&mut self) {
        let Some(guard) = self.follow() else { return };
        self.resigning = true;
        let release = async move {
            let _ = guard.release().await;
            Effect::Resigned
        };
        self.spawn(release, Effect::Resigned);
    }

    /// Spawns a task whose result is an event of the loop. If the task panics, the event is `failed`; nothing else is
    /// affected.
    fn spawn(&mut self, task: impl Future<Output = Effect> + Send + 'static, failed: Effect) {
        self.effects.spawn(async move {
            AssertUnwindSafe(task).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!("scheduler task panicked");
                failed
            })
        });
    }

    fn now(&self) -> UtcTime {
        self.shared.node.ledger.now()
    }

    /// Returns the number of further runs that this node may start.
    fn room(&self) -> u32 {
        let node = &self.shared.node;
        let taken = node.running.count() + self.claims;
        node.terms.max_running.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// Returns `true` if this node takes part in the group.
    fn is_member(&self) -> bool {
        !self.kinds.is_empty() || !self.jobs.is_empty()
    }

    fn job_names(&self) -> Vec<LockName> {
        self.jobs.keys().cloned().collect()
    }
}

impl Drop for RunLoop {
    /// Resigns even if the loop is dropped before it ends.
    fn drop(&mut self) {
        drop(self.follow());
        lock(&self.shared.registry).lifecycle = Lifecycle::Ended;
    }
}

/// The phase of a run loop. Draining and finishing share one deadline; without it, they wait for all claims and bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// No claims are sent; the claims in flight are awaited.
    Draining(Option<Instant>),
    /// The leadership is released; running bodies finish.
    Finishing(Option<Instant>),
    /// Bodies were told to stop.
    Ending,
}

impl Phase {
    /// Returns the deadline of the phase, if it has one.
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Draining(deadline) | Self::Finishing(deadline) => deadline,
            Self::Running | Self::Ending => None,
        }
    }

    fn is_overdue(self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }
}

/// This node's leadership.
struct Leadership {
    guard: LockGuard,
    since: Instant,
    /// The time since which each heartbeat has shown a run that waits for room, and another node with room.
    crowded_since: Option<Instant>,
    lost: Pin<Box<dyn Future<Output = LostReason> + Send>>,
}

impl Leadership {
    fn new(guard: LockGuard) -> Self {
        Self { lost: Box::pin(guard.lost()), guard, since: Instant::now(), crowded_since: None }
    }

    /// Records whether runs wait here for room that another node has. Returns `true` if that node is to lead. A change
    /// of the leader costs more than a short wait, so the leadership is kept for at least `lease`.
    fn is_crowded(&mut self, crowded: bool, lease: Duration) -> bool {
        let now = Instant::now();
        self.crowded_since = crowded.then(|| self.crowded_since.unwrap_or(now));
        let waited = self.crowded_since.is_some_and(|since| now - since >= ROOM_PATIENCE);
        waited && now - self.since >= lease
    }
}

/// The times of heartbeats, and of requests that are sent together with one: whole seconds on the lock factory's clock.
/// Schedulers that share a factory send theirs at the same times, so a ledger can combine them in one call.
#[derive(Debug, Clone, Copy)]
struct Beats {
    first: Instant,
}

impl Beats {
    /// Creates the beats from one reading of both clocks.
    fn new(now: Instant, moment: Moment) -> Self {
        let begun = Duration::from_micros(moment.as_micros());
        Self { first: now + (HEARTBEAT_INTERVAL - Duration::from_nanos(begun.subsec_nanos().into())) }
    }

    /// Returns the last beat within `time` from now, or the end of `time` if there is none.
    fn within(self, now: Instant, time: Duration) -> Instant {
        let until = now + time;
        match until.checked_duration_since(self.first) {
            Some(since) if time >= HEARTBEAT_INTERVAL => self.first + Duration::from_secs(since.as_secs()),
            _ => until,
        }
    }
}

/// The times of the next repeated requests.
struct Timers {
    beats: Beats,
    registration: Instant,
    heartbeat: Instant,
    open_runs: Instant,
    renewal: Instant,
}

impl Timers {
    /// Makes all requests due now, by one reading of both clocks.
    fn new(now: Instant, moment: Moment) -> Self {
        let beats = Beats::new(now, moment);
        Self { beats, registration: now, heartbeat: now, open_runs: now, renewal: now }
    }
}

/// A run, and its job as of the claim.
type Claimed = Box<(Arc<Job>, ClaimedRun)>;

/// The result of a task, which the loop handles as an event.
enum Effect {
    Elected(Box<Result<LockGuard, LockError>>),
    ElectionPanicked,
    Resigned,
    Registered {
        jobs: Vec<Registration>,
        answer: Answer<Vec<RegisteredJob>>,
    },
    HeartbeatAnswered {
        asked: Vec<Registration>,
        answer: Answer<Reply<HeartbeatReply>>,
    },
    Reinstated,
    Left,
    InstancesRead(Answer<Instances>),
    WatermarksRead {
        jobs: Vec<Registration>,
        answer: Answer<Vec<Option<UtcTime>>>,
    },
    OpenRunsRead(Answer<Vec<OpenRun>>),
    SummaryRead(Answer<Reply<GroupSummary>>),
    Renewed {
        sent: Moment,
        runs: Vec<HeldRun>,
        answer: Answer<Vec<RunRenewal>>,
    },
    DueClaimed {
        due: Due,
        outcome: ClaimOutcome,
        claimed: Option<Claimed>,
    },
    TakenOver {
        key: RunKey,
        claimed: Option<Claimed>,
    },
    /// `declined` is the reason if this node could not read the payload.
    RunEnded {
        key: RunKey,
        declined: Option<String>,
    },
    /// The result is not needed.
    Done,
}

/// Returns the error for a panicked task, whose request may have been applied.
fn panicked() -> BackendError {
    BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, "a scheduler task panicked")
}

/// Completes when the leadership is lost. Never completes if this node does not lead.
async fn leadership_loss(leadership: &mut Option<Leadership>) -> LostReason {
    match leadership {
        Some(leadership) => leadership.lost.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Yields even if `until` has passed, because after a long outage, many consecutive ticks leave work
/// for the next one.
async fn sleep_or_yield(until: Instant) {
    if until <= Instant::now() {
        yield_now().await;
    } else {
        sleep_until(until).await;
    }
}

/// Hashes the jobs, their schedules and the kinds. Versions of the zone data are not included, so that nodes started
/// before and after an update have the same hash.
fn fingerprint<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>, kinds: impl Iterator<Item = &'a String>) -> u64 {
    let lines = jobs.map(|job| format!("{}\n{:016x}\n", job.name, job.schedule.identity()));
    let kinds = kinds.map(|kind| format!("{kind}/\n"));
    StableHash::of(&lines.chain(kinds).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn schedulers_with_one_clock_share_their_beats() {
        let begin = Instant::now();
        let beats = [0, 300, 1_700].map(|at| Beats::new(begin + ms(at), Moment::START + ms(at)));
        for beats in beats {
            for (now, next) in [(2_000, 3_000), (2_001, 3_000), (2_999, 3_000), (3_000, 4_000)] {
                assert_eq!(beats.within(begin + ms(now), HEARTBEAT_INTERVAL), begin + ms(next));
            }
            assert_eq!(beats.within(begin + ms(2_300), ms(10_000)), begin + ms(12_000));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_intervals_are_kept() {
        let beats = Beats::new(Instant::now(), Moment::START);
        let now = Instant::now() + ms(2_300);
        assert_eq!(beats.within(now, ms(333)), now + ms(333));
    }
}
