//! Controls: a command from one node takes effect on all of them.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, SCHEDULE},
};
use lock_core::{LockName, backend::ProcessId};
use lock_ledger::{
    AfterAttempt, ClaimReply, ClaimRequest, CommandReply, FleetControls, JobCommand, JobControls, JobId,
    MAX_TRIGGERS_PER_JOB, PauseNote, Registration, RunId, RunOutcome, Trigger,
};

/// Returns a random id.
fn id() -> uuid::Uuid {
    *ProcessId::random().as_uuid()
}

fn trigger(id: uuid::Uuid) -> JobCommand {
    JobCommand::Trigger { id, life: LONG, payload: None }
}

/// After a resume, instants that were due meanwhile are not started.
pub async fn a_paused_job_starts_and_makes_up_nothing(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "pause").await;
    let paused = ledger.command(JobCommand::Pause(PauseNote::default())).await;
    assert_eq!(ledger.command(JobCommand::Pause(PauseNote::default())).await, paused, "twice is once");
    let request = ClaimRequest { revision: paused, ..ledger.request(ledger.instant(1)) };
    assert_eq!(ledger.send(request.clone()).await, ClaimReply::Paused);
    let resumed = ledger.command(JobCommand::Resume).await;
    assert!(resumed > paused);
    let request = ClaimRequest { revision: resumed, ..request };
    assert_eq!(ledger.send(request).await, ClaimReply::Superseded);
}

/// The note of a pause is shown until the job is resumed. Another note replaces it.
pub async fn a_pause_keeps_its_note(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "note").await;
    let note = |text: &str| PauseNote { actor: "ann \"ü\"".to_owned(), text: text.to_owned() };
    let read = async || match ledger.client().controls(ledger.job.group.clone(), u64::MAX).await {
        Ok(reply) => match reply.outcome {
            FleetControls::Changed { jobs, .. } => jobs[0].1.note.clone(),
            other => panic!("no group has that revision: {other:?}"),
        },
        Err(error) => panic!("the ledger answers: {error}"),
    };
    ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let noted = ledger.command(JobCommand::Pause(note("the bank is closed"))).await;
    assert_eq!(read().await, note("the bank is closed"));
    assert_eq!(ledger.command(JobCommand::Pause(note("the bank is closed"))).await, noted, "twice is once");
    ledger.command(JobCommand::Pause(note("{[\\"))).await;
    assert_eq!(read().await, note("{[\\"));
    ledger.command(JobCommand::Resume).await;
    assert_eq!(read().await, PauseNote::default());
}

/// A claim that was planned with an earlier schedule is refused.
pub async fn changed_controls_outdate_a_claim(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "replaced").await;
    let request = ledger.request(ledger.instant(1));
    let revision = ledger.command(JobCommand::Replace("@hourly".to_owned())).await;
    assert_eq!(ledger.command(JobCommand::Replace("@hourly".to_owned())).await, revision, "twice is once");
    assert_eq!(ledger.send(request).await, ClaimReply::Outdated);
    let known = ClaimRequest { revision, ..ledger.request(ledger.instant(1)) };
    assert_eq!(ledger.send(known).await, ClaimReply::Superseded, "the new schedule begins now");
    assert!(ledger.command(JobCommand::Restore).await > revision);
}

/// All controls are sent, with a revision that makes the next read cheap.
pub async fn controls_are_sent_when_changed(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "controls").await;
    let read = |known| ledger.client().controls(ledger.job.group.clone(), known);
    assert_eq!(read(0).await.expect("the ledger answers").outcome, FleetControls::Unchanged);
    ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let schedule = Some("0 2 * * *".to_owned());
    let of_job = ledger.command(JobCommand::Replace("0 2 * * *".to_owned())).await;
    let (first, second) = (id(), id());
    ledger.command(trigger(first)).await;
    // With equal timestamps, neither would be the older one.
    h.pass(std::time::Duration::from_millis(1)).await;
    let last = ledger.command(trigger(second)).await;
    assert_eq!(ledger.command(trigger(first)).await, last, "twice is once");
    let FleetControls::Changed { revision, jobs, triggers, .. } =
        read(0).await.expect("the ledger answers").outcome
    else {
        panic!("they have changed")
    };
    assert_eq!(revision, last);
    assert_eq!(
        jobs,
        [(
            ledger.job.name.clone(),
            JobControls { revision: of_job, paused: true, schedule, ..JobControls::default() }
        )]
    );
    let ids: Vec<_> = triggers.iter().map(|Trigger { id, job, .. }| (*id, job.clone())).collect();
    assert_eq!(ids, [(first, ledger.job.name.clone()), (second, ledger.job.name.clone())]);
    assert_eq!(read(revision).await.expect("the ledger answers").outcome, FleetControls::Unchanged);
    ledger.command(JobCommand::Resume).await;
    ledger.command(JobCommand::Restore).await;
    let FleetControls::Changed { jobs, .. } = read(revision).await.expect("the ledger answers").outcome
    else {
        panic!("they have changed")
    };
    assert!(!jobs[0].1.paused && jobs[0].1.schedule.is_none(), "{jobs:?}");
}

/// A revision is at least the server's current time, so that a revision from before a loss of data never recurs.
pub async fn a_revision_is_at_least_the_time(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "revision").await;
    let begin = ledger.begin.as_millis();
    for command in
        [JobCommand::Pause(PauseNote::default()), trigger(id()), JobCommand::Resume, JobCommand::Reset]
    {
        let revision = ledger.command(command.clone()).await;
        assert!(revision > begin, "{command:?} gave {revision}, begun at {begin}");
    }
}

/// A triggered run is independent: it starts even while the job is paused, and does not affect instants.
pub async fn a_trigger_is_claimed_once_and_decides_no_instant(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "trigger").await;
    ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let id = id();
    ledger.command(trigger(id)).await;
    let run = RunId::Triggered(id);
    let foreign = ledger.request(RunId::Triggered(*ProcessId::random().as_uuid()));
    assert_eq!(ledger.send(foreign).await, ClaimReply::Duplicate, "no command triggered that one");
    let request = ledger.request(run);
    let triggered = ledger.granted(request.clone()).await;
    assert_eq!(
        ledger.send(request).await,
        ClaimReply::Claimed { token: triggered.token, attempt: 1, failures: 0, payload: None }
    );
    assert_eq!(ledger.send(ledger.request(run)).await, ClaimReply::Duplicate);
    ledger.command(trigger(id)).await;
    assert_eq!(
        ledger.send(ledger.request(run)).await,
        ClaimReply::Duplicate,
        "the command came twice, far apart"
    );
    ledger.end(&triggered, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.send(ledger.request(run)).await, ClaimReply::Duplicate);
    assert_eq!(ledger.history().await[0].run, run);
    assert_eq!(ledger.watermark(SCHEDULE).await, Some(ledger.begin));
}

/// A trigger command that is delivered again, during the run or after its end, has no effect. Otherwise it would wait
/// forever, or start once the history no longer has the run.
pub async fn a_repeated_trigger_starts_once(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "trigger-again").await;
    let id = id();
    ledger.command(trigger(id)).await;
    let run = ledger.granted(ledger.request(RunId::Triggered(id))).await;
    let revision = ledger.command(trigger(id)).await;
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.command(trigger(id)).await, revision);
    let controls = ledger
        .client()
        .controls(ledger.job.group.clone(), u64::MAX)
        .await
        .expect("the ledger answers")
        .outcome;
    let FleetControls::Changed { triggers, .. } = controls else { panic!("all of them are sent") };
    assert_eq!(triggers, [], "it no longer waits");
    for millis in 1..=100 {
        let other = ledger.claim(millis).await;
        ledger.end(&other, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    }
    assert_eq!(ledger.send(ledger.request(RunId::Triggered(id))).await, ClaimReply::Duplicate);
}

/// Triggers that no node starts neither fill the store nor crowd out those of other jobs.
pub async fn triggers_are_bounded(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "full").await;
    for _ in 0..MAX_TRIGGERS_PER_JOB {
        ledger.command(trigger(id())).await;
    }
    let one_more = ledger.client().command(ledger.job.clone(), trigger(id())).await;
    assert_eq!(one_more.expect("the ledger answers").outcome, CommandReply::Full);
    let name = LockName::new("other").expect("a good name");
    let registration = Registration { job: name.clone(), schedule: SCHEDULE };
    ledger.client().register(ledger.job.group.clone(), vec![registration]).await.expect("the ledger answers");
    let other = JobId { name, ..ledger.job.clone() };
    let of_other = ledger.client().command(other, trigger(id())).await.expect("the ledger answers");
    assert!(matches!(of_other.outcome, CommandReply::Accepted { .. }), "{of_other:?}");
}

/// An expired trigger is not started, and makes room for others.
pub async fn a_trigger_expires(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "expires").await;
    let (old, short) = (id(), |id| JobCommand::Trigger { id, life: SHORT, payload: None });
    for _ in 1..MAX_TRIGGERS_PER_JOB {
        ledger.command(short(id())).await;
    }
    ledger.command(short(old)).await;
    h.pass(PAST_SHORT).await;
    let run = RunId::Triggered(old);
    assert_eq!(ledger.send(ledger.request(run)).await, ClaimReply::Expired);
    assert_eq!(ledger.send(ledger.request(run)).await, ClaimReply::Duplicate, "it no longer waits");
    let skipped = &ledger.history().await[0];
    assert_eq!((skipped.run, skipped.outcome), (run, RunOutcome::Skipped));
    ledger.command(trigger(id())).await;
}

/// A withdrawn trigger is not started.
pub async fn a_trigger_can_be_cancelled(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "cancel").await;
    let id = id();
    let before = ledger.command(trigger(id)).await;
    assert!(ledger.command(JobCommand::CancelTrigger(id)).await > before, "leaders hear of it");
    assert_eq!(ledger.send(ledger.request(RunId::Triggered(id))).await, ClaimReply::Duplicate);
    let again = ledger.client().command(ledger.job.clone(), JobCommand::CancelTrigger(id)).await;
    assert_eq!(again.expect("the ledger answers").outcome, CommandReply::Gone);
}

/// An operator can take back what a clock that was ahead has decided, and nothing starts twice.
pub async fn a_reset_ends_a_watermark_in_the_future(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "reset").await;
    let run = ledger.claim(100).await;
    let revision = ledger.command(JobCommand::Reset).await;
    let now = ledger.watermark(SCHEDULE).await.expect("it is known");
    assert!(now > run.run.scheduled().expect("an instant"), "to now, not below: {now:?}");
    let of = |millis| ClaimRequest { revision, ..ledger.request(ledger.instant(millis)) };
    assert_eq!(ledger.send(of(120)).await, ClaimReply::Superseded, "what was missed stays missed");
    assert_eq!(ledger.send(of(100)).await, ClaimReply::Duplicate, "and an open run is not started again");
    assert!(ledger.command(JobCommand::Reset).await > revision, "each raises the revision");
}

/// A command for a misspelt name is refused and stores nothing.
pub async fn an_unknown_job_takes_no_commands(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "unknown").await;
    let job = JobId { name: LockName::new("unknown").expect("a good name"), ..ledger.job.clone() };
    for command in
        [JobCommand::Pause(PauseNote::default()), JobCommand::Replace("@daily".to_owned()), trigger(id())]
    {
        let answer = ledger.client().command(job.clone(), command).await.expect("the ledger answers").outcome;
        assert_eq!(answer, CommandReply::Unregistered);
    }
    let controls =
        ledger.client().controls(ledger.job.group.clone(), 0).await.expect("the ledger answers").outcome;
    assert_eq!(controls, FleetControls::Unchanged);
}
