//! Backfill properties. Past scheduled times run one at a time, oldest first, without affecting the
//! schedule.

use super::{
    LedgerHarness,
    contender::{PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, MANY, SCHEDULE, TWO},
};
use lock_core::backend::ProcessId;
use lock_ledger::{
    AfterAttempt, Backfill, BackfillRequest, ClaimReply, ClaimRequest, CommandReply, FleetControls,
    JobCommand, MAX_BACKFILLS_PER_JOB, OverlapRule, PauseNote, RunId, RunOutcome,
};
use std::time::Duration;
use uuid::Uuid;

impl LedgerFixture {
    /// Returns a request for a backfill of the first `last` milliseconds after the watermark.
    fn past(&self, last: u64) -> BackfillRequest {
        BackfillRequest {
            id: *ProcessId::random().as_uuid(),
            first: self.begin + Duration::from_millis(1),
            last: self.begin + Duration::from_millis(last),
            count: 3,
            schedule: "CRON_TZ=Europe/Berlin 0 2 * * *".to_owned(),
            dst: "skip both".to_owned(),
        }
    }

    async fn backfill(&self, last: u64) -> Uuid {
        let request = self.past(last);
        let id = request.id;
        self.command(JobCommand::Backfill(request)).await;
        id
    }

    fn run_of(&self, id: Uuid, millis: u64) -> RunId {
        RunId::Backfill { id, at: self.begin + Duration::from_millis(millis) }
    }

    async fn backfills(&self) -> Vec<Backfill> {
        let controls = self.client().controls(self.job.group.clone(), u64::MAX).await;
        match controls.expect("ledger call failed").outcome {
            FleetControls::Changed { backfills, .. } => backfills,
            other => panic!("unexpected reply to an unknown revision: {other:?}"),
        }
    }
}

/// A backfill's runs start in order, and every node can read its request and progress. A backfill
/// does not move the watermark.
pub async fn a_backfill_runs_in_order_and_decides_no_instant(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "backfill").await;
    let live = ledger.claim(20).await;
    ledger.end(&live, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    let (request, before) = (ledger.past(9), ledger.watermark(SCHEDULE).await);
    let revision = ledger.command(JobCommand::Backfill(request.clone())).await;
    assert_eq!(
        ledger.command(JobCommand::Backfill(request.clone())).await,
        revision,
        "a repeated request must have no effect"
    );
    for (done, millis) in [3, 6, 9].into_iter().enumerate() {
        let read = ledger.backfills().await.remove(0);
        assert_eq!((read.id, &read.job), (request.id, &ledger.job.name));
        assert_eq!((read.first, read.last), (request.first, request.last));
        assert_eq!((read.schedule, read.dst), (request.schedule.clone(), request.dst.clone()));
        assert_eq!((read.count, read.done as usize), (3, done));
        let run = ledger.granted(ledger.request(ledger.run_of(request.id, millis))).await;
        assert_eq!(ledger.send(ledger.request(run.run)).await, ClaimReply::Duplicate);
        ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
        let earlier = ledger.request(ledger.run_of(request.id, millis - 1));
        let refused = ledger.send(earlier).await;
        let expected = if done < 2 { ClaimReply::Superseded } else { ClaimReply::Duplicate };
        assert_eq!(refused, expected, "backfill progress must not decrease");
        assert_eq!(ledger.history().await[0].run, run.run);
    }
    assert_eq!(ledger.backfills().await, [], "the last run must end the backfill");
    assert_eq!(ledger.watermark(SCHEDULE).await, before);
    assert_eq!(ledger.command(JobCommand::Backfill(request)).await, ledger.revision().await);
    assert_eq!(ledger.backfills().await, [], "a late repeat must not start a backfill");
}

/// Only one of a backfill's runs is open at a time, even if that run's node is gone.
pub async fn runs_of_a_backfill_do_not_overlap(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "one-at-a-time").await;
    let id = ledger.backfill(9).await;
    let of = |millis| ClaimRequest { overlap: MANY, ..ledger.request(ledger.run_of(id, millis)) };
    let first = ledger.granted(ClaimRequest { lease: SHORT, ..of(3) }).await;
    assert_eq!(ledger.send(of(6)).await, ClaimReply::Busy { running: 1 });
    h.pass(PAST_SHORT).await;
    assert_eq!(ledger.send(of(6)).await, ClaimReply::Busy { running: 1 }, "the open run may be continued");
    let retry = ledger.granted(ledger.after(&first, 1)).await;
    assert_eq!((retry.run, retry.attempt), (first.run, 2));
    ledger.end(&retry, RunOutcome::Failed, AfterAttempt::Finish).await;
    ledger.granted(of(6)).await;
}

/// A backfill waits in cases where the overlap rule would skip a scheduled time or replace a run.
pub async fn a_backfill_waits_for_other_runs(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "waits").await;
    let live = ledger.claim(20).await;
    let id = ledger.backfill(9).await;
    let of = |overlap| ClaimRequest { overlap, ..ledger.request(ledger.run_of(id, 3)) };
    let one = OverlapRule::Allow { max: 1 };
    for overlap in [OverlapRule::Skip, OverlapRule::Queue { max: 1 }, OverlapRule::Replace, one] {
        assert_eq!(ledger.send(of(overlap)).await, ClaimReply::Busy { running: 1 }, "{overlap:?}");
    }
    assert_eq!(
        ledger.renew(&live, SHORT).await,
        lock_ledger::RunRenewal::Renewed,
        "the run must not be replaced"
    );
    ledger.granted(of(TWO)).await;
}

/// A pause stops a backfill. After a resume, no scheduled time is lost.
pub async fn a_paused_job_runs_no_backfill(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "paused").await;
    let id = ledger.backfill(9).await;
    ledger.command(JobCommand::Pause(PauseNote::default())).await;
    assert_eq!(ledger.send(ledger.request(ledger.run_of(id, 3))).await, ClaimReply::Paused);
    ledger.command(JobCommand::Resume).await;
    ledger.granted(ledger.request(ledger.run_of(id, 3))).await;
}

/// A cancelled backfill starts no further runs. Its open run continues.
pub async fn a_backfill_can_be_cancelled(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "withdrawn").await;
    let id = ledger.backfill(9).await;
    let run = ledger.granted(ledger.request(ledger.run_of(id, 3))).await;
    let before = ledger.revision().await;
    assert!(ledger.command(JobCommand::CancelBackfill(id)).await > before, "the revision must change");
    assert_eq!(ledger.backfills().await, []);
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.send(ledger.request(ledger.run_of(id, 6))).await, ClaimReply::Duplicate);
    let again = ledger.client().command(ledger.job.clone(), JobCommand::CancelBackfill(id)).await;
    assert_eq!(again.expect("ledger call failed").outcome, CommandReply::Gone);
}

/// A backfill starts no run for a scheduled time after the end of its range or in the future.
pub async fn a_backfill_stays_within_its_range(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "range").await;
    let id = ledger.backfill(9).await;
    assert_eq!(ledger.send(ledger.request(ledger.run_of(id, 10))).await, ClaimReply::Superseded);
    let future = ledger.backfill(3_600_000).await;
    let early = ledger.send(ledger.request(ledger.run_of(future, 3_600_000))).await;
    assert!(matches!(early, ClaimReply::Early { .. }), "{early:?}");
}

/// The number of waiting backfills is limited.
pub async fn backfills_are_bounded(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "many").await;
    for _ in 0..MAX_BACKFILLS_PER_JOB {
        ledger.backfill(9).await;
    }
    let command = JobCommand::Backfill(ledger.past(9));
    let one_more = ledger.client().command(ledger.job.clone(), command).await;
    assert_eq!(one_more.expect("ledger call failed").outcome, CommandReply::Full);
}
