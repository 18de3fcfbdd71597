//! Overlap properties: claims while other runs of the job are open.

use super::{
    LedgerHarness,
    contender::LONG,
    ledger_fixture::{LedgerFixture, TWO},
};
use lock_ledger::{AfterAttempt, ClaimId, ClaimReply, ClaimRequest, OverlapRule, RunOutcome, RunRenewal};

/// A skipped scheduled time is decided. The next leader does not start it, even if no other run is
/// open.
pub async fn an_open_run_skips_the_next_for_good(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "skip").await;
    let first = ledger.claim(1).await;
    let second = ledger.instant(2);
    assert_eq!(ledger.send(ledger.request(second)).await, ClaimReply::Skipped);
    ledger.end(&first, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.send(ledger.request(second)).await, ClaimReply::Duplicate);
    assert_eq!(ledger.outcomes().await, [RunOutcome::Succeeded, RunOutcome::Skipped]);
    assert_eq!(ledger.claim(3).await.attempt, 1);
}

/// A skip repeated after a lost reply does not start the run.
pub async fn a_repeated_skip_stays_a_skip(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "skip-again").await;
    let first = ledger.claim(1).await;
    let request = ledger.request(ledger.instant(2));
    for _ in 0..2 {
        assert_eq!(ledger.send(request.clone()).await, ClaimReply::Skipped);
    }
    ledger.end(&first, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(
        ledger.send(request).await,
        ClaimReply::Duplicate,
        "the skipped run must not start after the earlier run has ended"
    );
    assert_eq!(ledger.history().await.iter().map(|entry| entry.count).collect::<Vec<_>>(), [1, 1]);
}

/// A queued run is not claimed until a later request.
pub async fn a_queued_run_waits_and_decides_nothing(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "queue").await;
    let queue = |millis| ClaimRequest {
        overlap: OverlapRule::Queue { max: 1 },
        ..ledger.request(ledger.instant(millis))
    };
    let first = ledger.granted(queue(1)).await;
    assert_eq!(ledger.send(queue(2)).await, ClaimReply::Busy { running: 1 });
    assert_eq!(ledger.send(queue(3)).await, ClaimReply::Busy { running: 1 });
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Renewed, "the run must not be told to stop");
    ledger.end(&first, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    ledger.granted(queue(2)).await;
    let second = ClaimRequest { overlap: OverlapRule::Queue { max: 2 }, ..queue(3) };
    ledger.granted(second.clone()).await;
    let third = ClaimRequest { run: ledger.instant(4), claim: ClaimId::random(), ..second };
    assert_eq!(ledger.send(third).await, ClaimReply::Busy { running: 2 });
    assert_eq!(ledger.history().await.len(), 1, "a refused claim must leave no record");
}

/// A run to be replaced is told to stop by the reply to its next renewal. The next run starts once
/// that run has ended.
pub async fn a_replaced_run_is_asked_to_end(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "replace").await;
    let replace =
        |millis| ClaimRequest { overlap: OverlapRule::Replace, ..ledger.request(ledger.instant(millis)) };
    let first = ledger.granted(replace(1)).await;
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Renewed);
    assert_eq!(ledger.send(replace(2)).await, ClaimReply::Busy { running: 1 });
    assert_eq!(ledger.renew(&first, LONG).await, RunRenewal::Replaced);
    ledger.end(&first, RunOutcome::Cancelled, AfterAttempt::Finish).await;
    let second = ledger.granted(replace(2)).await;
    assert_eq!(ledger.renew(&second, LONG).await, RunRenewal::Renewed);
}

/// The limit is enforced atomically with the claim.
pub async fn open_runs_are_bounded(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "allow").await;
    let allow = |millis| ClaimRequest { overlap: TWO, ..ledger.request(ledger.instant(millis)) };
    let first = ledger.granted(allow(1)).await;
    ledger.granted(allow(2)).await;
    assert_eq!(ledger.send(allow(3)).await, ClaimReply::Skipped);
    ledger.end(&first, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    ledger.granted(allow(4)).await;
    assert_eq!(ledger.open_runs().await.len(), 2);
}

/// A run whose node died does not block its job forever.
pub async fn an_orphan_does_not_overlap(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "orphan").await;
    ledger.orphan(h, 1).await;
    assert_eq!(ledger.claim(2).await.attempt, 1);
}
