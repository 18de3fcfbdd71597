//! The run ledger in databases: lost clients, runs that end late, records of others.

use crate::{postgres::support::Schema, sqlite::support::LockFile};
use lock_core::{LockFactory, LockName};
use lock_cron::{
    OnOrphan, Retries, RunContext, Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use lock_ledger::*;
use lock_sqlx::{FenceError, finish_in};
use lock_testkit::PostgresServer;
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(30);

fn id(name: &str) -> JobId {
    JobId { group: GroupName::new("g").unwrap(), name: LockName::new(name).unwrap() }
}

fn claim_of(job: JobId, run: RunId, after: Option<ClaimId>) -> ClaimRequest {
    ClaimRequest {
        job,
        run,
        claim: ClaimId::random(),
        retry_of: after.map(|claim| RetryOf { claim, failures: 9, orphanings: 9 }),
        skip: None,
        after: None,
        not_after: None,
        schedule: 0,
        revision: 0,
        definition: 0,
        overlap: OverlapRule::Allow { max: 999 },
        pool: None,
        lease: PATIENCE,
        node: "n".to_owned(),
        catch_up: CatchUp::No,
        history: 1000,
    }
}

/// Starts a run of a registered job.
async fn start(ledger: &Arc<dyn RunLedger>, name: &str) -> StartedRun {
    let registration = Registration { job: id(name).name, schedule: 0 };
    let registered = ledger.register(id(name).group, vec![registration]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let request = claim_of(id(name), RunId::at_millis(registered.now.as_millis() + 1), None);
    let reply = ledger.claim(request.clone()).await.unwrap().outcome;
    assert!(matches!(reply, ClaimReply::Claimed { .. }), "{reply:?}");
    StartedRun::new(id(name), request.run, request.claim)
}

fn end_of(run: &StartedRun, outcome: RunOutcome, then: AfterAttempt) -> EndRequest {
    EndRequest {
        job: run.job().clone(),
        run: run.run(),
        claim: run.claim(),
        outcome,
        detail: String::new(),
        then,
        history: 1000,
    }
}

async fn outcomes(ledger: &Arc<dyn RunLedger>, name: &str) -> Vec<RunOutcome> {
    ledger.history(id(name), 2000).await.unwrap().outcome.iter().map(|attempt| attempt.outcome).collect()
}

/// The attempt timed out and waits for its next one; a task of its body that it left behind commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_success_after_the_end_of_its_attempt_is_in_the_history() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    for (name, then) in [("a", AfterAttempt::Retry), ("b", AfterAttempt::Reassign)] {
        let run = start(&ledger, name).await;
        ledger.end(end_of(&run, RunOutcome::TimedOut, then)).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        match finish_in(&mut tx, &run).await {
            Err(FenceError::Stale) => continue,
            other => other.unwrap(),
        }
        tx.commit().await.unwrap();
        let next = ledger.claim(claim_of(id(name), run.run(), Some(run.claim()))).await.unwrap().outcome;
        assert_eq!(next, ClaimReply::Gone);
        let outcomes = outcomes(&ledger, name).await;
        assert!(outcomes.contains(&RunOutcome::Succeeded), "{name}: committed, but {outcomes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_success_after_the_end_of_its_attempt_is_in_the_history_sqlite() {
    let file = LockFile::new();
    let ledger = file.client().await.ledger();
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(file.path())).await.unwrap();
    let run = start(&ledger, "a").await;
    ledger.end(end_of(&run, RunOutcome::TimedOut, AfterAttempt::Retry)).await.unwrap();
    let mut tx = pool.begin_with("begin immediate").await.unwrap();
    match finish_in(&mut tx, &run).await {
        Err(FenceError::Stale) => return,
        other => other.unwrap(),
    }
    tx.commit().await.unwrap();
    ledger.claim(claim_of(id("a"), run.run(), Some(run.claim()))).await.unwrap();
    let outcomes = outcomes(&ledger, "a").await;
    assert!(outcomes.contains(&RunOutcome::Succeeded), "committed, but {outcomes:?}");
}

/// The body was dropped by its timeout; its detached task has the claim while the retry is due, and rolls back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_of_a_timed_out_run_is_not_lost() {
    let schema = Schema::new();
    let (client, pool) = (schema.client().await, schema.pool().await);
    let cron =
        Scheduler::builder(LockFactory::new(client.clone()), client.ledger()).group("g").build().unwrap();
    let attempts = Arc::new(AtomicU32::new(0));
    let (of_job, count) = (pool.clone(), attempts.clone());
    let job = cron.job("j", Schedule::cron("0 0 29 2 *").unwrap(), move |run: RunContext| {
        let (pool, count) = (of_job.clone(), count.clone());
        async move {
            if count.fetch_add(1, Ordering::SeqCst) > 0 {
                return Ok(());
            }
            let task = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(700)).await;
                let mut tx = pool.begin().await.unwrap();
                let finished = finish_in(&mut tx, &run).await;
                tokio::time::sleep(Duration::from_millis(2500)).await;
                tx.rollback().await.unwrap();
                finished.unwrap_or(());
            });
            Ok(task.await?)
        }
    });
    job.timeout(Duration::from_millis(200))
        .cancel_grace(Duration::from_millis(50))
        .retries(Retries { max: 3, initial_delay: Duration::from_millis(1500), ..Retries::default() })
        .register()
        .unwrap();
    let done = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        while cron.trigger("j").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_secs(8)).await;
    };
    cron.run_until(done).await.unwrap();
    let history: Vec<_> =
        cron.history("j", 10).await.unwrap().iter().map(|a| (a.outcome, a.detail.clone())).collect();
    assert_eq!(attempts.load(Ordering::SeqCst), 2, "{history:?}");
}

/// `finish_in`: "In PostgreSQL it delays no other run, renewal or heartbeat".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_job_with_an_open_transaction_delays_no_other_job() {
    let schema = Schema::new();
    let (ledger, other, pool) =
        (schema.client().await.ledger(), schema.client().await.ledger(), schema.pool().await);
    let (run, quick) = (start(&ledger, "slow").await, start(&ledger, "quick").await);
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    // It does not wait for the transaction, with the group's lock.
    let refused = ledger.remove(id("slow"), Removal::Forget).await.unwrap_err().to_string();
    assert!(refused.contains("transaction of the application"), "{refused}");
    let item =
        RenewRun { job: quick.job().name.clone(), run: quick.run(), claim: quick.claim(), lease: PATIENCE };
    assert_eq!(other.renew(id("quick").group, vec![item]).await.unwrap().outcome, [RunRenewal::Renewed]);
    tx.rollback().await.unwrap();
    let removed = ledger.remove(id("slow"), Removal::Forget).await.unwrap().outcome;
    assert_eq!(removed, RemoveReply::Removed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_keeps_the_history_of_a_finished_run() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let add = AddRequest {
        job: id("k/1"),
        definition: Definition { schedule: "@daily".to_owned(), dst: String::new(), once: None },
        payload: String::new(),
        added_by: String::new(),
    };
    let since = ledger.add(add).await.unwrap().now;
    let from = InstancesFrom::Revision(0);
    let Instances::All { instances, .. } = ledger.instances(id("k/1").group, from).await.unwrap().outcome
    else {
        panic!()
    };
    let mut last = None;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for n in 0..121 {
        let at = RunId::at_millis(since.as_millis() + 1 + n);
        let request = ClaimRequest { definition: instances[0].revision, ..claim_of(id("k/1"), at, None) };
        let reply = ledger.claim(request.clone()).await.unwrap().outcome;
        assert!(matches!(reply, ClaimReply::Claimed { .. }), "{reply:?}");
        let run = StartedRun::new(id("k/1"), at, request.claim);
        if n < 120 {
            ledger.end(end_of(&run, RunOutcome::Succeeded, AfterAttempt::Finish)).await.unwrap();
        }
        last = Some(run);
    }
    assert_eq!(outcomes(&ledger, "k/1").await.len(), 120);
    // The node commits, and crashes before it records the end.
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &last.unwrap()).await.unwrap();
    tx.commit().await.unwrap();
    ledger.remove(id("k/1"), Removal::KeepRecord).await.unwrap();
    assert_eq!(outcomes(&ledger, "k/1").await.len(), 121, "entries after a removal that keeps the history");
}

/// An end that has to wait for a transaction of the application is repeated, on the same connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_ends_open_no_connections() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let run = start(&ledger, "j").await;
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    let mut pids = BTreeSet::new();
    for _ in 0..10 {
        let refused = ledger.end(end_of(&run, RunOutcome::Failed, AfterAttempt::Finish)).await;
        assert!(refused.is_err());
        // Opens, or uses, the connection again.
        ledger.open_runs(id("j").group).await.unwrap();
        let now: Vec<i32> =
            sqlx::query_scalar("select pid from pg_stat_activity where application_name = 'distlock'")
                .fetch_all(&pool)
                .await
                .unwrap();
        pids.extend(now);
    }
    tx.rollback().await.unwrap();
    assert!(pids.len() <= 4, "{} connections for 10 refused ends", pids.len());
}

/// The file's task executes 256 transactions of the ledger, each with its own fsync, before it looks at a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_transactions_do_not_hold_up_locks() {
    let file = LockFile::new();
    let client = file.client().await;
    let (ledger, locks) = (client.ledger(), LockFactory::new(client.clone()));
    let done = Arc::new(AtomicU32::new(0));
    let begun = Instant::now();
    for n in 0..256 {
        let (ledger, done) = (ledger.clone(), done.clone());
        tokio::spawn(async move {
            let jobs = vec![Registration { job: id(&format!("j{n}")).name, schedule: 0 }];
            ledger.register(id("j").group, jobs).await.unwrap();
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    let at = done.load(Ordering::SeqCst);
    let asked = Instant::now();
    let _guard = locks.named("x").unwrap().acquire().await.unwrap();
    let (took, ahead) = (asked.elapsed(), done.load(Ordering::SeqCst) - at);
    while done.load(Ordering::SeqCst) < 256 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let all = begun.elapsed();
    assert!(
        ahead < 32,
        "the lock waited {took:?} for {ahead} transactions of the ledger; all 256 took {all:?}"
    );
}

/// A run whose id this version does not know was claimed by a later version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_later_version_are_preserved() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    sqlx::query(
        "insert into distlock_run values ('g', 'claim', 'k' || chr(10) || 'event:7', 'x', false, false)",
    )
    .execute(&pool)
    .await
    .unwrap();
    start(&ledger, "j").await;
    let left: i64 =
        sqlx::query_scalar("select count(*) from distlock_run where kind = 'claim' and data = 'x'")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!(left, 1);
}

#[derive(Debug, Default)]
struct Orphans(Mutex<Vec<bool>>);

impl CronObserver for Orphans {
    fn on_event(&self, event: &CronEvent<'_>) {
        if let CronEvent::Orphaned { retried, .. } = event {
            self.0.lock().unwrap().push(*retried);
        }
    }
}

/// A node dies after its commit. Its run has succeeded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn succeeded_run_of_a_dead_node_is_no_orphan() {
    let schema = Schema::new();
    let (client, pool) = (schema.client().await, schema.pool().await);
    let ledger = client.ledger();
    let registration = Registration { job: id("j").name, schedule: 0 };
    let registered = ledger.register(id("j").group, vec![registration]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let request = ClaimRequest {
        lease: Duration::from_millis(50),
        ..claim_of(id("j"), RunId::at_millis(registered.now.as_millis() + 1), None)
    };
    let reply = ledger.claim(request.clone()).await.unwrap().outcome;
    assert!(matches!(reply, ClaimReply::Claimed { .. }), "{reply:?}");
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &StartedRun::new(id("j"), request.run, request.claim)).await.unwrap();
    tx.commit().await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    let orphans = Arc::new(Orphans::default());
    let cron = Scheduler::builder(LockFactory::new(client.clone()), ledger.clone())
        .group("g")
        .observer(orphans.clone())
        .build()
        .unwrap();
    let job = cron.job("j", Schedule::cron("0 0 29 2 *").unwrap(), |_: RunContext| async { Ok(()) });
    job.on_orphan(OnOrphan::Retry { max: 3 }).register().unwrap();
    let read = (ledger.open_runs(id("j").group).await.unwrap().outcome, outcomes(&ledger, "j").await);
    cron.run_until(tokio::time::sleep(Duration::from_secs(4))).await.unwrap();
    assert_eq!(outcomes(&ledger, "j").await, [RunOutcome::Succeeded]);
    let orphans = orphans.0.lock().unwrap().clone();
    assert!(
        orphans.is_empty(),
        "a run that succeeded was reported as an orphan that is not retried: {orphans:?}"
    );
    assert!(read.0.is_empty() && read.1 == [RunOutcome::Succeeded], "after the commit: {read:?}");
}

/// `finish_in` twice in one transaction, as by a helper and its caller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finish_in_twice() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let run = start(&ledger, "j").await;
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
}

/// A node freezes, or loses the network, while it is in a transaction of the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_node_does_not_stop_the_group() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let others = schema.client().await.ledger();
    let proxy = lock_testkit::TcpProxy::start(server.address());
    let url = schema.url().replace(&server.address().to_string(), &proxy.address().to_string());
    let frozen = lock_sqlx::PostgresBackend::connect(&url).await.unwrap().ledger();
    let run = start(&others, "j").await;
    // A network of 20 ms, so that it is usually in a transaction.
    proxy.delay(Duration::from_millis(10));
    let item = RenewRun { job: run.job().name.clone(), run: run.run(), claim: run.claim(), lease: PATIENCE };
    let items = vec![item];
    let renews = items.clone();
    let node = tokio::spawn(async move {
        loop {
            let _ = frozen.renew(id("j").group, renews.clone()).await;
        }
    });
    let pool = schema.pool().await;
    // Until it has the lock of the group.
    loop {
        let held: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity where state = 'idle in transaction' and application_name = 'distlock'",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        let locks: i64 =
            sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory' and granted")
                .fetch_one(&pool)
                .await
                .unwrap();
        if held > 0 && locks > 0 {
            proxy.stall(lock_testkit::Direction::ToServer);
            proxy.stall(lock_testkit::Direction::ToClient);
            tokio::time::sleep(Duration::from_millis(100)).await;
            let locks: i64 =
                sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory' and granted")
                    .fetch_one(&pool)
                    .await
                    .unwrap();
            if locks > 0 {
                break;
            }
            proxy.pass();
            proxy.delay(Duration::from_millis(10));
        }
    }
    // The node's own requests time out, and it gives up.
    node.abort();
    let begun = Instant::now();
    let mut last = others.renew(id("j").group, items.clone()).await;
    while last.is_err() && begun.elapsed() < Duration::from_secs(20) {
        last = others.renew(id("j").group, items.clone()).await;
    }
    let took = begun.elapsed();
    assert!(
        last.is_ok() && took < Duration::from_secs(10),
        "no other node could renew for {took:?}: {last:?}"
    );
}
