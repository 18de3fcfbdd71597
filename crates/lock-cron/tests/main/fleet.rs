//! Several nodes of one group in virtual time, over one store, each with its own faults; and a log of their actions.

use lock_core::{
    LockFactory, MemoryBackend,
    clock::{Clock, TestClock},
};
use lock_cron::{
    Attempt, JobBuilder, Placement, RunContext, RunId, Schedule, Scheduler, SchedulerBuilder,
    observer::{CronEvent, CronObserver, SkipReason},
};
use lock_ledger::{MemoryLedger, RunOutcome};
use lock_testkit::FaultyBackend;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A store, and the log shared by all nodes of a fleet.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) clock: Arc<TestClock>,
    pub(crate) memory: MemoryBackend,
    pub(crate) ledger: MemoryLedger,
    pub(crate) log: Log,
}

/// The recorded events, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    starts: Vec<Start>,
    skips: BTreeMap<SkipReason, u32>,
    ends: BTreeMap<&'static str, u32>,
    orphans: u32,
    leaders: u32,
    failures: u32,
    unowned: Vec<String>,
    ahead: u32,
    data_lost: u32,
    overdue: Vec<String>,
}

/// A body that started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    pub(crate) catch_up: bool,
    pub(crate) token: u64,
    /// The time of the server's clock, in ms.
    pub(crate) at: u64,
}

impl CronObserver for Log {
    fn on_event(&self, event: &CronEvent<'_>) {
        let mut written = self.0.lock().expect("not poisoned");
        match event {
            CronEvent::Skipped { reason, count, .. } => *written.skips.entry(*reason).or_default() += count,
            CronEvent::Ended { outcome, .. } => *written.ends.entry(outcome.as_str()).or_default() += 1,
            CronEvent::Orphaned { .. } => written.orphans += 1,
            CronEvent::Elected { .. } => written.leaders += 1,
            CronEvent::Unowned { job, .. } => written.unowned.push(job.to_string()),
            CronEvent::WatermarkAhead { .. } => written.ahead += 1,
            CronEvent::Overdue { job, .. } => written.overdue.push(format!("{job} overdue")),
            CronEvent::OverdueEnded { job, succeeded, .. } => {
                written.overdue.push(format!("{job} {}", if *succeeded { "succeeded" } else { "ended" }));
            }
            CronEvent::DataLost { .. } => written.data_lost += 1,
            CronEvent::StoreFailed { .. } => written.failures += 1,
            _ => {}
        }
    }
}

impl Log {
    pub(crate) fn starts(&self) -> Vec<Start> {
        self.0.lock().expect("not poisoned").starts.clone()
    }

    /// Returns the instants of the starts, in whole seconds since the beginning.
    pub(crate) fn instants(&self) -> Vec<u64> {
        self.starts().iter().filter_map(|start| start.run.scheduled()).map(second).collect()
    }

    pub(crate) fn skipped(&self, reason: SkipReason) -> u32 {
        self.0.lock().expect("not poisoned").skips.get(&reason).copied().unwrap_or(0)
    }

    pub(crate) fn ended(&self, outcome: RunOutcome) -> u32 {
        self.0.lock().expect("not poisoned").ends.get(outcome.as_str()).copied().unwrap_or(0)
    }

    pub(crate) fn orphans(&self) -> u32 {
        self.0.lock().expect("not poisoned").orphans
    }

    /// Returns the number of reports of a watermark in the future.
    pub(crate) fn ahead(&self) -> u32 {
        self.0.lock().expect("not poisoned").ahead
    }

    /// Returns the number of jobs whose data was reported as lost.
    pub(crate) fn data_lost(&self) -> u32 {
        self.0.lock().expect("not poisoned").data_lost
    }

    /// Returns the reports of overdue jobs, and of their ends.
    pub(crate) fn overdue(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").overdue.clone()
    }

    /// Returns the jobs reported as unowned.
    pub(crate) fn unowned(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").unowned.clone()
    }

    pub(crate) fn leaders(&self) -> u32 {
        self.0.lock().expect("not poisoned").leaders
    }

    /// Asserts that each first attempt of the only job started once, and never before its instant.
    pub(crate) fn assert_each_once(&self) {
        let starts = self.starts();
        let mut first: Vec<_> =
            starts.iter().filter(|start| start.attempt == 1).map(|start| start.run).collect();
        first.sort();
        let begun = first.len();
        first.dedup();
        assert_eq!(first.len(), begun, "an instant was started twice: {starts:?}");
        for start in &starts {
            if let Some(at) = start.run.scheduled() {
                assert!(start.at >= at.as_millis(), "{start:?} is early");
            }
        }
    }
}

/// Returns the seconds since the beginning of the test clocks.
pub(crate) fn second(at: lock_core::clock::UtcTime) -> u64 {
    at.since(TestClock::WALL_AT_START).as_secs()
}

/// The number of bodies running concurrently: now, and at most.
#[derive(Debug, Clone, Default)]
pub(crate) struct Referee(Arc<Mutex<(u32, u32)>>);

/// A running body. It ends when this is dropped, even if its node is killed.
pub(crate) struct Inside(Referee);

impl Referee {
    pub(crate) fn enter(&self) -> Inside {
        let mut counts = self.0.lock().expect("not poisoned");
        *counts = (counts.0 + 1, counts.1.max(counts.0 + 1));
        Inside(self.clone())
    }

    pub(crate) fn most(&self) -> u32 {
        self.0.lock().expect("not poisoned").1
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.lock().expect("not poisoned").0 -= 1;
    }
}

/// A node whose scheduler is built, but not running yet.
pub(crate) struct Node {
    pub(crate) cron: Scheduler,
    pub(crate) faulty: FaultyBackend,
    log: Log,
    clock: Arc<TestClock>,
}

/// A node whose scheduler is running.
pub(crate) struct Running {
    pub(crate) cron: Scheduler,
    pub(crate) faulty: FaultyBackend,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let memory = MemoryBackend::with_clock(clock.clone());
        let ledger = MemoryLedger::with_clock(clock.clone());
        Self { clock, memory, ledger, log: Log::default() }
    }

    /// Restarts the server without its data.
    pub(crate) fn lose_data(&self) {
        self.memory.clear();
        self.ledger.clear();
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.node_with(name, |builder| builder)
    }

    /// Builds a node with additional options.
    pub(crate) fn node_with(
        &self,
        name: &str,
        describe: impl FnOnce(SchedulerBuilder) -> SchedulerBuilder,
    ) -> Node {
        let faulty = FaultyBackend::new(self.memory.clone());
        let locks =
            LockFactory::builder(faulty.clone()).clock(self.clock.clone()).build().expect("healthy store");
        let builder = Scheduler::builder(locks, faulty.ledger(self.ledger.clone()))
            .group("g")
            .node(name)
            .observer(self.log.clone());
        let cron = describe(builder).build().expect("healthy store");
        Node { cron, faulty, log: self.log.clone(), clock: self.clock.clone() }
    }

    /// Starts a node with one job, `job`, which runs on the leader and whose bodies take this time.
    pub(crate) async fn simple(&self, name: &str, schedule: &str, takes: Duration) -> Running {
        let node = self.node(name);
        let job = node.job("job", schedule, takes).placement(Placement::Leader);
        job.register().expect("healthy store");
        node.start()
    }

    /// Asserts that the runs of `job`, which is due every minute, are skipped after their grace while another run takes
    /// the only place for the first hour, and that they start afterwards. The node has just started.
    pub(crate) async fn assert_skips_during_the_first_hour(&self, running: Running) {
        sleep(secs(59 + 30 * 60)).await;
        let skipped = self.log.skipped(SkipReason::NoCapacity);
        assert!((28..=30).contains(&skipped), "{skipped}");
        let history = running.history().await;
        assert_eq!(
            Running::skipped(&history, "no node had room, or its pool was full"),
            skipped,
            "{history:?}"
        );
        sleep(secs(3_600)).await;
        assert!(self.log.starts().len() > 20, "they start afterwards");
        assert_eq!(self.log.skipped(SkipReason::Missed), 0);
    }
}

impl Node {
    /// Creates a job that records its starts, takes this time, and succeeds.
    pub(crate) fn job(&self, name: &str, schedule: &str, takes: Duration) -> JobBuilder {
        let write = self.writer();
        self.cron.job(name, Schedule::cron(schedule).expect("healthy store"), move |run| {
            write(&run);
            async move {
                tokio::select! {
                    () = sleep(takes) => Ok(()),
                    () = run.cancelled() => Err("cancelled".into()),
                }
            }
        })
    }

    /// Creates a job that records its starts, and whose bodies take this time and are counted by the referee.
    pub(crate) fn counted(
        &self,
        name: &str,
        schedule: &str,
        takes: Duration,
        referee: &Referee,
    ) -> JobBuilder {
        let (write, referee) = (self.writer(), referee.clone());
        self.cron.job(name, Schedule::cron(schedule).expect("valid schedule"), move |run| {
            write(&run);
            let inside = referee.enter();
            async move {
                sleep(takes).await;
                drop(inside);
                Ok(())
            }
        })
    }

    /// Returns a function that records a start.
    pub(crate) fn writer(&self) -> impl Fn(&RunContext) + Send + Sync + 'static {
        let (log, clock) = (self.log.clone(), self.clock.clone());
        move |run| {
            let start = Start {
                run: run.id(),
                attempt: run.attempt(),
                catch_up: run.is_catch_up(),
                token: run.fencing_token().get(),
                at: clock.wall().as_millis(),
            };
            log.0.lock().expect("not poisoned").starts.push(start);
        }
    }

    pub(crate) fn start(self) -> Running {
        let (stop, stopped) = oneshot::channel();
        let cron = self.cron.clone();
        let signal = async move { drop(stopped.await) };
        let task = tokio::spawn(async move { cron.run_until(signal).await.expect("healthy store") });
        Running { cron: self.cron, faulty: self.faulty, stop: Some(stop), task }
    }
}

impl Running {
    /// Stops gracefully, as after a termination signal.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.expect("healthy store");
    }

    /// Stops as in a power cut: no further request reaches the store.
    pub(crate) fn kill(&self) {
        self.faulty.always_all(lock_testkit::Fault::Hang);
        self.task.abort();
    }

    /// Returns the ended attempts, oldest first.
    pub(crate) async fn history(&self) -> Vec<Attempt> {
        let mut history = self.cron.history("job", 100).await.expect("healthy store");
        history.reverse();
        history
    }

    /// Returns the number of instants skipped for this reason.
    pub(crate) fn skipped(history: &[Attempt], reason: &str) -> u32 {
        history.iter().filter(|entry| entry.detail == reason).map(|row| row.count).sum()
    }

    pub(crate) fn count(history: &[Attempt], outcome: RunOutcome) -> usize {
        history.iter().filter(|attempt| attempt.outcome == outcome).count()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
