//! Properties of instances that run once.

use super::{LedgerHarness, instance::InstanceFixture};
use lock_core::clock::UtcTime;
use lock_ledger::{
    AddReply, ClaimReply, ClaimRequest, JobCommand, Once, PauseNote, Removal, RemoveReply, RunId, RunOutcome,
    Skip,
};
use std::time::Duration;

/// A retention time that is longer than any test.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates an instance that runs once, at this time.
async fn once(h: &impl LedgerHarness, hint: &str, at: RunId, kept: Duration) -> InstanceFixture {
    let mut fixture = InstanceFixture::new(h, hint).await;
    fixture.definition.once = Some(Once { at: at.scheduled().expect("the run has a scheduled time"), kept });
    assert_eq!(fixture.add().await, AddReply::Added);
    fixture
}

fn instant(millis: u64) -> RunId {
    RunId::at_millis(millis)
}

/// An instance runs once even if its scheduled time has passed when the request to add it arrives.
pub async fn an_instant_in_the_past_runs_once(h: &impl LedgerHarness) {
    let fixture = once(h, "past", instant(7_000), LONG).await;
    let run = fixture.claim(instant(7_000)).await;
    assert_eq!(fixture.add().await, AddReply::Unchanged, "the instance is running");
    fixture.finish(&run).await;
    assert_eq!(fixture.all().await.1, [], "the instance has run");
    assert_eq!(fixture.add().await, AddReply::AlreadyRun);
    assert_eq!(fixture.all().await.1, []);
    assert_eq!(fixture.ledger.outcomes().await, [RunOutcome::Succeeded]);
}

/// An instance that has run cannot be added again within its retention time, at any scheduled time.
/// Afterwards, no data is left.
pub async fn a_run_keeps_its_name_for_a_while(h: &impl LedgerHarness) {
    let kept = Duration::from_millis(400);
    let mut fixture = once(h, "kept", instant(7_000), kept).await;
    fixture.ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let revision = fixture.ledger.command(JobCommand::Resume).await;
    let request = ClaimRequest { revision, ..fixture.request(instant(7_000)).await };
    let run = fixture.ledger.granted(request).await;
    fixture.finish(&run).await;
    fixture.definition.once = Some(Once { at: UtcTime::from_millis(9_000), kept });
    assert_eq!(fixture.add().await, AddReply::AlreadyRun);
    h.pass(kept * 2).await;
    fixture.assert_nothing_left().await;
    assert_eq!(fixture.add().await, AddReply::Added);
    fixture.claim(instant(9_000)).await;
}

/// A skipped one-time run counts as decided.
pub async fn a_skipped_run_has_run(h: &impl LedgerHarness) {
    let fixture = once(h, "skipped", instant(7_000), LONG).await;
    let skip = Skip { first: instant(7_000), count: 1, detail: "missed".to_owned() };
    let request = ClaimRequest { skip: Some(skip), ..fixture.request(instant(7_000)).await };
    assert_eq!(fixture.ledger.send(request).await, ClaimReply::Skipped);
    assert_eq!(fixture.add().await, AddReply::AlreadyRun);
    assert_eq!(fixture.all().await.1, []);
}

/// An instance can be rescheduled to any time before it runs, even to an earlier one.
pub async fn another_instant_replaces_the_first(h: &impl LedgerHarness) {
    let mut fixture = once(h, "moved", instant(7_000), LONG).await;
    for at in [9_000, 3_000] {
        fixture.definition.once = Some(Once { at: UtcTime::from_millis(at), kept: LONG });
        assert_eq!(fixture.add().await, AddReply::Changed);
    }
    fixture.claim(instant(3_000)).await;
    fixture.definition.once = Some(Once { at: UtcTime::from_millis(5_000), kept: LONG });
    assert_eq!(fixture.add().await, AddReply::AlreadyRun, "the run has started");
}

/// A job that is resumed after its only scheduled time runs late.
pub async fn a_pause_does_not_miss_the_instant(h: &impl LedgerHarness) {
    let fixture = once(h, "paused", instant(7_000), LONG).await;
    fixture.ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let revision = fixture.ledger.command(JobCommand::Resume).await;
    let request = ClaimRequest { revision, ..fixture.request(instant(7_000)).await };
    fixture.ledger.granted(request).await;
}

/// A removed instance can be added again as new. While its run is open, it keeps its name.
pub async fn a_removed_one_leaves_nothing(h: &impl LedgerHarness) {
    let fixture = once(h, "removed", instant(7_000), LONG).await;
    assert_eq!(fixture.remove(Removal::KeepRecord).await, RemoveReply::Removed);
    fixture.assert_nothing_left().await;
    assert_eq!(fixture.add().await, AddReply::Added);
    let run = fixture.claim(instant(7_000)).await;
    assert_eq!(fixture.remove(Removal::KeepRecord).await, RemoveReply::Removed);
    fixture.finish(&run).await;
    assert_eq!(fixture.add().await, AddReply::AlreadyRun);
    assert_eq!(fixture.remove(Removal::Forget).await, RemoveReply::Removed);
    assert_eq!(
        fixture.add().await,
        AddReply::Added,
        "a forgotten instance must be new when it is added again"
    );
}

/// The watermark of an instance with a schedule is no run of a later one that runs once. Its time must be after that
/// watermark, since an earlier one could be that of a run that has started.
pub async fn a_name_with_a_past_takes_a_later_instant(h: &impl LedgerHarness) {
    let mut fixture = InstanceFixture::added(h, "past-name").await;
    let run = fixture.claim(fixture.ledger.instant(1)).await;
    fixture.finish(&run).await;
    fixture.remove(Removal::KeepRecord).await;
    let mark = fixture.ledger.watermark(0).await.expect("the record is kept");
    for at in [UtcTime::from_millis(7_000), mark] {
        fixture.definition.once = Some(Once { at, kept: LONG });
        assert_eq!(fixture.add().await, AddReply::Decided { up_to: mark });
        assert_eq!(fixture.all().await.1, []);
    }
    let at = mark + Duration::from_millis(1);
    fixture.definition.once = Some(Once { at, kept: LONG });
    assert_eq!(fixture.add().await, AddReply::Added);
    assert_eq!(fixture.add().await, AddReply::Unchanged);
    let run = fixture.claim(RunId::Scheduled(at)).await;
    fixture.finish(&run).await;
    assert_eq!(fixture.add().await, AddReply::AlreadyRun);
}
