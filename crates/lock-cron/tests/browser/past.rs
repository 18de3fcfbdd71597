//! The history of a group: runs written into its ledger before the test begins.

use lock_core::{
    LockName,
    clock::{Clock, TestClock, UtcTime},
};
use lock_cron::{CatchUp, MemoryLedger, RunLedger, RunOutcome, Schedule};
use lock_ledger::{
    AfterAttempt, BackfillRequest, ClaimId, ClaimReply, ClaimRequest, DEFAULT_HISTORY, EndRequest, GroupName,
    JobCommand, JobDescription, JobId, OverlapRule, Registration, RetryOf, RunId, Skip,
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// The time at which a test begins: 2026-11-20T09:07:10Z.
pub(crate) const NOW: UtcTime = UtcTime::from_millis(1_795_165_630_000);

/// The group of all fixtures.
pub(crate) fn group() -> GroupName {
    GroupName::new("billing").unwrap()
}

/// A ledger, and the clock under which its history is written.
#[derive(Clone)]
pub(crate) struct Past {
    pub(crate) clock: Arc<TestClock>,
    pub(crate) ledger: MemoryLedger,
}

/// The timeout of the jobs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

/// The history of one run.
#[derive(Clone, Copy)]
pub(crate) enum Happened {
    /// The outcomes of its attempts, with their errors.
    Ran(&'static [(RunOutcome, &'static str)]),
    Skipped(&'static str),
}

/// A job with a history.
#[derive(Clone, Copy)]
pub(crate) struct PastJob {
    pub(crate) name: &'static str,
    pub(crate) schedule: &'static str,
    /// The length of a typical successful attempt.
    pub(crate) takes: Duration,
}

impl PastJob {
    /// Returns the length of an attempt, which varies between runs.
    fn length(&self, run: RunId, outcome: RunOutcome) -> Duration {
        let percent = u32::try_from(80 + run.instant().unwrap().as_millis() / 60_000 * 7 % 43).unwrap();
        match outcome {
            RunOutcome::Succeeded => self.takes * percent / 100,
            RunOutcome::TimedOut => TIMEOUT,
            _ => self.takes * percent / 300,
        }
    }
}

impl Past {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        Self { ledger: MemoryLedger::with_clock(clock.clone()), clock }
    }

    /// Sets the clock of the server.
    pub(crate) fn at(&self, time: UtcTime) {
        let by = time.as_micros().cast_signed() - self.clock.wall().as_micros().cast_signed();
        self.clock.step_wall(by);
    }

    /// Writes the runs of a job at its last instants before [`NOW`], the latest last.
    pub(crate) async fn job(&self, job: PastJob, runs: &[Happened]) {
        let schedule = Schedule::cron(job.schedule).unwrap();
        let from = NOW - Duration::from_secs(90 * 86_400);
        let mut instants: Vec<_> = schedule.after(from).take_while(|at| *at < NOW).collect();
        instants.drain(..instants.len() - runs.len());
        let id = JobId { group: group(), name: LockName::new(job.name).unwrap() };
        let first = instants.first().copied().unwrap_or(NOW);
        self.at(first - Duration::from_secs(1));
        let registration = Registration { job: id.name.clone(), schedule: 1 };
        self.ledger.register(group(), vec![registration]).await.unwrap();
        let description = JobDescription {
            job: id.name.clone(),
            schedule: schedule.to_string(),
            dst: String::new(),
            terms: String::new(),
            alert_after: None,
        };
        self.ledger.describe(group(), vec![description]).await.unwrap();
        for (instant, happened) in instants.into_iter().zip(runs) {
            let run = RunId::Scheduled(instant);
            self.at(run.scheduled().unwrap() + Duration::from_millis(7));
            match happened {
                Happened::Ran(attempts) => {
                    let mut before = None;
                    for (number, (outcome, detail)) in (1..).zip(*attempts) {
                        let claim = self.claim(&id, run, before, None).await;
                        let passed = job.length(run, *outcome);
                        let then = match number == attempts.len() {
                            true => AfterAttempt::Finish,
                            false => AfterAttempt::Retry,
                        };
                        self.end(&id, run, claim, (passed, *outcome, detail), then).await;
                        before = Some(claim);
                    }
                }
                Happened::Skipped(detail) => {
                    let skip = Skip { first: run, count: 1, detail: (*detail).to_owned() };
                    self.claim(&id, run, None, Some(skip)).await;
                }
            }
        }
        self.at(NOW);
    }

    /// Writes a backfill of the instants of one hour, whose second run began two minutes before [`NOW`].
    pub(crate) async fn backfill(&self, job: PastJob) {
        let schedule = Schedule::cron(job.schedule).unwrap();
        let from = NOW - Duration::from_secs(24 * 3600);
        let to = from + Duration::from_secs(3600);
        let instants: Vec<_> = schedule.after(from).take_while(|at| *at < to).collect();
        let backfill = Uuid::from_u128(7);
        let request = BackfillRequest {
            id: backfill,
            first: instants[0],
            last: instants[instants.len() - 1],
            count: u32::try_from(instants.len()).unwrap(),
            schedule: schedule.to_string(),
            dst: String::new(),
        };
        let id = JobId { group: group(), name: LockName::new(job.name).unwrap() };
        let run = |at| RunId::Backfill { id: backfill, at };
        let (first, second) = (run(instants[0]), run(instants[1]));
        let passed = job.length(first, RunOutcome::Succeeded);
        self.at(NOW - Duration::from_secs(120) - passed);
        self.ledger.command(id.clone(), JobCommand::Backfill(request)).await.unwrap();
        let claim = self.claim(&id, first, None, None).await;
        self.end(&id, first, claim, (passed, RunOutcome::Succeeded, ""), AfterAttempt::Finish).await;
        self.claim(&id, second, None, None).await;
        self.at(NOW);
    }

    async fn claim(&self, job: &JobId, run: RunId, after: Option<ClaimId>, skip: Option<Skip>) -> ClaimId {
        let claim = ClaimId::random();
        let skips = skip.is_some();
        let number = run.instant().unwrap().as_millis() / 60_000 % 3;
        let request = ClaimRequest {
            job: job.clone(),
            run,
            claim,
            retry_of: after.map(|claim| RetryOf { claim, failures: 9, orphanings: 9 }),
            skip,
            after: None,
            not_after: None,
            schedule: 1,
            revision: 0,
            definition: 0,
            overlap: OverlapRule::Allow { max: 9 },
            pool: None,
            lease: Duration::from_secs(86_400),
            node: format!("web-{}", number + 1),
            catch_up: CatchUp::No,
            history: DEFAULT_HISTORY,
        };
        let reply = self.ledger.claim(request).await.unwrap().outcome;
        let taken = matches!(reply, ClaimReply::Claimed { .. });
        assert!(taken || skips, "{run} of {} is {reply:?}", job.name);
        claim
    }

    async fn end(
        &self,
        job: &JobId,
        run: RunId,
        claim: ClaimId,
        (passed, outcome, detail): (Duration, RunOutcome, &str),
        then: AfterAttempt,
    ) {
        self.at(self.clock.wall() + passed);
        let (job, detail) = (job.clone(), detail.to_owned());
        let request = EndRequest { job, run, claim, outcome, detail, then, history: DEFAULT_HISTORY };
        self.ledger.end(request).await.unwrap();
    }
}
