//! Skipping: instants that are decided and not started, once in the fleet.

use super::{LedgerHarness, scheduler::Desk};
use lock_ledger::{ClaimRequest, Claimed, RunOutcome, Skip, Then};

/// The next leader neither starts what was skipped nor counts it again.
pub async fn a_skip_moves_the_watermark(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "skip-row").await;
    assert_eq!(desk.skip(1, 20, 20).await, Claimed::Skipped);
    assert_eq!(desk.send(desk.request(desk.instant(20))).await, Claimed::Duplicate);
    assert_eq!(desk.skip(1, 20, 20).await, Claimed::Duplicate, "another leader counts nothing");
    assert_eq!(desk.skip(1, 19, 19).await, Claimed::Superseded);
    let history = desk.history().await;
    let [row] = &history[..] else { panic!("one entry: {history:?}") };
    assert_eq!((row.outcome, row.count, &*row.detail), (RunOutcome::Skipped, 20, "missed"));
    assert_eq!((row.first, row.run), (desk.instant(1), desk.instant(20)));
    assert_eq!(desk.open().await, []);
    desk.claim(21).await;
}

/// A skip whose reply was lost counts once.
pub async fn a_skip_row_that_is_repeated_is_one(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "skip-repeat").await;
    let skip = Skip { first: desk.instant(1), count: 3, detail: "missed".to_owned() };
    let request = ClaimRequest { skip: Some(skip), ..desk.request(desk.instant(3)) };
    for _ in 0..2 {
        assert_eq!(desk.send(request.clone()).await, Claimed::Skipped);
    }
    let counts: Vec<_> = desk.history().await.iter().map(|entry| entry.count).collect();
    assert_eq!(counts, [3]);
}

/// Failures are not driven out of the history by the skips after them.
pub async fn skips_that_follow_one_another_are_one_entry(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "fold").await;
    let first = desk.claim(1).await;
    for millis in 2..=48 {
        assert_eq!(desk.send(desk.request(desk.instant(millis))).await, Claimed::Skipped);
    }
    assert_eq!(desk.skip(49, 50, 2).await, Claimed::Skipped, "for another reason");
    desk.end(&first, RunOutcome::Failed, Then::Over).await;
    assert_eq!(desk.skip(51, 51, 1).await, Claimed::Skipped);
    let rows: Vec<_> = desk.history().await.iter().map(|e| (e.outcome, e.first, e.run, e.count)).collect();
    let (skipped, at) = (RunOutcome::Skipped, |millis| desk.instant(millis));
    let expected = [
        (skipped, at(51), at(51), 1),
        (RunOutcome::Failed, at(1), at(1), 1),
        (skipped, at(49), at(50), 2),
        (skipped, at(2), at(48), 47),
    ];
    assert_eq!(rows, expected);
}
