//! The records of the run ledger: fields and words of other versions are kept, and rights are tried once.

use crate::support::{name, redis};
use lock_core::ServerTime;
use lock_fred::RedisBackend;
use lock_ledger::{
    Again, CatchUp, ClaimId, ClaimRequest, Claimed, EndRequest, Ended, GroupName, HISTORY, JobId, KeepRun,
    KeptRun, Order, Orders, OverlapRule, Registration, RunId, RunLedger, RunOutcome, RunState, Skip, Then,
};
use lock_testkit::RedisServer;
use std::time::Duration;

const OPEN: &str = "distlock:ledger:2:open:{g}";
const LEASE: Duration = Duration::from_secs(30);

struct Ledger {
    server: RedisServer,
    ledger: RedisBackend,
    job: JobId,
    begin: ServerTime,
}

impl Ledger {
    async fn new() -> Self {
        let server = RedisServer::start();
        let ledger = redis(&server.url()).await;
        let job = JobId { group: GroupName::new("g").expect("a good name"), name: name("job") };
        let registration = Registration { job: job.name.clone(), schedule: 7 };
        let reply = ledger.register(job.group.clone(), vec![registration]).await.expect("it answers");
        tokio::time::sleep(Duration::from_millis(20)).await;
        Self { server, job, begin: reply.outcome[0].watermark, ledger }
    }

    async fn claim(&self) -> ClaimRequest {
        let request = ClaimRequest {
            job: self.job.clone(),
            run: RunId::Scheduled(self.begin + Duration::from_millis(1)),
            claim: ClaimId::random(),
            again: None,
            skip: None,
            schedule: 7,
            revision: 0,
            overlap: OverlapRule::Skip,
            lease: LEASE,
            node: "a".to_owned(),
            catch_up: CatchUp::No,
            history: HISTORY,
        };
        let reply = self.ledger.claim(request.clone()).await.expect("it answers");
        assert!(matches!(reply.outcome, Claimed::Claimed { .. }), "{reply:?}");
        request
    }

    /// Adds a field to the open run, as a later version might.
    fn extend(&self, field: &str, more: &str) -> String {
        let open = self.server.command(&["HGET", OPEN, field]).text().to_owned();
        let extended = open.replacen('{', &format!("{{{more},"), 1);
        self.server.command(&["HSET", OPEN, field, &extended]);
        open
    }
}

#[tokio::test]
async fn fields_that_a_later_version_wrote_are_kept() {
    let ledger = Ledger::new().await;
    let r = ledger.claim().await;
    let field = format!("job\n{}", r.run);
    ledger.extend(&field, r#""pool":{"name":"heavy"}"#);
    let item = KeepRun { job: r.job.name.clone(), run: r.run, claim: r.claim, lease: LEASE * 2 };
    let kept = ledger.ledger.keep(r.job.group.clone(), vec![item]).await.expect("it answers");
    assert_eq!(kept.outcome, [KeptRun::Kept]);
    let open = ledger.server.command(&["HGET", OPEN, &field]).text().to_owned();
    assert!(open.contains("heavy"), "{open}");
    let (outcome, detail, then) = (RunOutcome::Succeeded, String::new(), Then::Over);
    let end = EndRequest {
        job: r.job.clone(),
        run: r.run,
        claim: r.claim,
        outcome,
        detail,
        then,
        history: HISTORY,
    };
    assert_eq!(ledger.ledger.end(end).await.expect("it answers").outcome, Ended::Recorded);
    let history = ledger.server.command(&["LRANGE", "distlock:ledger:2:history:{g}:job", "0", "-1"]);
    assert!(format!("{history:?}").contains("heavy"), "{history:?}");
}

#[tokio::test]
async fn words_and_records_that_a_later_version_wrote_make_no_answer_unreadable() {
    let ledger = Ledger::new().await;
    let r = ledger.claim().await;
    let open = ledger.extend(&format!("job\n{}", r.run), r#""x":1"#);
    let strange = open.replace("\"running\"", "\"dancing\"");
    ledger.server.command(&["HSET", OPEN, &format!("job\n{}", r.run), &strange]);
    ledger.server.command(&["HSET", OPEN, "job\nbackfill:1", r#"{"run":"backfill:1"}"#]);
    let runs = ledger.ledger.open(r.job.group.clone()).await.expect("it answers").outcome;
    assert_eq!(runs.iter().map(|run| (run.run, run.state)).collect::<Vec<_>>(), [(r.run, RunState::Running)]);
    ledger.ledger.order(r.job.clone(), Order::Pause).await.expect("it answers");
    ledger.server.command(&["HSET", "distlock:ledger:2:group:{g}", "later", "word"]);
    ledger.server.command(&["HSET", "distlock:ledger:2:group:{g}", "trigger:x", "{}"]);
    let orders = ledger.ledger.orders(r.job.group.clone(), 0).await.expect("it answers").outcome;
    let Orders::Changed { jobs, triggers, .. } = orders else { panic!("they have changed: {orders:?}") };
    assert!(jobs.len() == 1 && jobs[0].1.paused && triggers.is_empty(), "{jobs:?}, {triggers:?}");
}

#[tokio::test]
async fn the_rights_are_tried_once_and_reading_watermarks_is_a_read() {
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
    assert_eq!(read.expect("it answers").outcome, [Some(ledger.begin)]);
    assert_eq!(calls(), before);
    ledger.ledger.register(ledger.job.group.clone(), registration()).await.expect("it answers");
    assert_eq!((calls().0, calls().1), (before.0, before.1), "only the registration itself");
}

fn end(r: &ClaimRequest, then: Then) -> EndRequest {
    let (outcome, detail) = (RunOutcome::Cancelled, String::new());
    let (job, run, claim) = (r.job.clone(), r.run, r.claim);
    EndRequest { job, run, claim, outcome, detail, then, history: HISTORY }
}

#[tokio::test]
async fn fields_that_a_later_version_wrote_are_kept_by_the_next_attempt() {
    for then in [Then::GiveBack, Then::HandOver] {
        let ledger = Ledger::new().await;
        let r = ledger.claim().await;
        let field = format!("job\n{}", r.run);
        ledger.extend(&field, r#""pool":{"name":"heavy"}"#);
        ledger.ledger.end(end(&r, then)).await.expect("it answers");
        let again = Some(Again { claim: r.claim, failures: 3, orphanings: 3 });
        let next = ClaimRequest { again, claim: ClaimId::random(), ..r };
        let claimed = ledger.ledger.claim(next).await.expect("it answers").outcome;
        assert!(matches!(claimed, Claimed::Claimed { .. }), "{claimed:?}");
        let open = ledger.server.command(&["HGET", OPEN, &field]).text().to_owned();
        assert!(open.contains("heavy"), "{then:?}: {open}");
    }
}

#[tokio::test]
async fn a_history_that_cannot_be_read_stops_no_run() {
    let rows = ["not JSON", "7", r#"{"outcome":"skipped","detail":"missed"}"#];
    for row in rows {
        let ledger = Ledger::new().await;
        ledger.server.command(&["LPUSH", "distlock:ledger:2:history:{g}:job", row]);
        let r = ledger.claim().await;
        ledger.ledger.end(end(&r, Then::Over)).await.expect("it answers");
        let repeated = ledger.ledger.end(end(&r, Then::Over)).await.expect("it answers");
        assert_eq!(repeated.outcome, Ended::Recorded);
        ledger.server.command(&["LPUSH", "distlock:ledger:2:history:{g}:job", row]);
        let trigger = *lock_core::ProcessId::random().as_uuid();
        let order = Order::Trigger { id: trigger, life: LEASE };
        ledger.ledger.order(r.job.clone(), order).await.expect("it answers");
        let run = RunId::Triggered(trigger);
        let skip = Some(Skip { first: run, count: 2, detail: "missed".to_owned() });
        let skipped = ClaimRequest { run, skip, claim: ClaimId::random(), ..r };
        assert_eq!(
            ledger.ledger.claim(skipped).await.expect("it answers").outcome,
            Claimed::Skipped,
            "{row}"
        );
    }
}

/// As after an operator removed the key of a job, or a server evicted it.
#[tokio::test]
async fn an_open_run_outlives_the_loss_of_its_job_and_counts_for_the_overlap() {
    let ledger = Ledger::new().await;
    let r = ledger.claim().await;
    ledger.ledger.end(end(&r, Then::HandOver)).await.expect("it answers");
    ledger.server.command(&["DEL", "distlock:ledger:2:job:{g}:job"]);
    let registration = Registration { job: r.job.name.clone(), schedule: 7 };
    ledger.ledger.register(r.job.group.clone(), vec![registration]).await.expect("it answers");
    let again = Some(Again { claim: r.claim, failures: 3, orphanings: 3 });
    let next = ClaimRequest { again, claim: ClaimId::random(), ..r.clone() };
    let claimed = ledger.ledger.claim(next).await.expect("it answers").outcome;
    assert!(matches!(claimed, Claimed::Claimed { .. }), "{claimed:?}");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let later =
        RunId::Scheduled(ledger.ledger.register(r.job.group.clone(), vec![]).await.expect("it answers").now);
    let other = ClaimRequest { run: later, claim: ClaimId::random(), ..r };
    assert_eq!(ledger.ledger.claim(other).await.expect("it answers").outcome, Claimed::Skipped);
}
