//! The records of the run ledger: fields and words of other versions are kept, and permissions are tried once.

use super::support::{name, redis};
use crate::client::RedisBackend;
use lock_core::clock::UtcTime;
use lock_ledger::{
    AddReply, AddRequest, AfterAttempt, CatchUp, ClaimId, ClaimReply, ClaimRequest, DEFAULT_HISTORY,
    Definition, EndReply, EndRequest, FleetControls, GroupName, Instances, InstancesFrom, JobCommand, JobId,
    MAX_INSTANCE_PAYLOADS, OverlapRule, PauseNote, Registration, Removal, RenewRun, RetryOf, RunId,
    RunLedger, RunOutcome, RunRenewal, RunState, Skip,
};
use lock_testkit::RedisServer;
use std::time::Duration;

const OPEN: &str = "distlock:ledger:2:open:{g}";
const LEASE: Duration = Duration::from_secs(30);

struct Ledger {
    server: RedisServer,
    ledger: RedisBackend,
    job: JobId,
    begin: UtcTime,
}

impl Ledger {
    async fn new() -> Self {
        let server = RedisServer::start();
        let ledger = redis(&server.url()).await;
        let job = JobId { group: GroupName::new("g").expect("valid name"), name: name("job") };
        let registration = Registration { job: job.name.clone(), schedule: 7 };
        let reply = ledger.register(job.group.clone(), vec![registration]).await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
        Self { server, job, begin: reply.outcome[0].watermark, ledger }
    }

    async fn claim(&self) -> ClaimRequest {
        let request = ClaimRequest {
            job: self.job.clone(),
            run: RunId::Scheduled(self.begin + Duration::from_millis(1)),
            claim: ClaimId::random(),
            retry_of: None,
            skip: None,
            after: None,
            not_after: None,
            schedule: 7,
            revision: 0,
            definition: 0,
            overlap: OverlapRule::Skip,
            pool: None,
            lease: LEASE,
            node: "a".to_owned(),
            catch_up: CatchUp::No,
            history: DEFAULT_HISTORY,
        };
        let reply = self.ledger.claim(request.clone()).await.expect("an answer");
        assert!(matches!(reply.outcome, ClaimReply::Claimed { .. }), "{reply:?}");
        request
    }

    /// Adds a field to the open run, like a later version.
    fn extend(&self, field: &str, more: &str) -> String {
        let open = self.server.command(&["HGET", OPEN, field]).text().to_owned();
        let extended = open.replacen('{', &format!("{{{more},"), 1);
        self.server.command(&["HSET", OPEN, field, &extended]);
        open
    }
}

#[tokio::test]
async fn unknown_fields_are_kept() {
    let ledger = Ledger::new().await;
    let r = ledger.claim().await;
    let field = format!("job\n{}", r.run);
    ledger.extend(&field, r#""colour":{"name":"heavy"}"#);
    let item = RenewRun { job: r.job.name.clone(), run: r.run, claim: r.claim, lease: LEASE * 2 };
    let kept = ledger.ledger.renew(r.job.group.clone(), vec![item]).await.expect("an answer");
    assert_eq!(kept.outcome, [RunRenewal::Renewed]);
    let open = ledger.server.command(&["HGET", OPEN, &field]).text().to_owned();
    assert!(open.contains("heavy"), "{open}");
    let (outcome, detail, then) = (RunOutcome::Succeeded, String::new(), AfterAttempt::Finish);
    let end = EndRequest {
        job: r.job.clone(),
        run: r.run,
        claim: r.claim,
        outcome,
        detail,
        then,
        history: DEFAULT_HISTORY,
    };
    assert_eq!(ledger.ledger.end(end).await.expect("an answer").outcome, EndReply::Recorded);
    let history = ledger.server.command(&["LRANGE", "distlock:ledger:2:history:{g}:job", "0", "-1"]);
    assert!(format!("{history:?}").contains("heavy"), "{history:?}");
}

#[tokio::test]
async fn unknown_words_and_records_are_tolerated() {
    let ledger = Ledger::new().await;
    let r = ledger.claim().await;
    let open = ledger.extend(&format!("job\n{}", r.run), r#""x":1"#);
    let strange = open.replace("\"running\"", "\"dancing\"");
    ledger.server.command(&["HSET", OPEN, &format!("job\n{}", r.run), &strange]);
    ledger.server.command(&["HSET", OPEN, "job\nbackfill:1", r#"{"run":"backfill:1"}"#]);
    let runs = ledger.ledger.open_runs(r.job.group.clone()).await.expect("an answer").outcome;
    assert_eq!(runs.iter().map(|run| (run.run, run.state)).collect::<Vec<_>>(), [(r.run, RunState::Running)]);
    ledger.ledger.command(r.job.clone(), JobCommand::Pause(PauseNote::default())).await.expect("an answer");
    ledger.server.command(&["HSET", "distlock:ledger:2:group:{g}", "later", "word"]);
    ledger.server.command(&["HSET", "distlock:ledger:2:group:{g}", "trigger:x", "{}"]);
    let orders = ledger.ledger.controls(r.job.group.clone(), 0).await.expect("an answer").outcome;
    let FleetControls::Changed { jobs, triggers, .. } = orders else {
        panic!("unchanged controls: {orders:?}")
    };
    assert!(jobs.len() == 1 && jobs[0].1.paused && triggers.is_empty(), "{jobs:?}, {triggers:?}");
}

#[tokio::test]
async fn permissions_are_tried_once_and_watermarks_only_read() {
    let ledger = Ledger::new().await;
    let calls = || {
        let statistics = ledger.server.command(&["INFO", "commandstats"]);
        let of = |command: &str| {
            let line =
                statistics.text().lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
            line.map(|line| line.split(',').next().expect("a count").to_owned())
        };
        (of("ltrim"), of("publish"), of("hset"))
    };
    let before = calls();
    let registration = || vec![Registration { job: ledger.job.name.clone(), schedule: 8 }];
    let read = ledger.ledger.watermarks(ledger.job.group.clone(), registration()).await;
    assert_eq!(read.expect("an answer").outcome, [Some(ledger.begin)]);
    assert_eq!(calls(), before);
    ledger.ledger.register(ledger.job.group.clone(), registration()).await.expect("an answer");
    assert_eq!((calls().0, calls().1), (before.0, before.1), "only the registration itself");
}

fn end(r: &ClaimRequest, then: AfterAttempt) -> EndRequest {
    let (outcome, detail) = (RunOutcome::Cancelled, String::new());
    let (job, run, claim) = (r.job.clone(), r.run, r.claim);
    EndRequest { job, run, claim, outcome, detail, then, history: DEFAULT_HISTORY }
}

#[tokio::test]
async fn unknown_fields_are_kept_by_the_next_attempt() {
    for then in [AfterAttempt::Requeue, AfterAttempt::Reassign] {
        let ledger = Ledger::new().await;
        let r = ledger.claim().await;
        let field = format!("job\n{}", r.run);
        ledger.extend(&field, r#""colour":{"name":"heavy"}"#);
        ledger.ledger.end(end(&r, then)).await.expect("an answer");
        let retry_of = Some(RetryOf { claim: r.claim, failures: 3, orphanings: 3 });
        let next = ClaimRequest { retry_of, claim: ClaimId::random(), ..r };
        let claimed = ledger.ledger.claim(next).await.expect("an answer").outcome;
        assert!(matches!(claimed, ClaimReply::Claimed { .. }), "{claimed:?}");
        let open = ledger.server.command(&["HGET", OPEN, &field]).text().to_owned();
        assert!(open.contains("heavy"), "{then:?}: {open}");
    }
}

#[tokio::test]
async fn unreadable_history_stops_no_run() {
    let rows = ["not JSON", "7", r#"{"outcome":"skipped","detail":"missed"}"#];
    for row in rows {
        let ledger = Ledger::new().await;
        ledger.server.command(&["LPUSH", "distlock:ledger:2:history:{g}:job", row]);
        let r = ledger.claim().await;
        ledger.ledger.end(end(&r, AfterAttempt::Finish)).await.expect("an answer");
        let repeated = ledger.ledger.end(end(&r, AfterAttempt::Finish)).await.expect("an answer");
        assert_eq!(repeated.outcome, EndReply::Recorded);
        ledger.server.command(&["LPUSH", "distlock:ledger:2:history:{g}:job", row]);
        let trigger = *lock_core::backend::ProcessId::random().as_uuid();
        let command = JobCommand::Trigger { id: trigger, life: LEASE, payload: None };
        ledger.ledger.command(r.job.clone(), command).await.expect("an answer");
        let run = RunId::Triggered(trigger);
        let skip = Some(Skip { first: run, count: 2, detail: "missed".to_owned() });
        let skipped = ClaimRequest { run, skip, claim: ClaimId::random(), ..r };
        assert_eq!(
            ledger.ledger.claim(skipped).await.expect("an answer").outcome,
            ClaimReply::Skipped,
            "{row}"
        );
    }
}

/// An operator has deleted the key of a job, or the server has evicted it.
#[tokio::test]
async fn open_run_survives_the_loss_of_its_job() {
    let ledger = Ledger::new().await;
    let r = ledger.claim().await;
    ledger.ledger.end(end(&r, AfterAttempt::Reassign)).await.expect("an answer");
    ledger.server.command(&["DEL", "distlock:ledger:2:job:{g}:job"]);
    let registration = Registration { job: r.job.name.clone(), schedule: 7 };
    ledger.ledger.register(r.job.group.clone(), vec![registration]).await.expect("an answer");
    let retry_of = Some(RetryOf { claim: r.claim, failures: 3, orphanings: 3 });
    let next = ClaimRequest { retry_of, claim: ClaimId::random(), ..r.clone() };
    let claimed = ledger.ledger.claim(next).await.expect("an answer").outcome;
    assert!(matches!(claimed, ClaimReply::Claimed { .. }), "{claimed:?}");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let later =
        RunId::Scheduled(ledger.ledger.register(r.job.group.clone(), vec![]).await.expect("an answer").now);
    let other = ClaimRequest { run: later, claim: ClaimId::random(), ..r };
    assert_eq!(ledger.ledger.claim(other).await.expect("an answer").outcome, ClaimReply::Skipped);
}

/// An operator has removed the key of an instance, or the server has evicted it. Programs add their instances again
/// when they start.
#[tokio::test]
async fn an_instance_that_is_added_again_outlives_the_loss_of_its_job() {
    let ledger = Ledger::new().await;
    let job = JobId { name: name("import/7"), ..ledger.job.clone() };
    let definition = Definition { schedule: "* * * * *".to_owned(), dst: String::new(), once: None };
    let request =
        AddRequest { job: job.clone(), definition, payload: "7".to_owned(), added_by: "a".to_owned() };
    let add = async || ledger.ledger.add(request.clone()).await.expect("it answers");
    assert_eq!(add().await.outcome, AddReply::Added);
    ledger.server.command(&["DEL", "distlock:ledger:2:job:{g}:import/7"]);
    let added = add().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let read = ledger
        .ledger
        .instances(job.group.clone(), InstancesFrom::Revision(0))
        .await
        .expect("it answers")
        .outcome;
    let (Instances::All { instances, .. } | Instances::Changed { instances, .. }) = read else {
        panic!("an instance was added: {read:?}")
    };
    let claim = ClaimRequest { job, definition: instances[0].revision, ..ledger.claim().await };
    let claim_at = async |at: UtcTime| {
        let (run, claim_id) = (RunId::Scheduled(at), ClaimId::random());
        ledger.ledger.claim(ClaimRequest { run, claim: claim_id, ..claim.clone() }).await.expect("it answers")
    };
    let past = claim_at(UtcTime::from_millis(added.now.as_millis() - 1)).await.outcome;
    assert_eq!(past, ClaimReply::Superseded, "nothing for the past");
    let claimed = claim_at(UtcTime::from_millis(added.now.as_millis() + 1)).await.outcome;
    assert!(matches!(claimed, ClaimReply::Claimed { .. }), "{claimed:?}");
}

/// The sum is a field beside the payloads, so that it is lost only together with them.
#[tokio::test]
async fn sum_of_the_payloads_follows_every_change() {
    const PAYLOADS: &str = "distlock:ledger:2:payloads:{g}";
    let ledger = Ledger::new().await;
    let sum = || ledger.server.command(&["HGET", PAYLOADS, "\nbytes"]).text().to_owned();
    let job = |id: &str| JobId { name: name(&format!("import/{id}")), ..ledger.job.clone() };
    let add = async |id: &str, payload: &str| {
        let definition = Definition { schedule: "* * * * *".to_owned(), dst: String::new(), once: None };
        let payload = payload.to_owned();
        let request = AddRequest { job: job(id), definition, payload, added_by: "a".to_owned() };
        ledger.ledger.add(request).await.expect("it answers").outcome
    };
    for (payload, expected) in [("12345", "5"), ("1", "1"), ("123", "3")] {
        add("7", payload).await;
        assert_eq!(sum(), expected);
    }
    let almost = (MAX_INSTANCE_PAYLOADS - 1).to_string();
    ledger.server.command(&["HSET", PAYLOADS, "\nbytes", &almost]);
    assert_eq!(add("8", "12").await, AddReply::PayloadsTooLarge);
    assert_eq!(add("7", "1").await, AddReply::Changed, "a shorter payload makes room");
    assert_eq!(add("8", "12").await, AddReply::Added);
    ledger.server.command(&["HSET", PAYLOADS, "\nbytes", "3"]);
    ledger.ledger.remove(job("8"), Removal::KeepRecord).await.expect("it answers");
    assert_eq!(sum(), "1");
    ledger.ledger.remove(job("7"), Removal::Forget).await.expect("it answers");
    assert_eq!(ledger.server.command(&["EXISTS", PAYLOADS]).integer(), 0, "nothing is left");
}
