//! Payload properties. Every attempt of a triggered run gets the trigger's payload.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, Run, SCHEDULE},
};
use lock_core::{LockName, backend::ProcessId};
use lock_ledger::{
    AfterAttempt, ClaimReply, ClaimRequest, CommandReply, JobCommand, JobId, MAX_TRIGGER_PAYLOADS,
    MAX_TRIGGERS_PER_JOB, Registration, RunId, RunOutcome,
};
use uuid::Uuid;

fn trigger(id: Uuid, payload: Option<&str>) -> JobCommand {
    JobCommand::Trigger { id, life: LONG, payload: payload.map(str::to_owned) }
}

impl LedgerFixture {
    /// Sends a trigger with a new id.
    async fn trigger(&self, payload: Option<&str>) -> RunId {
        let id = *ProcessId::random().as_uuid();
        self.command(trigger(id, payload)).await;
        RunId::Triggered(id)
    }

    /// Sends a claim and returns its payload. Panics unless the claim is granted.
    pub(super) async fn granted_with(&self, request: ClaimRequest) -> (Run, Option<String>) {
        let (run, claim) = (request.run, request.claim);
        match self.send(request).await {
            ClaimReply::Claimed { token, attempt, failures, payload } => {
                (Run { run, claim, token, attempt, failures }, payload)
            }
            other => panic!("expected a claim of {run}, got {other:?}"),
        }
    }
}

/// Payloads with any characters are returned unchanged, even to a repeated claim.
pub async fn a_claim_has_the_payload_of_its_trigger(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "payload").await;
    for text in ["null", "\"\\ \u{1}\n/{}[]\" ü 語 \u{1f980}", &"x".repeat(64 * 1024)] {
        let request = ledger.request(ledger.trigger(Some(text)).await);
        for _ in 0..2 {
            let (_, payload) = ledger.granted_with(request.clone()).await;
            assert_eq!(payload.as_deref(), Some(text));
        }
        let (run, _) = ledger.granted_with(request).await;
        ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    }
    let (run, payload) = ledger.granted_with(ledger.request(ledger.trigger(None).await)).await;
    assert_eq!(payload, None, "each trigger must have its own payload");
    ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    let (_, payload) = ledger.granted_with(ledger.request(ledger.instant(1))).await;
    assert_eq!(payload, None, "a scheduled run must have no payload");
}

/// A retry gets the same payload, even on another node after the first node has died.
pub async fn every_attempt_has_the_payload(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "payload-again").await;
    let request = ledger.request(ledger.trigger(Some("7")).await);
    let (first, _) = ledger.granted_with(ClaimRequest { lease: SHORT, ..request }).await;
    h.pass(PAST_SHORT).await;
    let (second, payload) = ledger.granted_with(ledger.after(&first, 3)).await;
    assert_eq!((second.attempt, payload.as_deref()), (2, Some("7")));
    ledger.end(&second, RunOutcome::Failed, AfterAttempt::Retry).await;
    let (third, payload) = ledger.granted_with(ledger.after(&second, 3)).await;
    assert_eq!((third.attempt, payload.as_deref()), (3, Some("7")));
    ledger.end(&third, RunOutcome::Cancelled, AfterAttempt::Requeue).await;
    let (_, payload) = ledger.granted_with(ledger.after(&third, 3)).await;
    assert_eq!(payload.as_deref(), Some("7"));
}

/// The payload of a withdrawn trigger is not passed to a later one.
pub async fn a_withdrawn_trigger_leaves_no_payload(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "payload-gone").await;
    let id = *ProcessId::random().as_uuid();
    ledger.command(trigger(id, Some("7"))).await;
    ledger.command(JobCommand::CancelTrigger(id)).await;
    ledger.command(trigger(id, None)).await;
    let (_, payload) = ledger.granted_with(ledger.request(RunId::Triggered(id))).await;
    assert_eq!(payload, None);
}

/// The number of pending triggers with payloads is limited.
pub async fn waiting_payloads_are_bounded(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "payload-full").await;
    let mut jobs = vec![ledger.job.clone()];
    for other in ["b", "c", "d"] {
        let name = LockName::new(other).expect("valid name");
        let registration = Registration { job: name.clone(), schedule: SCHEDULE };
        let group = ledger.job.group.clone();
        ledger.client().register(group, vec![registration]).await.expect("ledger call failed");
        jobs.push(JobId { name, ..ledger.job.clone() });
    }
    let send = async |job: &JobId, payload| {
        let command = trigger(*ProcessId::random().as_uuid(), payload);
        ledger.client().command(job.clone(), command).await.expect("ledger call failed").outcome
    };
    for number in 0..MAX_TRIGGER_PAYLOADS {
        let reply = send(&jobs[number / MAX_TRIGGERS_PER_JOB], Some("7")).await;
        assert!(matches!(reply, CommandReply::Accepted { .. }), "{number}: {reply:?}");
    }
    assert_eq!(send(&jobs[3], Some("7")).await, CommandReply::Full);
    let without = send(&jobs[3], None).await;
    assert!(matches!(without, CommandReply::Accepted { .. }), "{without:?}");
}
