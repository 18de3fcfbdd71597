//! Skip properties. A skipped scheduled time is decided without a run, once in the whole fleet.

use super::{
    LedgerHarness,
    ledger_fixture::{LedgerFixture, SCHEDULE},
};
use lock_ledger::{AfterAttempt, ClaimReply, ClaimRequest, RunId, RunOutcome, Skip};
use std::time::Duration;

/// The next leader neither starts a skipped scheduled time nor counts it again.
pub async fn a_skip_moves_the_watermark(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "skip-row").await;
    assert_eq!(ledger.skip(1, 20, 20).await, ClaimReply::Skipped);
    assert_eq!(ledger.send(ledger.request(ledger.instant(20))).await, ClaimReply::Duplicate);
    assert_eq!(
        ledger.skip(1, 20, 20).await,
        ClaimReply::Duplicate,
        "another leader must not count the skips again"
    );
    assert_eq!(ledger.skip(1, 19, 19).await, ClaimReply::Superseded);
    let history = ledger.history().await;
    let [row] = &history[..] else { panic!("expected one entry: {history:?}") };
    assert_eq!((row.outcome, row.count, &*row.detail), (RunOutcome::Skipped, 20, "missed"));
    assert_eq!((row.first, row.run), (ledger.instant(1), ledger.instant(20)));
    assert_eq!(ledger.open_runs().await, []);
    ledger.claim(21).await;
}

/// A series whose first time is decided is refused as a whole, because another node may have started that run.
pub async fn a_partly_decided_series_is_refused(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "skip-partly").await;
    let run = ledger.claim(10).await;
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    for first in [1, 10] {
        assert_eq!(ledger.skip(first, 30, 3).await, ClaimReply::PartlyDecided, "from {first} ms");
    }
    assert_eq!(ledger.outcomes().await, [RunOutcome::Succeeded], "a refused series must leave no record");
    assert_eq!(ledger.skip(5, 10, 2).await, ClaimReply::Duplicate);
    assert_eq!(ledger.skip(20, 30, 2).await, ClaimReply::Skipped);
    let since = ledger.register(SCHEDULE + 1).await.watermark;
    let skip = Skip { first: ledger.instant(40), count: 2, detail: "missed".to_owned() };
    h.pass(Duration::from_millis(20)).await;
    let of_new = ClaimRequest {
        skip: Some(skip),
        schedule: SCHEDULE + 1,
        ..ledger.request(RunId::Scheduled(since + Duration::from_millis(10)))
    };
    assert_eq!(
        ledger.send(of_new).await,
        ClaimReply::PartlyDecided,
        "the new schedule starts within the series"
    );
}

/// A skip repeated after a lost reply counts once.
pub async fn a_repeated_row_counts_once(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "skip-repeat").await;
    let skip = Skip { first: ledger.instant(1), count: 3, detail: "missed".to_owned() };
    let request = ClaimRequest { skip: Some(skip), ..ledger.request(ledger.instant(3)) };
    for _ in 0..2 {
        assert_eq!(ledger.send(request.clone()).await, ClaimReply::Skipped);
    }
    let counts: Vec<_> = ledger.history().await.iter().map(|entry| entry.count).collect();
    assert_eq!(counts, [3]);
}

/// Adjacent skips share one entry, so they do not push earlier failures out of the history.
pub async fn adjacent_skips_are_one_entry(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "fold").await;
    let first = ledger.claim(1).await;
    for millis in 2..=48 {
        assert_eq!(ledger.send(ledger.request(ledger.instant(millis))).await, ClaimReply::Skipped);
    }
    assert_eq!(ledger.skip(49, 50, 2).await, ClaimReply::Skipped, "the skip has a different reason");
    ledger.end(&first, RunOutcome::Failed, AfterAttempt::Finish).await;
    assert_eq!(ledger.skip(51, 51, 1).await, ClaimReply::Skipped);
    let rows: Vec<_> = ledger.history().await.iter().map(|e| (e.outcome, e.first, e.run, e.count)).collect();
    let (skipped, at) = (RunOutcome::Skipped, |millis| ledger.instant(millis));
    let expected = [
        (skipped, at(51), at(51), 1),
        (RunOutcome::Failed, at(1), at(1), 1),
        (skipped, at(49), at(50), 2),
        (skipped, at(2), at(48), 47),
    ];
    assert_eq!(rows, expected);
}
