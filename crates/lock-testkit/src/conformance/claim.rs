//! Claim properties. Each scheduled time of a job is decided once, by the server's clock,
//! regardless of the leader.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, MANY, SCHEDULE, TWO},
};
use lock_core::{FencingToken, LockName, clock::UtcTime};
use lock_ledger::{
    AfterAttempt, ClaimReply, ClaimRequest, GroupName, JobId, JobStatus, Registration, RunId, RunOutcome,
};
use std::time::Duration;

/// A new job's watermark is the server's current time. Registering the job again changes nothing.
pub async fn a_job_begins_when_it_is_registered(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "begin").await;
    let (group, name) = (ledger.job.group.clone(), ledger.job.name.clone());
    let other = LockName::new("other").expect("valid name");
    let both = [name, other].map(|job| Registration { job, schedule: SCHEDULE });
    let reply = ledger.client().register(group, both.to_vec()).await.expect("ledger call failed");
    let [again, new] = reply.outcome[..] else { panic!("expected one entry per job: {reply:?}") };
    assert_eq!((again.watermark, again.status), (ledger.begin, JobStatus::Existing));
    assert_eq!((new.watermark.as_millis(), new.status), (reply.now.as_millis(), JobStatus::New));
    assert_eq!(
        ledger.send(ledger.request(ledger.instant(0))).await,
        ClaimReply::Duplicate,
        "a new job must start at the current time"
    );
}

/// A second claim for the same scheduled time is a duplicate.
pub async fn a_due_instant_is_claimed_once(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "once").await;
    let run = ledger.claim(1).await;
    assert_eq!(run.attempt, 1);
    assert_eq!(ledger.send(ledger.request(run.run)).await, ClaimReply::Duplicate);
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(
        ledger.send(ledger.request(run.run)).await,
        ClaimReply::Duplicate,
        "even after the run has ended"
    );
}

/// A lost reply neither loses nor duplicates a run. A repeated claim is granted while the lease
/// lasts, even after later scheduled times. Afterwards it is refused, because another node may have
/// started the run.
pub async fn a_repeated_claim_is_granted_again_while_its_lease_lasts(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "repeat").await;
    let request = ledger.request(ledger.instant(1));
    let run = ledger.granted(request.clone()).await;
    let same = ClaimReply::Claimed { token: run.token, attempt: 1, failures: 0, payload: None };
    assert_eq!(ledger.send(request.clone()).await, same);
    assert_eq!(ledger.open_runs().await.len(), 1, "expected a single run");
    let other = ledger.request(ledger.instant(2));
    ledger.granted(ClaimRequest { overlap: TWO, ..other }).await;
    assert_eq!(ledger.send(request.clone()).await, same, "a repeat after a later scheduled time");
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.send(request).await, ClaimReply::Superseded, "after the run has ended");
    assert_eq!(ledger.outcomes().await, [RunOutcome::Succeeded]);
    let short = ClaimRequest { lease: SHORT, overlap: MANY, ..ledger.request(ledger.instant(3)) };
    ledger.granted(short.clone()).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(ledger.send(short).await, ClaimReply::Gone, "the lease has expired");
}

/// If the reply to a claim was lost, the lease starts with the repeated claim.
pub async fn a_repeated_claim_renews_its_lease(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "renews").await;
    let request = ClaimRequest { lease: SHORT, ..ledger.request(ledger.instant(1)) };
    ledger.granted(request.clone()).await;
    let repeat = ClaimRequest { lease: super::contender::LONG, ..request };
    ledger.granted(repeat).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(ledger.open_runs().await[0].state, lock_ledger::RunState::Running);
}

/// Claims must be made in ascending order.
pub async fn an_earlier_instant_is_superseded(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "superseded").await;
    let run = ledger.claim(5).await;
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    for millis in [4, 1] {
        assert_eq!(ledger.send(ledger.request(ledger.instant(millis))).await, ClaimReply::Superseded);
    }
    assert_eq!(ledger.claim(6).await.attempt, 1);
}

/// A run does not start after the end of its grace, so a delayed request cannot start it. A claim that was granted
/// within the grace is granted again, so a lost reply does not lose the run.
pub async fn a_late_claim_starts_nothing(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "late").await;
    let now = ledger.client().open_runs(ledger.job.group.clone()).await.expect("ledger call failed").now;
    let end = UtcTime::from_millis(now.as_millis()) + LONG;
    let within = ClaimRequest { not_after: Some(end), ..ledger.request(ledger.instant(1)) };
    let run = ledger.granted(within.clone()).await;
    let late = |request| ClaimRequest { not_after: ledger.instant(2).scheduled(), ..request };
    assert_eq!(ledger.granted(late(within)).await.token, run.token, "a repeated claim is not late");
    let next = ClaimRequest { overlap: TWO, ..ledger.request(ledger.instant(2)) };
    assert_eq!(ledger.send(late(next.clone())).await, ClaimReply::Late);
    assert_eq!(
        ledger.watermark(SCHEDULE).await,
        run.run.scheduled(),
        "a late claim must not decide anything"
    );
    assert_eq!(ledger.send(late(ledger.request(run.run))).await, ClaimReply::Duplicate);
    ledger.granted(next).await;
}

/// The server's clock determines whether a scheduled time is due. The caller's clock is ignored.
pub async fn a_future_instant_is_early(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "early").await;
    let ahead = Duration::from_secs(3);
    let reply = ledger.client().open_runs(ledger.job.group.clone()).await.expect("ledger call failed");
    let soon = RunId::at_millis((reply.now + ahead).as_millis());
    let request = ledger.request(soon);
    let ClaimReply::Early { wait } = ledger.send(request.clone()).await else {
        panic!("expected {soon} to be early")
    };
    assert!(wait <= ahead && !wait.is_zero(), "{wait:?} of {ahead:?} remain");
    h.pass(wait).await;
    let reply = ledger.client().claim(request).await.expect("ledger call failed");
    assert!(
        matches!(reply.outcome, ClaimReply::Claimed { .. }),
        "expected a claim for a due time, got {reply:?}"
    );
    assert!(
        reply.now >= soon.scheduled().expect("the run has a scheduled time"),
        "claimed before the scheduled time: {reply:?}"
    );
}

/// A new schedule for an existing job starts when it is registered, even if it has scheduled times
/// between the watermark and now. Each schedule keeps its own start, so nodes in a rolling
/// deployment do not move each other's start.
pub async fn a_changed_schedule_begins_when_it_is_registered(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "since").await;
    let changed = ledger.register(SCHEDULE + 1).await;
    assert_eq!(changed.status, JobStatus::Existing);
    assert!(changed.watermark > ledger.begin, "{changed:?} for a job that started at {:?}", ledger.begin);
    let of = |schedule, millis| ClaimRequest { schedule, ..ledger.request(ledger.instant(millis)) };
    assert_eq!(
        ledger.send(of(SCHEDULE + 1, 100)).await,
        ClaimReply::Superseded,
        "the time is before the schedule's start"
    );
    ledger.granted(of(SCHEDULE, 100)).await;
    h.pass(Duration::from_millis(5)).await;
    assert_eq!(ledger.register(SCHEDULE + 1).await.watermark, changed.watermark, "the start is set once");
    assert_eq!(ledger.watermark(SCHEDULE + 1).await, Some(changed.watermark));
    assert_eq!(ledger.watermark(SCHEDULE).await, ledger.instant(100).scheduled());
}

/// Reading a watermark does not register the job.
pub async fn reading_a_watermark_makes_none(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "read").await;
    let job = LockName::new("unknown").expect("valid name");
    let read = || async {
        let unknown = vec![Registration { job: job.clone(), schedule: SCHEDULE }];
        let reply = ledger.client().watermarks(ledger.job.group.clone(), unknown).await;
        reply.expect("ledger call failed").outcome
    };
    assert_eq!(read().await, [None]);
    assert_eq!(read().await, [None], "reading must not create a watermark");
    assert_eq!(
        ledger.watermark(SCHEDULE + 1).await,
        Some(ledger.begin),
        "reading must not start another schedule"
    );
    h.pass(Duration::from_millis(5)).await;
    assert!(ledger.register(SCHEDULE + 1).await.watermark > ledger.begin);
}

/// A claim never creates a watermark. Without a watermark, it is unknown which runs were started.
pub async fn a_job_without_a_watermark_is_not_claimed(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "unregistered").await;
    let name = LockName::new("unknown").expect("valid name");
    let unknown =
        ClaimRequest { job: JobId { name, ..ledger.job.clone() }, ..ledger.request(ledger.instant(1)) };
    assert_eq!(ledger.send(unknown.clone()).await, ClaimReply::Unregistered);
    assert_eq!(ledger.send(unknown).await, ClaimReply::Unregistered, "a claim must not create a watermark");
}

/// Tokens increase from run to run and from attempt to attempt.
pub async fn tokens_of_claims_grow(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "tokens").await;
    let mut last = FencingToken::new(0);
    for millis in 1..10 {
        let first = ledger.claim(millis).await;
        ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
        let second = ledger.granted(ledger.after(&first, 2)).await;
        ledger.end(&second, RunOutcome::Succeeded, AfterAttempt::Finish).await;
        assert!(
            first.token > last && second.token > first.token,
            "{last:?}, then {first:?}, then {second:?}"
        );
        last = second.token;
    }
}

/// Any number of simultaneous leaders start only one run.
pub async fn one_of_many_claims_starts(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "at-once").await;
    let other = h.another_ledger(&ledger.client).await;
    for millis in 1..=5 {
        let mut tasks = Vec::new();
        for number in 0..10 {
            let client = if number % 2 == 0 { ledger.client.clone() } else { other.clone() };
            let request = ClaimRequest { overlap: MANY, ..ledger.request(ledger.instant(millis)) };
            tasks.push(tokio::spawn(async move { client.claim(request).await }));
        }
        let mut started = 0;
        for task in tasks {
            match task.await.expect("the task panicked").expect("ledger call failed").outcome {
                ClaimReply::Claimed { .. } => started += 1,
                ClaimReply::Duplicate => {}
                other => panic!("expected the other claims to be refused, got {other:?}"),
            }
        }
        assert_eq!(started, 1);
    }
}

/// Jobs do not affect each other, and neither do groups.
pub async fn jobs_and_groups_are_independent(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "apart").await;
    let run = ledger.claim(1).await;
    let name = LockName::new("job2").expect("valid name");
    let group = GroupName::new(format!("{}2", ledger.job.group)).expect("valid name");
    for job in [JobId { name, ..ledger.job.clone() }, JobId { group, ..ledger.job.clone() }] {
        let registration = Registration { job: job.name.clone(), schedule: SCHEDULE };
        let reply = ledger.client().register(job.group.clone(), vec![registration]).await;
        assert_eq!(reply.expect("ledger call failed").outcome[0].status, JobStatus::New);
        let history = ledger.client().history(job.clone(), 10).await.expect("ledger call failed").outcome;
        assert_eq!(history, []);
        h.pass(Duration::from_millis(5)).await;
        let now = ledger.client().open_runs(job.group.clone()).await.expect("ledger call failed").now;
        let due = RunId::at_millis(now.as_millis());
        ledger.granted(ClaimRequest { job, ..ledger.request(due) }).await;
    }
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.claim(2).await.attempt, 1);
}

/// A node that has not read the watermark can claim a scheduled time only if the previous time is
/// decided. Otherwise, a catch-up run would be lost.
pub async fn a_claim_after_an_undecided_instant_is_behind(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "behind").await;
    let scheduled = |millis| ledger.instant(millis).scheduled();
    let after = |at, before| ClaimRequest {
        after: scheduled(before),
        overlap: MANY,
        ..ledger.request(ledger.instant(at))
    };
    assert_eq!(ledger.send(after(20, 10)).await, ClaimReply::Behind);
    let early = ledger.send(after(60_000, 10)).await;
    assert!(
        matches!(early, ClaimReply::Early { .. }),
        "a claim must not be behind before its time is due: {early:?}"
    );
    assert_eq!(
        ledger.watermark(SCHEDULE).await,
        Some(ledger.begin),
        "a refused claim must not decide anything"
    );
    ledger.granted(after(10, 0)).await;
    ledger.granted(after(20, 10)).await;
    assert_eq!(ledger.send(after(15, 10)).await, ClaimReply::Superseded);
    let since = ledger.register(SCHEDULE + 1).await.watermark;
    let of_new = ClaimRequest { schedule: SCHEDULE + 1, ..after(30, 25) };
    assert!(scheduled(25) < Some(since), "the new schedule must start later");
    assert_eq!(ledger.send(of_new).await, ClaimReply::Superseded);
}
