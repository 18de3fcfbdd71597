//! Properties of a group's summary: descriptions, live nodes, and the latest outcomes of each job.

use super::{
    LedgerHarness,
    contender::LONG,
    ledger_fixture::{LedgerFixture, Run},
};
use lock_core::{LockName, backend::ProcessId, clock::UtcTime};
use lock_ledger::{
    AfterAttempt, HeartbeatRequest, JobDescription, JobSummary, LiveNode, RECENT_OUTCOMES, Registration,
    RunOutcome,
};
use std::time::Duration;

/// The time after which a daily job is overdue.
const ALERT_AFTER: Duration = Duration::from_millis(90_000_001);

async fn describe(ledger: &LedgerFixture, job: &LockName, schedule: &str) {
    let terms = format!("[\"{schedule}\"]");
    let alert_after = (schedule == "@daily").then_some(ALERT_AFTER);
    let (schedule, dst) = (schedule.to_owned(), "skip first".to_owned());
    let description = JobDescription { job: job.clone(), schedule, dst, terms, alert_after };
    ledger.client().describe(ledger.job.group.clone(), vec![description]).await.expect("ledger call failed");
}

pub(super) async fn summaries(ledger: &LedgerFixture) -> Vec<JobSummary> {
    ledger.client().summary(ledger.job.group.clone()).await.expect("ledger call failed").outcome.jobs
}

async fn summary(ledger: &LedgerFixture) -> JobSummary {
    summaries(ledger).await.pop().expect("the job has a summary")
}

async fn finish(ledger: &LedgerFixture, millis: u64, outcome: RunOutcome) -> Run {
    let run = ledger.claim(millis).await;
    ledger.end_saying(&run, outcome, AfterAttempt::Finish, "detail").await;
    run
}

/// A registered job's description is kept for display. Describing an unknown job creates nothing.
pub async fn a_registered_job_is_described(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "described").await;
    assert_eq!(summaries(&ledger).await, []);
    let unknown = LockName::new("unknown").expect("valid name");
    describe(&ledger, &unknown, "@daily").await;
    describe(&ledger, &ledger.job.name, "@daily").await;
    let first = summary(&ledger).await;
    assert_eq!((&first.job, &*first.schedule), (&ledger.job.name, "@daily"));
    assert_eq!((&*first.dst, &*first.terms), ("skip first", "[\"@daily\"]"));
    assert_eq!(first.alert_after, Some(ALERT_AFTER));
    assert_eq!(
        first.since,
        Some(UtcTime::from_millis(ledger.begin.as_millis())),
        "the time at which the job was registered"
    );
    assert!(first.described >= ledger.begin && first.recent.is_empty());
    finish(&ledger, 1, RunOutcome::Succeeded).await;
    h.pass(Duration::from_millis(2)).await;
    describe(&ledger, &ledger.job.name, "CRON_TZ=Asia/Tokyo \"ü\"").await;
    let second = summary(&ledger).await;
    assert_eq!(second.schedule, "CRON_TZ=Asia/Tokyo \"ü\"");
    assert!(second.described > first.described);
    assert_eq!((second.alert_after, second.since), (None, first.since));
    assert_eq!(second.recent, [RunOutcome::Succeeded], "a new description must keep the outcomes");
    assert_eq!(summaries(&ledger).await.len(), 1, "an unknown job must have no description");
}

/// A kind is described without a registration, and its description does not register a job.
pub async fn a_kind_is_described(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "kinds").await;
    let kind = LockName::new("import/").expect("valid name");
    describe(&ledger, &kind, "@hourly").await;
    h.pass(Duration::from_millis(2)).await;
    describe(&ledger, &kind, "@daily").await;
    let described = summary(&ledger).await;
    assert_eq!((&described.job, &*described.terms), (&kind, "[\"@daily\"]"));
    assert_eq!((described.alert_after, described.since), (Some(ALERT_AFTER), None));
    let registration = Registration { job: kind, schedule: 1 };
    let watermarks = ledger.client().watermarks(ledger.job.group.clone(), vec![registration]).await;
    assert_eq!(watermarks.expect("ledger call failed").outcome, [None]);
    describe(&ledger, &ledger.job.name, "@daily").await;
    let names: Vec<_> = summaries(&ledger).await.into_iter().map(|of| of.job.to_string()).collect();
    assert!(names.is_sorted() && names.len() == 2, "{names:?}");
}

/// A summary contains the latest outcomes and the time since which the job has been failing, so no
/// histories need to be read.
pub async fn a_summary_has_the_latest_outcomes(h: &impl LedgerHarness) {
    use RunOutcome::{Cancelled, Failed, Panicked, Skipped, Succeeded};
    let ledger = LedgerFixture::new(h, "outcomes").await;
    finish(&ledger, 1, Succeeded).await;
    let succeeded = summary(&ledger).await;
    assert_eq!(succeeded.last.as_ref(), ledger.history().await.first());
    assert_eq!(succeeded.last_success, succeeded.last.map(|last| last.ended));
    assert_eq!(succeeded.failing_since, None);
    h.pass(Duration::from_millis(2)).await;
    finish(&ledger, 2, Panicked).await;
    let failing = summary(&ledger).await.failing_since;
    assert_eq!(failing, Some(ledger.history().await[0].ended));
    h.pass(Duration::from_millis(2)).await;
    let run = finish(&ledger, 3, Failed).await;
    finish(&ledger, 4, Cancelled).await;
    ledger.skip(5, 6, 2).await;
    ledger.skip(7, 7, 1).await;
    let failed = summary(&ledger).await;
    assert_eq!(failed.recent, [Skipped, Cancelled, Failed, Panicked, Succeeded]);
    assert_eq!(failed.last.map(|last| last.outcome), Some(Cancelled), "a skip must not count as an attempt");
    assert_eq!((failed.failing_since, failed.last_success), (failing, succeeded.last_success));
    assert_ne!(
        ledger.history().await.iter().find(|entry| entry.claim == run.claim).map(|e| e.ended),
        failing
    );
    for millis in 8..=7 + RECENT_OUTCOMES as u64 {
        finish(&ledger, millis, Succeeded).await;
    }
    let healthy = summary(&ledger).await;
    assert_eq!(healthy.recent, [Succeeded; RECENT_OUTCOMES]);
    assert_eq!(healthy.failing_since, None);
}

/// An attempt whose node died counts as failed once it is retried.
pub async fn an_abandoned_attempt_is_in_the_summary(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "abandoned").await;
    let orphan = ledger.orphan(h, 1).await;
    ledger.granted(ledger.after(&orphan, 1)).await;
    let abandoned = summary(&ledger).await;
    assert_eq!(abandoned.recent, [RunOutcome::Abandoned]);
    assert_eq!(abandoned.failing_since, Some(ledger.history().await[0].ended));
}

/// A summary lists the same nodes as the last heartbeat, and does not count as a heartbeat.
pub async fn a_summary_lists_the_live_nodes(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "summary").await;
    let id = *ProcessId::random().as_uuid();
    let node = LiveNode { id, name: "a".to_owned(), jobs: 7, room: 3, kinds: vec![], leading: true };
    let heartbeat = async |lease| {
        let (group, node) = (ledger.job.group.clone(), node.clone());
        let request = HeartbeatRequest { group, node, lease, known: 0, watermarks: Vec::new() };
        ledger.client().heartbeat(request).await.expect("ledger call failed")
    };
    let read = async || {
        ledger.client().summary(ledger.job.group.clone()).await.expect("ledger call failed").outcome.nodes
    };
    heartbeat(LONG).await;
    assert_eq!(read().await, std::slice::from_ref(&node));
    heartbeat(super::contender::SHORT).await;
    h.pass(super::contender::PAST_SHORT).await;
    assert_eq!(read().await, [], "the node's lease has expired");
}
