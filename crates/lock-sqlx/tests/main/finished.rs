//! Runs whose bodies record their success in a transaction of their own.

use crate::{
    postgres::support::Schema,
    sqlite::support::LockFile,
    support::{PATIENCE, claim_of, end_of, job, outcomes, start},
};
use lock_core::LockFactory;
use lock_cron::{
    OnOrphan, Retries, RunContext, Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use lock_ledger::*;
use lock_sqlx::{FenceError, finish_in};
use lock_testkit::PostgresServer;
use sqlx::{PgPool, SqlitePool, sqlite::SqliteConnectOptions};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A schedule whose time does not come: runs are triggered.
fn never() -> Schedule {
    Schedule::cron("0 0 29 2 *").unwrap()
}

/// Runs the scheduler until a condition on the history of a job holds.
async fn runs_until(cron: &Scheduler, job: &str, is_done: impl Fn(&[RunOutcome]) -> bool) -> Vec<RunOutcome> {
    let (seen, wait) = (Mutex::new(Vec::new()), Duration::from_millis(20));
    let done = async {
        tokio::time::sleep(wait).await;
        // It must be registered.
        while cron.trigger(job).await.is_err() {
            tokio::time::sleep(wait).await;
        }
        loop {
            let attempts = cron.history(job, 10).await.unwrap();
            let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt.outcome).collect();
            if is_done(&outcomes) {
                *seen.lock().unwrap() = outcomes;
                return;
            }
            tokio::time::sleep(wait).await;
        }
    };
    tokio::time::timeout(PATIENCE, cron.run_until(done)).await.expect("it ends").unwrap();
    seen.into_inner().unwrap()
}

async fn scheduler(locks: LockFactory, ledger: Arc<dyn RunLedger>) -> Scheduler {
    Scheduler::builder(locks, ledger).group("g").build().unwrap()
}

async fn written(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from written").fetch_one(pool).await.unwrap()
}

async fn pool(schema: &Schema) -> PgPool {
    let pool = schema.pool().await;
    sqlx::query("create table written (attempt int)").execute(&pool).await.unwrap();
    pool
}

/// Writes, and commits if this is at least the attempt of the number.
async fn write(pool: &PgPool, run: &RunContext, commits_from: u32) -> Result<(), FenceError> {
    let mut tx = pool.begin().await?;
    let attempt = i32::try_from(run.attempt()).unwrap();
    sqlx::query("insert into written values ($1)").bind(attempt).execute(&mut *tx).await?;
    finish_in(&mut tx, run).await?;
    if run.attempt() >= commits_from { Ok(tx.commit().await?) } else { Ok(tx.rollback().await?) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_run_has_succeeded_once() {
    let schema = Schema::new();
    let (client, pool) = (schema.client().await, pool(&schema).await);
    let cron = scheduler(LockFactory::new(client.clone()), client.ledger()).await;
    let of_job = pool.clone();
    let job = cron.job("j", never(), move |run: RunContext| {
        let pool = of_job.clone();
        async move { Ok(write(&pool, &run, 1).await?) }
    });
    job.register().unwrap();
    let outcomes = runs_until(&cron, "j", |outcomes| !outcomes.is_empty()).await;
    assert_eq!((outcomes, written(&pool).await), (vec![RunOutcome::Succeeded], 1));
}

/// The body returns `Ok`, but its transaction is rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_without_its_commit_runs_again_once() {
    let schema = Schema::new();
    let (client, pool) = (schema.client().await, pool(&schema).await);
    let cron = scheduler(LockFactory::new(client.clone()), client.ledger()).await;
    let of_job = pool.clone();
    let job = cron.job("j", never(), move |run: RunContext| {
        let pool = of_job.clone();
        async move { Ok(write(&pool, &run, 2).await?) }
    });
    job.on_orphan(OnOrphan::Retry { max: 3 }).register().unwrap();
    let outcomes = runs_until(&cron, "j", |outcomes| outcomes.contains(&RunOutcome::Succeeded)).await;
    assert_eq!(outcomes, [RunOutcome::Succeeded, RunOutcome::Cancelled]);
    assert_eq!(written(&pool).await, 1);
}

/// The transaction stays open, and other jobs of the group start and end meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transaction_delays_no_other_job() {
    let schema = Schema::new();
    let (client, pool) = (schema.client().await, pool(&schema).await);
    let cron = scheduler(LockFactory::new(client.clone()), client.ledger()).await;
    let (others, enough, open) =
        (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (of_job, wait, opened) = (pool.clone(), enough.clone(), open.clone());
    let slow = cron.job("slow", never(), move |run: RunContext| {
        let (pool, wait, opened) = (of_job.clone(), wait.clone(), opened.clone());
        async move {
            let mut tx = pool.begin().await?;
            finish_in(&mut tx, &run).await?;
            opened.notify_one();
            wait.notified().await;
            Ok(tx.commit().await?)
        }
    });
    slow.register().unwrap();
    let count = others.clone();
    let quick = cron.job("quick", Schedule::every(Duration::from_secs(1)).unwrap(), move |_: RunContext| {
        let (count, enough) = (count.clone(), enough.clone());
        async move {
            // Each run is claimed, renewed and ended beside the open transaction.
            if count.fetch_add(1, Ordering::SeqCst) >= 2 {
                enough.notify_one();
            }
            Ok(())
        }
    });
    quick.register().unwrap();
    let outcomes = runs_until(&cron, "slow", |outcomes| !outcomes.is_empty()).await;
    assert_eq!(outcomes, [RunOutcome::Succeeded]);
    assert!(others.load(Ordering::SeqCst) >= 3);
}

/// Starts a run whose lease ends at once.
async fn orphan(ledger: &Arc<dyn RunLedger>) -> StartedRun {
    let run = start(ledger, "j", Duration::from_millis(1)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    run
}

/// The answer to a claim of the next attempt, and its claim.
async fn next_attempt(ledger: &Arc<dyn RunLedger>, run: &StartedRun) -> (ClaimId, ClaimReply) {
    let request = claim_of(run.job().clone(), run.run(), Some(run.claim()), PATIENCE);
    (request.claim, ledger.claim(request).await.unwrap().outcome)
}

async fn is_refused(ledger: &Arc<dyn RunLedger>, run: &StartedRun) {
    let (_, busy) = next_attempt(ledger, run).await;
    assert_eq!(busy, ClaimReply::Busy { running: 1 }, "it would run beside its transaction");
    let open = ledger.end(end_of(run, RunOutcome::Abandoned, AfterAttempt::Finish)).await;
    let open = open.unwrap_err().to_string();
    assert!(open.contains("transaction of the application"), "{open}");
}

/// The lease of the run has ended, and its transaction is still open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphan_is_not_started_again_before_its_transaction_has_ended() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let run = orphan(&ledger).await;
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    is_refused(&ledger, &run).await;
    tx.commit().await.unwrap();
    let (_, gone) = next_attempt(&ledger, &run).await;
    assert_eq!(gone, ClaimReply::Gone);
    assert_eq!(outcomes(&ledger, "j").await, [RunOutcome::Succeeded]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphan_whose_transaction_was_rolled_back_is_started_again() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let run = orphan(&ledger).await;
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    is_refused(&ledger, &run).await;
    tx.rollback().await.unwrap();
    let (second, reply) = next_attempt(&ledger, &run).await;
    assert!(matches!(reply, ClaimReply::Claimed { attempt: 2, .. }), "{reply:?}");
    let second = StartedRun::new(job("j"), run.run(), second);
    let mut tx = pool.begin().await.unwrap();
    let stale = finish_in(&mut tx, &run).await;
    assert!(matches!(stale, Err(FenceError::Stale)), "{stale:?}");
    tx.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &second).await.unwrap();
    tx.commit().await.unwrap();
    // The record of its success is there for whoever ends it.
    let end = end_of(&second, RunOutcome::Abandoned, AfterAttempt::Finish);
    assert_eq!(ledger.end(end).await.unwrap().outcome, EndReply::Recorded);
    assert_eq!(outcomes(&ledger, "j").await, [RunOutcome::Succeeded, RunOutcome::Abandoned]);
    assert!(ledger.open_runs(job("j").group).await.unwrap().outcome.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_of_a_file_is_committed_with_its_effect() {
    let file = LockFile::new();
    let client = file.client().await;
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(file.path())).await.unwrap();
    sqlx::query("create table written (attempt int)").execute(&pool).await.unwrap();
    let cron = scheduler(LockFactory::new(client.clone()), client.ledger()).await;
    let of_job = pool.clone();
    let job = cron.job("j", never(), move |run: RunContext| {
        let pool = of_job.clone();
        async move {
            let mut tx = pool.begin_with("begin immediate").await?;
            sqlx::query("insert into written values (?1)").bind(run.attempt()).execute(&mut *tx).await?;
            finish_in(&mut tx, &run).await?;
            if run.attempt() == 2 { Ok(tx.commit().await?) } else { Ok(tx.rollback().await?) }
        }
    });
    job.on_orphan(OnOrphan::Retry { max: 3 }).register().unwrap();
    let outcomes = runs_until(&cron, "j", |outcomes| outcomes.contains(&RunOutcome::Succeeded)).await;
    assert_eq!(outcomes, [RunOutcome::Succeeded, RunOutcome::Cancelled]);
    let written: Vec<i64> = sqlx::query_scalar("select attempt from written").fetch_all(&pool).await.unwrap();
    assert_eq!(written, [2]);
}

/// The attempt timed out; a task that its body left behind still works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_that_has_ended_is_stale() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    for (name, then) in [("a", AfterAttempt::Retry), ("b", AfterAttempt::Reassign)] {
        let run = start(&ledger, name, PATIENCE).await;
        ledger.end(end_of(&run, RunOutcome::TimedOut, then)).await.unwrap();
        let stale = finish_in(&mut pool.begin().await.unwrap(), &run).await;
        assert!(matches!(stale, Err(FenceError::Stale)), "{stale:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_that_has_ended_is_stale_in_a_file() {
    let file = LockFile::new();
    let ledger = file.client().await.ledger();
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(file.path())).await.unwrap();
    let run = start(&ledger, "a", PATIENCE).await;
    ledger.end(end_of(&run, RunOutcome::TimedOut, AfterAttempt::Retry)).await.unwrap();
    let stale = finish_in(&mut pool.begin_with("begin immediate").await.unwrap(), &run).await;
    assert!(matches!(stale, Err(FenceError::Stale)), "{stale:?}");
}

/// The body was dropped by its timeout; its detached task has the claim while the retry is due, and rolls back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_of_a_timed_out_run_is_not_lost() {
    let schema = Schema::new();
    let (client, pool) = (schema.client().await, schema.pool().await);
    let cron = scheduler(LockFactory::new(client.clone()), client.ledger()).await;
    let attempts = Arc::new(AtomicU32::new(0));
    let (of_job, count) = (pool.clone(), attempts.clone());
    let job = cron.job("j", never(), move |run: RunContext| {
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
    runs_until(&cron, "j", |outcomes| outcomes.contains(&RunOutcome::Succeeded)).await;
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

/// Its claim is refused at once, with the lock of the group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_job_with_an_open_transaction_delays_no_other_job() {
    let schema = Schema::new();
    let (ledger, other, pool) =
        (schema.client().await.ledger(), schema.client().await.ledger(), schema.pool().await);
    let (run, quick) = (start(&ledger, "slow", PATIENCE).await, start(&ledger, "quick", PATIENCE).await);
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    let refused = ledger.remove(job("slow"), Removal::Forget).await.unwrap_err().to_string();
    assert!(refused.contains("transaction of the application"), "{refused}");
    let item =
        RenewRun { job: quick.job().name.clone(), run: quick.run(), claim: quick.claim(), lease: PATIENCE };
    assert_eq!(other.renew(job("quick").group, vec![item]).await.unwrap().outcome, [RunRenewal::Renewed]);
    tx.rollback().await.unwrap();
    let removed = ledger.remove(job("slow"), Removal::Forget).await.unwrap().outcome;
    assert_eq!(removed, RemoveReply::Removed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_keeps_the_history_of_a_finished_run() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let add = AddRequest {
        job: job("k/1"),
        definition: Definition { schedule: "@daily".to_owned(), dst: String::new(), once: None },
        payload: String::new(),
        added_by: String::new(),
    };
    let since = ledger.add(add).await.unwrap().now;
    let from = InstancesFrom::Revision(0);
    let Instances::All { instances, .. } = ledger.instances(job("k/1").group, from).await.unwrap().outcome
    else {
        panic!()
    };
    let mut last = None;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for n in 0..121 {
        let at = RunId::at_millis(since.as_millis() + 1 + n);
        let request =
            ClaimRequest { definition: instances[0].revision, ..claim_of(job("k/1"), at, None, PATIENCE) };
        let reply = ledger.claim(request.clone()).await.unwrap().outcome;
        assert!(matches!(reply, ClaimReply::Claimed { .. }), "{reply:?}");
        let run = StartedRun::new(job("k/1"), at, request.claim);
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
    ledger.remove(job("k/1"), Removal::KeepRecord).await.unwrap();
    assert_eq!(outcomes(&ledger, "k/1").await.len(), 121, "entries after a removal that keeps the history");
}

/// An end that has to wait for a transaction of the application is repeated, on the same connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_ends_open_no_connections() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let run = start(&ledger, "j", PATIENCE).await;
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    let mut pids = BTreeSet::new();
    for _ in 0..10 {
        let refused = ledger.end(end_of(&run, RunOutcome::Failed, AfterAttempt::Finish)).await;
        assert!(refused.is_err());
        // Opens, or uses, the connection again.
        ledger.open_runs(job("j").group).await.unwrap();
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
    let run = start(&ledger, "j", Duration::from_millis(50)).await;
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    tx.commit().await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    let orphans = Arc::new(Orphans::default());
    let cron = Scheduler::builder(LockFactory::new(client.clone()), ledger.clone())
        .group("g")
        .observer(orphans.clone())
        .build()
        .unwrap();
    let registered = cron.job("j", never(), |_: RunContext| async { Ok(()) });
    registered.on_orphan(OnOrphan::Retry { max: 3 }).register().unwrap();
    let read = (ledger.open_runs(job("j").group).await.unwrap().outcome, outcomes(&ledger, "j").await);
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
async fn run_is_finished_twice_in_one_transaction() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    let run = orphan(&ledger).await;
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    finish_in(&mut tx, &run).await.unwrap();
    tx.commit().await.unwrap();
    assert!(ledger.open_runs(job("j").group).await.unwrap().outcome.is_empty());
    assert_eq!(outcomes(&ledger, "j").await, [RunOutcome::Succeeded]);
}
