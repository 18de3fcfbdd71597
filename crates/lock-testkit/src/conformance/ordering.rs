//! Orders: what one node is told holds for all of them.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    scheduler::{Desk, SCHEDULE},
};
use lock_core::{LockName, ProcessId};
use lock_ledger::{
    ClaimRequest, Claimed, JobId, JobOrders, MOST_OF_A_JOB, Order, Ordered, Orders, Registration, RunId,
    RunOutcome, Then, Trigger,
};

/// A random id.
fn id() -> uuid::Uuid {
    *ProcessId::random().as_uuid()
}

fn trigger(id: uuid::Uuid) -> Order {
    Order::Trigger { id, life: LONG }
}

/// It begins again with what is due then, not with what was due meanwhile.
pub async fn a_paused_job_starts_nothing_and_makes_nothing_up(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "pause").await;
    let paused = desk.order(Order::Pause).await;
    assert_eq!(desk.order(Order::Pause).await, paused, "twice is once");
    let request = ClaimRequest { revision: paused, ..desk.request(desk.instant(1)) };
    assert_eq!(desk.send(request.clone()).await, Claimed::Paused);
    let resumed = desk.order(Order::Resume).await;
    assert!(resumed > paused);
    let request = ClaimRequest { revision: resumed, ..request };
    assert_eq!(desk.send(request).await, Claimed::Superseded);
}

/// What was planned with another schedule is not started.
pub async fn a_changed_order_outdates_what_was_planned(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "replaced").await;
    let request = desk.request(desk.instant(1));
    let revision = desk.order(Order::Replace("@hourly".to_owned())).await;
    assert_eq!(desk.order(Order::Replace("@hourly".to_owned())).await, revision, "twice is once");
    assert_eq!(desk.send(request).await, Claimed::Outdated);
    let known = ClaimRequest { revision, ..desk.request(desk.instant(1)) };
    assert_eq!(desk.send(known).await, Claimed::Superseded, "the new schedule begins now");
    assert!(desk.order(Order::Restore).await > revision);
}

/// All of them, with a revision by which the next question is cheap.
pub async fn orders_are_told_when_they_changed(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "orders").await;
    let read = |known| desk.ledger().orders(desk.job.group.clone(), known);
    assert_eq!(read(0).await.expect("a ledger answers").outcome, Orders::Unchanged);
    desk.order(Order::Pause).await;
    let schedule = Some("0 2 * * *".to_owned());
    let of_job = desk.order(Order::Replace("0 2 * * *".to_owned())).await;
    let (first, second) = (id(), id());
    desk.order(trigger(first)).await;
    // At one and the same moment, neither would be the older one.
    h.pass(std::time::Duration::from_millis(1)).await;
    let last = desk.order(trigger(second)).await;
    assert_eq!(desk.order(trigger(first)).await, last, "twice is once");
    let Orders::Changed { revision, jobs, triggers } = read(0).await.expect("a ledger answers").outcome
    else {
        panic!("they have changed")
    };
    assert_eq!(revision, last);
    assert_eq!(jobs, [(desk.job.name.clone(), JobOrders { revision: of_job, paused: true, schedule })]);
    let ids: Vec<_> = triggers.iter().map(|Trigger { id, job, .. }| (*id, job.clone())).collect();
    assert_eq!(ids, [(first, desk.job.name.clone()), (second, desk.job.name.clone())]);
    assert_eq!(read(revision).await.expect("a ledger answers").outcome, Orders::Unchanged);
    desk.order(Order::Resume).await;
    desk.order(Order::Restore).await;
    let Orders::Changed { jobs, .. } = read(revision).await.expect("a ledger answers").outcome else {
        panic!("they have changed")
    };
    assert!(!jobs[0].1.paused && jobs[0].1.schedule.is_none(), "{jobs:?}");
}

/// A run by hand is a run of its own: also while paused, and beside the instants.
pub async fn a_trigger_is_claimed_once_and_decides_no_instant(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "trigger").await;
    desk.order(Order::Pause).await;
    let id = id();
    desk.order(trigger(id)).await;
    let run = RunId::Triggered(id);
    let foreign = desk.request(RunId::Triggered(*ProcessId::random().as_uuid()));
    assert_eq!(desk.send(foreign).await, Claimed::Duplicate, "nobody ordered that one");
    let request = desk.request(run);
    let triggered = desk.granted(request.clone()).await;
    assert_eq!(
        desk.send(request).await,
        Claimed::Claimed { token: triggered.token, attempt: 1, failures: 0 }
    );
    assert_eq!(desk.send(desk.request(run)).await, Claimed::Duplicate);
    desk.order(trigger(id)).await;
    assert_eq!(desk.send(desk.request(run)).await, Claimed::Duplicate, "the order came twice, far apart");
    desk.end(&triggered, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.send(desk.request(run)).await, Claimed::Duplicate);
    assert_eq!(desk.history().await[0].run, run);
    assert_eq!(desk.watermark(SCHEDULE).await, Some(desk.begin));
}

/// Also when it is delivered again while the run is under way, or after its end: it would wait for ever, or be carried out
/// when the history has forgotten the run.
pub async fn an_order_to_trigger_that_comes_again_is_not_carried_out_again(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "trigger-again").await;
    let id = id();
    desk.order(trigger(id)).await;
    let run = desk.granted(desk.request(RunId::Triggered(id))).await;
    let revision = desk.order(trigger(id)).await;
    desk.end(&run, RunOutcome::Succeeded, Then::Over).await;
    assert_eq!(desk.order(trigger(id)).await, revision);
    let orders =
        desk.ledger().orders(desk.job.group.clone(), u64::MAX).await.expect("a ledger answers").outcome;
    let Orders::Changed { triggers, .. } = orders else { panic!("they are all told") };
    assert_eq!(triggers, [], "it waits no more");
    for millis in 1..=100 {
        let other = desk.claim(millis).await;
        desk.end(&other, RunOutcome::Succeeded, Then::Over).await;
    }
    assert_eq!(desk.send(desk.request(RunId::Triggered(id))).await, Claimed::Duplicate);
}

/// Triggers that no node carries out neither fill the store nor keep those of other jobs away.
pub async fn triggers_are_bounded(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "full").await;
    for _ in 0..MOST_OF_A_JOB {
        desk.order(trigger(id())).await;
    }
    let one_more = desk.ledger().order(desk.job.clone(), trigger(id())).await;
    assert_eq!(one_more.expect("a ledger answers").outcome, Ordered::Full);
    let name = LockName::new("other").expect("a good name");
    let registration = Registration { job: name.clone(), schedule: SCHEDULE };
    desk.ledger().register(desk.job.group.clone(), vec![registration]).await.expect("a ledger answers");
    let other = JobId { name, ..desk.job.clone() };
    let of_other = desk.ledger().order(other, trigger(id())).await.expect("a ledger answers");
    assert!(matches!(of_other.outcome, Ordered::Accepted { .. }), "{of_other:?}");
}

/// A trigger is an order for now: after its life it is not started, and makes room.
pub async fn a_trigger_expires(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "expires").await;
    let (old, short) = (id(), |id| Order::Trigger { id, life: SHORT });
    for _ in 1..MOST_OF_A_JOB {
        desk.order(short(id())).await;
    }
    desk.order(short(old)).await;
    h.pass(PAST_SHORT).await;
    let run = RunId::Triggered(old);
    assert_eq!(desk.send(desk.request(run)).await, Claimed::Expired);
    assert_eq!(desk.send(desk.request(run)).await, Claimed::Duplicate, "it waits no more");
    let skipped = &desk.history().await[0];
    assert_eq!((skipped.run, skipped.outcome), (run, RunOutcome::Skipped));
    desk.order(trigger(id())).await;
}

/// A trigger that is withdrawn is not started.
pub async fn a_trigger_can_be_cancelled(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "cancel").await;
    let id = id();
    let before = desk.order(trigger(id)).await;
    assert!(desk.order(Order::CancelTrigger(id)).await > before, "leaders hear of it");
    assert_eq!(desk.send(desk.request(RunId::Triggered(id))).await, Claimed::Duplicate);
    let again = desk.ledger().order(desk.job.clone(), Order::CancelTrigger(id)).await;
    assert_eq!(again.expect("a ledger answers").outcome, Ordered::Gone);
}

/// What a clock that was ahead has decided is taken back by an operator; and nothing is started twice.
pub async fn a_reset_ends_a_watermark_in_the_future(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "reset").await;
    let run = desk.claim(100).await;
    let revision = desk.order(Order::Reset).await;
    let now = desk.watermark(SCHEDULE).await.expect("it is known");
    assert!(now > run.run.scheduled().expect("an instant"), "to now, not below: {now:?}");
    let of = |millis| ClaimRequest { revision, ..desk.request(desk.instant(millis)) };
    assert_eq!(desk.send(of(120)).await, Claimed::Superseded, "what was missed stays missed");
    assert_eq!(desk.send(of(100)).await, Claimed::Duplicate, "and an open run is not started again");
    assert!(desk.order(Order::Reset).await > revision, "each is an order of its own");
}

/// A misspelt name is told, and leaves nothing behind.
pub async fn an_unknown_job_takes_no_orders(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "unknown").await;
    let job = JobId { name: LockName::new("unknown").expect("a good name"), ..desk.job.clone() };
    for order in [Order::Pause, Order::Replace("@daily".to_owned()), trigger(id())] {
        let answer = desk.ledger().order(job.clone(), order).await.expect("a ledger answers").outcome;
        assert_eq!(answer, Ordered::Unregistered);
    }
    let orders = desk.ledger().orders(desk.job.group.clone(), 0).await.expect("a ledger answers").outcome;
    assert_eq!(orders, Orders::Unchanged);
}
