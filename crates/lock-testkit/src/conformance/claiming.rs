//! Claiming: each instant of each job is decided once, by the server's clock, whoever leads.

use super::{
    LedgerHarness,
    contender::{PAST_SHORT, SHORT},
    scheduler::{Desk, MANY, SCHEDULE, TWO},
};
use lock_core::{FencingToken, LockName};
use lock_ledger::{ClaimRequest, Claimed, GroupName, JobId, Known, Registration, RunId, RunOutcome, Then};
use std::time::Duration;

/// The watermark of a new job is the server's now; registering again changes nothing.
pub async fn a_job_begins_when_it_is_registered(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "begin").await;
    let (group, name) = (desk.job.group.clone(), desk.job.name.clone());
    let other = LockName::new("other").expect("a good name");
    let both = [name, other].map(|job| Registration { job, schedule: SCHEDULE });
    let reply = desk.ledger().register(group, both.to_vec()).await.expect("a ledger answers");
    let [again, new] = reply.outcome[..] else { panic!("one answer a job: {reply:?}") };
    assert_eq!((again.watermark, again.state), (desk.begin, Known::Before));
    assert_eq!((new.watermark.as_millis(), new.state), (reply.now.as_millis(), Known::New));
    assert_eq!(
        desk.send(desk.request(desk.instant(0))).await,
        Claimed::Duplicate,
        "it does not begin in the past"
    );
}

/// Who comes second hears that it was decided.
pub async fn a_due_instant_is_claimed_once(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "once").await;
    let run = desk.claim(1).await;
    assert_eq!(run.attempt, 1);
    assert_eq!(desk.send(desk.request(run.run)).await, Claimed::Duplicate);
    desk.end(&run, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.send(desk.request(run.run)).await, Claimed::Duplicate, "also when it has ended");
}

/// A lost reply neither loses nor doubles a run: a repeat is granted while the lease lasts, also when later instants came
/// between. Afterwards others may run instead, so it is refused.
pub async fn a_repeated_claim_is_granted_again_while_its_lease_lasts(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "repeat").await;
    let request = desk.request(desk.instant(1));
    let run = desk.granted(request.clone()).await;
    let same = Claimed::Claimed { token: run.token, attempt: 1, failures: 0 };
    assert_eq!(desk.send(request.clone()).await, same);
    assert_eq!(desk.open().await.len(), 1, "and it is one run");
    let other = desk.request(desk.instant(2));
    desk.granted(ClaimRequest { overlap: TWO, ..other }).await;
    assert_eq!(desk.send(request.clone()).await, same, "after a later instant");
    desk.end(&run, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.send(request).await, Claimed::Superseded, "after its end");
    assert_eq!(desk.outcomes().await, [RunOutcome::Succeeded]);
    let short = ClaimRequest { lease: SHORT, overlap: MANY, ..desk.request(desk.instant(3)) };
    desk.granted(short.clone()).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(desk.send(short).await, Claimed::Gone, "its lease is over");
}

/// The lease of a claim whose reply was lost begins with the repeat that is answered.
pub async fn a_repeated_claim_renews_its_lease(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "renews").await;
    let request = ClaimRequest { lease: SHORT, ..desk.request(desk.instant(1)) };
    desk.granted(request.clone()).await;
    let repeat = ClaimRequest { lease: super::contender::LONG, ..request };
    desk.granted(repeat).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(desk.open().await[0].state, lock_ledger::RunState::Running);
}

/// Claims go in ascending order.
pub async fn an_earlier_instant_is_superseded(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "superseded").await;
    let run = desk.claim(5).await;
    desk.end(&run, RunOutcome::Succeeded, Then::Over).await;
    for millis in [4, 1] {
        assert_eq!(desk.send(desk.request(desk.instant(millis))).await, Claimed::Superseded);
    }
    assert_eq!(desk.claim(6).await.attempt, 1);
}

/// The server's clock decides when an instant has come, whatever the caller's says.
pub async fn an_instant_that_has_not_come_is_early(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "early").await;
    let ahead = Duration::from_secs(3);
    let reply = desk.ledger().open(desk.job.group.clone()).await.expect("a ledger answers");
    let soon = RunId::at_millis((reply.now + ahead).as_millis());
    let request = desk.request(soon);
    let Claimed::Early { wait } = desk.send(request.clone()).await else { panic!("{soon} has not come") };
    assert!(wait <= ahead && !wait.is_zero(), "{wait:?} of {ahead:?} are left");
    h.pass(wait).await;
    let reply = desk.ledger().claim(request).await.expect("a ledger answers");
    assert!(matches!(reply.outcome, Claimed::Claimed { .. }), "it has come: {reply:?}");
    assert!(reply.now >= soon.scheduled().expect("it has an instant"), "and not before: {reply:?}");
}

/// A schedule that is new to its job begins when it is registered, also if it has instants between the watermark and now. Each
/// schedule keeps its own beginning, so that the nodes of a rolling deployment do not move that of the others.
pub async fn a_changed_schedule_begins_when_it_is_registered(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "since").await;
    let changed = desk.register(SCHEDULE + 1).await;
    assert_eq!(changed.state, Known::Before);
    assert!(changed.watermark > desk.begin, "{changed:?} of a job that began at {:?}", desk.begin);
    let of = |schedule, millis| ClaimRequest { schedule, ..desk.request(desk.instant(millis)) };
    assert_eq!(desk.send(of(SCHEDULE + 1, 100)).await, Claimed::Superseded, "it lies before its beginning");
    desk.granted(of(SCHEDULE, 100)).await;
    h.pass(Duration::from_millis(5)).await;
    assert_eq!(desk.register(SCHEDULE + 1).await.watermark, changed.watermark, "set once");
    assert_eq!(desk.watermark(SCHEDULE + 1).await, Some(changed.watermark));
    assert_eq!(desk.watermark(SCHEDULE).await, desk.instant(100).scheduled());
}

/// Reading is no registration.
pub async fn a_watermark_that_is_read_is_not_made(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "read").await;
    let job = LockName::new("unknown").expect("a good name");
    let read = || async {
        let unknown = vec![Registration { job: job.clone(), schedule: SCHEDULE }];
        let reply = desk.ledger().watermarks(desk.job.group.clone(), unknown).await;
        reply.expect("a ledger answers").outcome
    };
    assert_eq!(read().await, [None]);
    assert_eq!(read().await, [None], "reading did not make it");
    assert_eq!(desk.watermark(SCHEDULE + 1).await, Some(desk.begin), "nor a beginning of another schedule");
    h.pass(Duration::from_millis(5)).await;
    assert!(desk.register(SCHEDULE + 1).await.watermark > desk.begin);
}

/// A claim never makes a watermark: without one, nobody knows what was run.
pub async fn a_job_without_a_watermark_is_not_claimed(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "unregistered").await;
    let name = LockName::new("unknown").expect("a good name");
    let unknown = ClaimRequest { job: JobId { name, ..desk.job.clone() }, ..desk.request(desk.instant(1)) };
    assert_eq!(desk.send(unknown.clone()).await, Claimed::Unregistered);
    assert_eq!(desk.send(unknown).await, Claimed::Unregistered, "the claim did not make one");
}

/// From run to run and from attempt to attempt tokens grow.
pub async fn tokens_of_claims_grow(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "tokens").await;
    let mut last = FencingToken::new(0);
    for millis in 1..10 {
        let first = desk.claim(millis).await;
        desk.end(&first, RunOutcome::Failed, Then::Again).await;
        let second = desk.granted(desk.after(&first, 2)).await;
        desk.end(&second, RunOutcome::Succeeded, Then::Over).await;
        assert!(
            first.token > last && second.token > first.token,
            "{last:?}, then {first:?}, then {second:?}"
        );
        last = second.token;
    }
}

/// Any number of leaders at once start one run.
pub async fn of_many_claims_at_once_one_starts(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "at-once").await;
    let other = h.another_ledger(&desk.ledger).await;
    for millis in 1..=5 {
        let mut tasks = Vec::new();
        for number in 0..10 {
            let ledger = if number % 2 == 0 { desk.ledger.clone() } else { other.clone() };
            let request = ClaimRequest { overlap: MANY, ..desk.request(desk.instant(millis)) };
            tasks.push(tokio::spawn(async move { ledger.claim(request).await }));
        }
        let mut started = 0;
        for task in tasks {
            match task.await.expect("the task ends").expect("a ledger answers").outcome {
                Claimed::Claimed { .. } => started += 1,
                Claimed::Duplicate => {}
                other => panic!("the others are too late, not {other:?}"),
            }
        }
        assert_eq!(started, 1);
    }
}

/// What happens to one job, or in one group, is nothing to the others.
pub async fn jobs_and_groups_are_independent(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "apart").await;
    let run = desk.claim(1).await;
    let name = LockName::new("job2").expect("a good name");
    let group = GroupName::new(format!("{}2", desk.job.group)).expect("a good name");
    for job in [JobId { name, ..desk.job.clone() }, JobId { group, ..desk.job.clone() }] {
        let registration = Registration { job: job.name.clone(), schedule: SCHEDULE };
        let reply = desk.ledger().register(job.group.clone(), vec![registration]).await;
        assert_eq!(reply.expect("a ledger answers").outcome[0].state, Known::New);
        let history = desk.ledger().history(job.clone(), 10).await.expect("a ledger answers").outcome;
        assert_eq!(history, []);
        h.pass(Duration::from_millis(5)).await;
        let now = desk.ledger().open(job.group.clone()).await.expect("a ledger answers").now;
        let due = RunId::at_millis(now.as_millis());
        desk.granted(ClaimRequest { job, ..desk.request(due) }).await;
    }
    desk.end(&run, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.claim(2).await.attempt, 1);
}
