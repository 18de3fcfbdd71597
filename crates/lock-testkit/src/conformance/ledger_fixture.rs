//! A fixture with a job in a ledger, and requests for the job.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    harness::fresh_name,
};
use lock_core::{FencingToken, LockName, clock::UtcTime};
use lock_ledger::{
    AfterAttempt, Attempt, CatchUp, ClaimId, ClaimReply, ClaimRequest, CommandReply, DEFAULT_HISTORY,
    EndReply, EndRequest, FleetControls, GroupName, JobCommand, JobId, OpenRun, OverlapRule, RegisteredJob,
    Registration, RenewRun, RetryOf, RunId, RunLedger, RunOutcome, RunRenewal, Skip,
};
use std::{sync::Arc, time::Duration};

/// Allows two open runs.
pub(super) const TWO: OverlapRule = OverlapRule::Allow { max: 2 };
/// The fingerprint of the job's schedule.
pub(super) const SCHEDULE: u64 = 7;
/// Allows any number of open runs.
pub(super) const MANY: OverlapRule = OverlapRule::Allow { max: u32::MAX };

/// A recently registered job in a separate group, whose first scheduled times are due.
pub(super) struct LedgerFixture {
    pub(super) client: Arc<dyn RunLedger>,
    pub(super) job: JobId,
    /// The job's first watermark.
    pub(super) begin: UtcTime,
}

/// A claim that was granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) run: RunId,
    pub(super) claim: ClaimId,
    pub(super) token: FencingToken,
    pub(super) attempt: u32,
    pub(super) failures: u32,
}

impl LedgerFixture {
    pub(super) async fn new(h: &impl LedgerHarness, hint: &str) -> Self {
        let ledger = h.ledger().await;
        let group = GroupName::new(fresh_name(hint)).expect("the name forms a valid group name");
        let name = LockName::new("job").expect("valid name");
        let job = JobId { group, name };
        let registration = Registration { job: job.name.clone(), schedule: SCHEDULE };
        let reply = ledger.register(job.group.clone(), vec![registration]).await;
        let begin = reply.expect("ledger call failed").outcome[0].watermark;
        // After this, the first 150 ms after the watermark are in the past.
        h.pass(Duration::from_millis(160)).await;
        Self { client: ledger, job, begin }
    }

    pub(super) fn client(&self) -> &dyn RunLedger {
        &*self.client
    }

    /// Returns the run scheduled this many milliseconds after the watermark. Times up to 150 ms are
    /// due.
    pub(super) fn instant(&self, millis: u64) -> RunId {
        RunId::Scheduled(self.begin + Duration::from_millis(millis))
    }

    /// Registers the job with a schedule.
    pub(super) async fn register(&self, schedule: u64) -> RegisteredJob {
        let registration = Registration { job: self.job.name.clone(), schedule };
        let reply = self.client().register(self.job.group.clone(), vec![registration]).await;
        reply.expect("ledger call failed").outcome[0]
    }

    /// Reads the job's watermark for a schedule.
    pub(super) async fn watermark(&self, schedule: u64) -> Option<UtcTime> {
        let registration = Registration { job: self.job.name.clone(), schedule };
        let reply = self.client().watermarks(self.job.group.clone(), vec![registration]).await;
        reply.expect("ledger call failed").outcome[0]
    }

    /// Skips consecutive scheduled times.
    pub(super) async fn skip(&self, first: u64, last: u64, count: u32) -> ClaimReply {
        let skip = Skip { first: self.instant(first), count, detail: "missed".to_owned() };
        self.send(ClaimRequest { skip: Some(skip), ..self.request(self.instant(last)) }).await
    }

    /// Returns a claim for the first attempt of `run`, which is skipped if another run is open.
    pub(super) fn request(&self, run: RunId) -> ClaimRequest {
        ClaimRequest {
            job: self.job.clone(),
            run,
            claim: ClaimId::random(),
            retry_of: None,
            skip: None,
            after: None,
            not_after: None,
            schedule: SCHEDULE,
            revision: 0,
            definition: 0,
            overlap: OverlapRule::Skip,
            pool: None,
            lease: LONG,
            node: "node".to_owned(),
            catch_up: CatchUp::No,
            history: DEFAULT_HISTORY,
        }
    }

    /// Returns a claim for the attempt after this one, with the same budget for failures and for
    /// orphaned attempts.
    pub(super) fn after(&self, run: &Run, budget: u32) -> ClaimRequest {
        self.after_each(run, budget, budget)
    }

    pub(super) fn after_each(&self, run: &Run, failures: u32, orphanings: u32) -> ClaimRequest {
        let again = RetryOf { claim: run.claim, failures, orphanings };
        ClaimRequest { retry_of: Some(again), ..self.request(run.run) }
    }

    pub(super) async fn send(&self, request: ClaimRequest) -> ClaimReply {
        self.client().claim(request).await.expect("ledger call failed").outcome
    }

    /// Sends a claim. Panics unless it is granted.
    pub(super) async fn granted(&self, request: ClaimRequest) -> Run {
        let (run, claim) = (request.run, request.claim);
        match self.send(request).await {
            ClaimReply::Claimed { token, attempt, failures, .. } => {
                Run { run, claim, token, attempt, failures }
            }
            other => panic!("expected a claim of {run}, got {other:?}"),
        }
    }

    pub(super) async fn claim(&self, millis: u64) -> Run {
        self.granted(self.request(self.instant(millis))).await
    }

    /// Claims a run and lets its lease expire.
    pub(super) async fn orphan(&self, h: &impl LedgerHarness, millis: u64) -> Run {
        let request = ClaimRequest { lease: SHORT, ..self.request(self.instant(millis)) };
        let run = self.granted(request).await;
        h.pass(PAST_SHORT).await;
        run
    }

    pub(super) async fn end(&self, run: &Run, outcome: RunOutcome, then: AfterAttempt) -> EndReply {
        self.end_saying(run, outcome, then, "").await
    }

    pub(super) async fn end_saying(
        &self,
        run: &Run,
        outcome: RunOutcome,
        then: AfterAttempt,
        detail: &str,
    ) -> EndReply {
        let Run { run, claim, .. } = *run;
        let request = EndRequest {
            job: self.job.clone(),
            run,
            claim,
            outcome,
            detail: detail.to_owned(),
            then,
            history: DEFAULT_HISTORY,
        };
        self.client().end(request).await.expect("ledger call failed").outcome
    }

    pub(super) async fn renew(&self, run: &Run, lease: Duration) -> RunRenewal {
        let item = RenewRun { job: self.job.name.clone(), run: run.run, claim: run.claim, lease };
        self.client().renew(self.job.group.clone(), vec![item]).await.expect("ledger call failed").outcome[0]
    }

    pub(super) async fn open_runs(&self) -> Vec<OpenRun> {
        self.client().open_runs(self.job.group.clone()).await.expect("ledger call failed").outcome
    }

    pub(super) async fn history(&self) -> Vec<Attempt> {
        self.client().history(self.job.clone(), usize::MAX >> 12).await.expect("ledger call failed").outcome
    }

    /// Lists the outcomes in the history, newest first.
    pub(super) async fn outcomes(&self) -> Vec<RunOutcome> {
        self.history().await.into_iter().map(|attempt| attempt.outcome).collect()
    }

    /// Reads the revision of the group's controls.
    pub(super) async fn revision(&self) -> u64 {
        let orders = self.client().controls(self.job.group.clone(), u64::MAX).await;
        match orders.expect("ledger call failed").outcome {
            FleetControls::Changed { revision, .. } => revision,
            other => panic!("unexpected reply to an unknown revision: {other:?}"),
        }
    }

    /// Sends a command. Panics unless it is accepted.
    pub(super) async fn command(&self, command: JobCommand) -> u64 {
        match self.client().command(self.job.clone(), command).await.expect("ledger call failed").outcome {
            CommandReply::Accepted { revision } => revision,
            other => panic!("expected the command to be accepted, got {other:?}"),
        }
    }
}
