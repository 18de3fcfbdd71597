//! A scheduler that asks a ledger for things: the hand with which the properties touch it.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    harness::fresh_name,
};
use lock_core::{FencingToken, LockName, ServerTime};
use lock_ledger::{
    Again, Attempt, CatchUp, ClaimId, ClaimRequest, Claimed, EndRequest, Ended, GroupName, HISTORY, JobId,
    KeepRun, KeptRun, OpenRun, Order, Ordered, Orders, OverlapRule, Registered, Registration, RunId,
    RunLedger, RunOutcome, Skip, Then,
};
use std::{sync::Arc, time::Duration};

/// Two runs may be open.
pub(super) const TWO: OverlapRule = OverlapRule::Allow { max: 2 };
/// The fingerprint of the schedule of the job.
pub(super) const SCHEDULE: u64 = 7;
/// Any number of runs may be open.
pub(super) const MANY: OverlapRule = OverlapRule::Allow { max: u32::MAX };

/// A job of a group of its own, registered a moment ago: its first instants are due.
pub(super) struct Desk {
    pub(super) ledger: Arc<dyn RunLedger>,
    pub(super) job: JobId,
    /// Its watermark at first.
    pub(super) begin: ServerTime,
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

impl Desk {
    pub(super) async fn new(h: &impl LedgerHarness, hint: &str) -> Self {
        let ledger = h.ledger().await;
        let group = GroupName::new(fresh_name(hint)).expect("names of the suite have no brace");
        let name = LockName::new("job").expect("a good name");
        let job = JobId { group, name };
        let registration = Registration { job: job.name.clone(), schedule: SCHEDULE };
        let reply = ledger.register(job.group.clone(), vec![registration]).await;
        let begin = reply.expect("a ledger answers").outcome[0].watermark;
        // The first hundred and fifty milliseconds after it are the past then.
        h.pass(Duration::from_millis(160)).await;
        Self { ledger, job, begin }
    }

    pub(super) fn ledger(&self) -> &dyn RunLedger {
        &*self.ledger
    }

    /// The instant so many milliseconds after the beginning: due up to 150.
    pub(super) fn instant(&self, millis: u64) -> RunId {
        RunId::Scheduled(self.begin + Duration::from_millis(millis))
    }

    /// Registers the job with a schedule.
    pub(super) async fn register(&self, schedule: u64) -> Registered {
        let registration = Registration { job: self.job.name.clone(), schedule };
        let reply = self.ledger().register(self.job.group.clone(), vec![registration]).await;
        reply.expect("a ledger answers").outcome[0]
    }

    /// Reads the watermark of the job with a schedule.
    pub(super) async fn watermark(&self, schedule: u64) -> Option<ServerTime> {
        let registration = Registration { job: self.job.name.clone(), schedule };
        let reply = self.ledger().watermarks(self.job.group.clone(), vec![registration]).await;
        reply.expect("a ledger answers").outcome[0]
    }

    /// Skips a row of instants.
    pub(super) async fn skip(&self, first: u64, last: u64, count: u32) -> Claimed {
        let skip = Skip { first: self.instant(first), count, detail: "missed".to_owned() };
        self.send(ClaimRequest { skip: Some(skip), ..self.request(self.instant(last)) }).await
    }

    /// A first claim that skips for overlap.
    pub(super) fn request(&self, run: RunId) -> ClaimRequest {
        ClaimRequest {
            job: self.job.clone(),
            run,
            claim: ClaimId::random(),
            again: None,
            skip: None,
            schedule: SCHEDULE,
            revision: 0,
            overlap: OverlapRule::Skip,
            lease: LONG,
            node: "node".to_owned(),
            catch_up: CatchUp::No,
            history: HISTORY,
        }
    }

    /// The claim of another attempt after this one, if this many failed or were orphaned.
    pub(super) fn after(&self, run: &Run, budget: u32) -> ClaimRequest {
        self.after_each(run, budget, budget)
    }

    pub(super) fn after_each(&self, run: &Run, failures: u32, orphanings: u32) -> ClaimRequest {
        let again = Again { claim: run.claim, failures, orphanings };
        ClaimRequest { again: Some(again), ..self.request(run.run) }
    }

    pub(super) async fn send(&self, request: ClaimRequest) -> Claimed {
        self.ledger().claim(request).await.expect("a ledger answers").outcome
    }

    /// A claim that must be granted.
    pub(super) async fn granted(&self, request: ClaimRequest) -> Run {
        let (run, claim) = (request.run, request.claim);
        match self.send(request).await {
            Claimed::Claimed { token, attempt, failures } => Run { run, claim, token, attempt, failures },
            other => panic!("{run} is due and free: it is claimed, not {other:?}"),
        }
    }

    pub(super) async fn claim(&self, millis: u64) -> Run {
        self.granted(self.request(self.instant(millis))).await
    }

    /// A run that nobody keeps, and whose time is over.
    pub(super) async fn orphan(&self, h: &impl LedgerHarness, millis: u64) -> Run {
        let request = ClaimRequest { lease: SHORT, ..self.request(self.instant(millis)) };
        let run = self.granted(request).await;
        h.pass(PAST_SHORT).await;
        run
    }

    pub(super) async fn end(&self, run: &Run, outcome: RunOutcome, then: Then) -> Ended {
        self.end_saying(run, outcome, then, "").await
    }

    pub(super) async fn end_saying(&self, run: &Run, outcome: RunOutcome, then: Then, detail: &str) -> Ended {
        let Run { run, claim, .. } = *run;
        let request = EndRequest {
            job: self.job.clone(),
            run,
            claim,
            outcome,
            detail: detail.to_owned(),
            then,
            history: HISTORY,
        };
        self.ledger().end(request).await.expect("a ledger answers").outcome
    }

    pub(super) async fn keep(&self, run: &Run, lease: Duration) -> KeptRun {
        let item = KeepRun { job: self.job.name.clone(), run: run.run, claim: run.claim, lease };
        self.ledger().keep(self.job.group.clone(), vec![item]).await.expect("a ledger answers").outcome[0]
    }

    pub(super) async fn open(&self) -> Vec<OpenRun> {
        self.ledger().open(self.job.group.clone()).await.expect("a ledger answers").outcome
    }

    pub(super) async fn history(&self) -> Vec<Attempt> {
        self.ledger().history(self.job.clone(), usize::MAX >> 12).await.expect("a ledger answers").outcome
    }

    /// Of each attempt that is remembered, the newest first.
    pub(super) async fn outcomes(&self) -> Vec<RunOutcome> {
        self.history().await.into_iter().map(|attempt| attempt.outcome).collect()
    }

    /// The revision of the group's orders.
    pub(super) async fn revision(&self) -> u64 {
        let orders = self.ledger().orders(self.job.group.clone(), u64::MAX).await;
        match orders.expect("a ledger answers").outcome {
            Orders::Changed { revision, .. } => revision,
            other => panic!("no group has that revision: {other:?}"),
        }
    }

    /// Gives an order that must be accepted.
    pub(super) async fn order(&self, order: Order) -> u64 {
        match self.ledger().order(self.job.clone(), order).await.expect("a ledger answers").outcome {
            Ordered::Accepted { revision } => revision,
            other => panic!("an order for a known job is accepted, not {other:?}"),
        }
    }
}
