//! Control properties. A command from one node takes effect on all nodes.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, SCHEDULE},
};
use lock_core::{LockName, backend::ProcessId, clock::UtcTime};
use lock_ledger::{
    AfterAttempt, ClaimReply, ClaimRequest, CommandReply, FleetControls, JobCommand, JobControls, JobId,
    JobStatus, MAX_TRIGGERS_PER_JOB, PauseNote, Registration, RunId, RunOutcome, Trigger,
};

/// Returns a random id.
fn id() -> uuid::Uuid {
    *ProcessId::random().as_uuid()
}

fn trigger(id: uuid::Uuid) -> JobCommand {
    JobCommand::Trigger { id, life: LONG, payload: None }
}

/// A paused job starts no runs. After a resume, no runs start for scheduled times that passed during
/// the pause.
pub async fn a_paused_job_starts_and_makes_up_nothing(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "pause").await;
    let paused = ledger.command(JobCommand::Pause(PauseNote::default())).await;
    assert_eq!(
        ledger.command(JobCommand::Pause(PauseNote::default())).await,
        paused,
        "a repeated command must have no further effect"
    );
    let request = ClaimRequest { revision: paused, ..ledger.request(ledger.instant(1)) };
    assert_eq!(ledger.send(request.clone()).await, ClaimReply::Paused);
    let resumed = ledger.command(JobCommand::Resume).await;
    assert!(resumed > paused);
    let request = ClaimRequest { revision: resumed, ..request };
    assert_eq!(ledger.send(request).await, ClaimReply::Superseded);
}

/// The note on a pause is kept until the job is resumed. A new note replaces it.
pub async fn a_pause_keeps_its_note(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "note").await;
    let note = |text: &str| PauseNote { actor: "ann \"ü\"".to_owned(), text: text.to_owned() };
    let read = async || match ledger.client().controls(ledger.job.group.clone(), u64::MAX).await {
        Ok(reply) => match reply.outcome {
            FleetControls::Changed { jobs, .. } => jobs[0].1.note.clone(),
            other => panic!("unexpected reply to an unknown revision: {other:?}"),
        },
        Err(error) => panic!("ledger call failed: {error}"),
    };
    ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let noted = ledger.command(JobCommand::Pause(note("the bank is closed"))).await;
    assert_eq!(read().await, note("the bank is closed"));
    assert_eq!(
        ledger.command(JobCommand::Pause(note("the bank is closed"))).await,
        noted,
        "a repeated command must have no further effect"
    );
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
    assert_eq!(
        ledger.command(JobCommand::Replace("@hourly".to_owned())).await,
        revision,
        "a repeated command must have no further effect"
    );
    assert_eq!(ledger.send(request).await, ClaimReply::Outdated);
    let known = ClaimRequest { revision, ..ledger.request(ledger.instant(1)) };
    assert_eq!(ledger.send(known).await, ClaimReply::Superseded, "the new schedule must start now");
    assert!(ledger.command(JobCommand::Restore).await > revision);
}

/// A read returns all controls and their revision. A later read with that revision returns `Unchanged`
/// until a control changes.
pub async fn controls_are_sent_when_changed(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "controls").await;
    let read = |known| ledger.client().controls(ledger.job.group.clone(), known);
    let FleetControls::Changed { revision, created, .. } = read(0).await.expect("ledger call failed").outcome
    else {
        panic!("expected changed controls")
    };
    assert_eq!(
        created,
        Some(UtcTime::from_millis(ledger.begin.as_millis())),
        "the group was created when the job was registered"
    );
    assert_eq!(read(revision).await.expect("ledger call failed").outcome, FleetControls::Unchanged);
    ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let schedule = Some("0 2 * * *".to_owned());
    let of_job = ledger.command(JobCommand::Replace("0 2 * * *".to_owned())).await;
    let (first, second) = (id(), id());
    ledger.command(trigger(first)).await;
    // The triggers are ordered by time, so the times must differ.
    h.pass(std::time::Duration::from_millis(1)).await;
    let last = ledger.command(trigger(second)).await;
    assert_eq!(ledger.command(trigger(first)).await, last, "a repeated command must have no further effect");
    let FleetControls::Changed { revision, jobs, triggers, .. } =
        read(0).await.expect("ledger call failed").outcome
    else {
        panic!("expected changed controls")
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
    assert_eq!(read(revision).await.expect("ledger call failed").outcome, FleetControls::Unchanged);
    ledger.command(JobCommand::Resume).await;
    ledger.command(JobCommand::Restore).await;
    let FleetControls::Changed { jobs, .. } = read(revision).await.expect("ledger call failed").outcome
    else {
        panic!("expected changed controls")
    };
    assert!(!jobs[0].1.paused && jobs[0].1.schedule.is_none(), "{jobs:?}");
}

/// Controls from before a data loss can be restored. Those with the highest revision are kept, and a
/// command issued since the loss takes precedence over all of them.
pub async fn reinstated_controls_win_by_their_revision(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "reinstate").await;
    let lost = JobId { group: ledger.job.group.clone(), name: LockName::new("lost").expect("valid name") };
    let send = async |command: JobCommand| {
        let reply = ledger.client().command(lost.clone(), command).await.expect("ledger call failed").outcome;
        assert!(matches!(reply, CommandReply::Accepted { .. }), "{reply:?}");
    };
    let read = async || match ledger.client().controls(lost.group.clone(), u64::MAX).await {
        Ok(reply) => match reply.outcome {
            FleetControls::Changed { mut jobs, .. } => jobs.pop().expect("the job has controls").1,
            other => panic!("unexpected reply to an unknown revision: {other:?}"),
        },
        Err(error) => panic!("ledger call failed: {error}"),
    };
    let note = PauseNote { actor: "ann \"ü\"".to_owned(), text: "{[".to_owned() };
    let paused = JobControls { revision: 7, paused: true, note, schedule: None };
    let resumed = JobControls { revision: 8, schedule: Some("@daily".to_owned()), ..JobControls::default() };
    for (sent, kept) in [(&paused, &paused), (&resumed, &resumed), (&paused, &resumed)] {
        send(JobCommand::Reinstate(sent.clone())).await;
        assert_eq!(read().await, *kept);
    }
    // The lost store's clock was ahead.
    let ahead = JobControls { revision: ledger.begin.as_millis() + 3_600_000, ..paused.clone() };
    send(JobCommand::Reinstate(ahead.clone())).await;
    send(JobCommand::Resume).await;
    send(JobCommand::Reinstate(ahead)).await;
    assert!(!read().await.paused, "the later resume must win");
    let job = Registration { job: lost.name.clone(), schedule: SCHEDULE };
    let known = ledger.client().register(lost.group.clone(), vec![job]).await.expect("ledger call failed");
    assert_eq!(known.outcome[0].status, JobStatus::Existing);
    assert!(known.outcome[0].watermark >= ledger.begin, "no scheduled time must be caught up");
    // The job is not paused, but the resume is newer than any pause before the loss.
    ledger.command(JobCommand::Resume).await;
    let command = JobCommand::Reinstate(paused.clone());
    ledger.command(command).await;
    let controls = ledger.client().controls(lost.group.clone(), u64::MAX).await.expect("ledger call failed");
    let FleetControls::Changed { jobs, .. } = controls.outcome else { panic!("expected changed controls") };
    assert!(jobs.iter().all(|(_, controls)| !controls.paused), "{jobs:?}");
}

/// A revision is at least the server's current time, so a revision from before a data loss never
/// recurs.
pub async fn a_revision_is_at_least_the_time(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "revision").await;
    let begin = ledger.begin.as_millis();
    for command in
        [JobCommand::Pause(PauseNote::default()), trigger(id()), JobCommand::Resume, JobCommand::Reset]
    {
        let revision = ledger.command(command.clone()).await;
        assert!(revision > begin, "{command:?} returned {revision}, but the test started at {begin}");
    }
}

/// A triggered run starts even while the job is paused, and does not affect scheduled times.
pub async fn a_trigger_is_claimed_once_and_decides_no_instant(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "trigger").await;
    ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let id = id();
    ledger.command(trigger(id)).await;
    let run = RunId::Triggered(id);
    let foreign = ledger.request(RunId::Triggered(*ProcessId::random().as_uuid()));
    assert_eq!(ledger.send(foreign).await, ClaimReply::Duplicate, "no command created this trigger");
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
        "the command was delivered a second time"
    );
    ledger.end(&triggered, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    assert_eq!(ledger.send(ledger.request(run)).await, ClaimReply::Duplicate);
    assert_eq!(ledger.history().await[0].run, run);
    assert_eq!(ledger.watermark(SCHEDULE).await, Some(ledger.begin));
}

/// A trigger command that is delivered again, during the run or after its end, has no effect.
/// Otherwise it would wait forever, or start once the history no longer contains the run.
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
        .expect("ledger call failed")
        .outcome;
    let FleetControls::Changed { triggers, .. } = controls else { panic!("expected changed controls") };
    assert_eq!(triggers, [], "the trigger must no longer be waiting");
    for millis in 1..=100 {
        let other = ledger.claim(millis).await;
        ledger.end(&other, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    }
    assert_eq!(ledger.send(ledger.request(RunId::Triggered(id))).await, ClaimReply::Duplicate);
}

/// The number of pending triggers is limited per job.
pub async fn triggers_are_bounded(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "full").await;
    for _ in 0..MAX_TRIGGERS_PER_JOB {
        ledger.command(trigger(id())).await;
    }
    let one_more = ledger.client().command(ledger.job.clone(), trigger(id())).await;
    assert_eq!(one_more.expect("ledger call failed").outcome, CommandReply::Full);
    let name = LockName::new("other").expect("valid name");
    let registration = Registration { job: name.clone(), schedule: SCHEDULE };
    ledger.client().register(ledger.job.group.clone(), vec![registration]).await.expect("ledger call failed");
    let other = JobId { name, ..ledger.job.clone() };
    let of_other = ledger.client().command(other, trigger(id())).await.expect("ledger call failed");
    assert!(matches!(of_other.outcome, CommandReply::Accepted { .. }), "{of_other:?}");
}

/// An expired trigger does not start a run, and makes room for others.
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
    assert_eq!(
        ledger.send(ledger.request(run)).await,
        ClaimReply::Duplicate,
        "the trigger must no longer be waiting"
    );
    let skipped = &ledger.history().await[0];
    assert_eq!((skipped.run, skipped.outcome), (run, RunOutcome::Skipped));
    ledger.command(trigger(id())).await;
}

/// A cancelled trigger does not start a run.
pub async fn a_trigger_can_be_cancelled(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "cancel").await;
    let id = id();
    let before = ledger.command(trigger(id)).await;
    assert!(ledger.command(JobCommand::CancelTrigger(id)).await > before, "leaders are notified");
    assert_eq!(ledger.send(ledger.request(RunId::Triggered(id))).await, ClaimReply::Duplicate);
    let again = ledger.client().command(ledger.job.clone(), JobCommand::CancelTrigger(id)).await;
    assert_eq!(again.expect("ledger call failed").outcome, CommandReply::Gone);
}

/// A reset moves a watermark that is in the future back to the current time. No run starts twice.
pub async fn a_reset_ends_a_watermark_in_the_future(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "reset").await;
    let run = ledger.claim(100).await;
    let revision = ledger.command(JobCommand::Reset).await;
    let now = ledger.watermark(SCHEDULE).await.expect("the watermark exists");
    assert!(
        now > run.run.scheduled().expect("the run has a scheduled time"),
        "the watermark must be the current time: {now:?}"
    );
    let of = |millis| ClaimRequest { revision, ..ledger.request(ledger.instant(millis)) };
    assert_eq!(ledger.send(of(120)).await, ClaimReply::Superseded, "missed times must stay missed");
    assert_eq!(ledger.send(of(100)).await, ClaimReply::Duplicate, "an open run must not be started again");
    assert!(ledger.command(JobCommand::Reset).await > revision, "each command must raise the revision");
}

/// A command for a misspelt name is refused and stores nothing.
pub async fn an_unknown_job_takes_no_commands(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "unknown").await;
    let job = JobId { name: LockName::new("unknown").expect("valid name"), ..ledger.job.clone() };
    let revision = ledger.revision().await;
    for command in
        [JobCommand::Pause(PauseNote::default()), JobCommand::Replace("@daily".to_owned()), trigger(id())]
    {
        let answer = ledger.client().command(job.clone(), command).await.expect("ledger call failed").outcome;
        assert_eq!(answer, CommandReply::Unregistered);
    }
    let group = ledger.job.group.clone();
    let controls = ledger.client().controls(group, revision).await.expect("ledger call failed").outcome;
    assert_eq!(controls, FleetControls::Unchanged);
}
