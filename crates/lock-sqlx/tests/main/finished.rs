//! Runs whose bodies record their success in a transaction of their own.

use crate::{postgres::support::Schema, sqlite::support::LockFile};
use lock_core::{LockFactory, LockName};
use lock_cron::{OnOrphan, RunContext, Schedule, Scheduler};
use lock_ledger::{
    CatchUp, ClaimId, ClaimReply, ClaimRequest, EndReply, EndRequest, GroupName, JobId, OverlapRule,
    Registration, RetryOf, RunId, RunLedger, RunOutcome, StartedRun,
};
use lock_sqlx::{FenceError, finish_in};
use sqlx::{PgPool, SqlitePool, sqlite::SqliteConnectOptions};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(30);

/// A schedule whose time does not come: runs are triggered.
fn never() -> Schedule {
    Schedule::cron("0 0 29 2 *").unwrap()
}

/// Runs the scheduler until a condition on the history of a job holds.
async fn runs_until(cron: &Scheduler, job: &str, is_done: impl Fn(&[RunOutcome]) -> bool) -> Vec<RunOutcome> {
    let (seen, wait) = (std::sync::Mutex::new(Vec::new()), Duration::from_millis(20));
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

fn job() -> JobId {
    JobId { group: GroupName::new("g").unwrap(), name: LockName::new("j").unwrap() }
}

/// Claims the run of a trigger, or another attempt of it.
async fn claim(
    ledger: &Arc<dyn RunLedger>,
    run: RunId,
    after: Option<ClaimId>,
    lease: Duration,
) -> (ClaimId, ClaimReply) {
    let claim = ClaimId::random();
    let request = ClaimRequest {
        job: job(),
        run,
        claim,
        retry_of: after.map(|claim| RetryOf { claim, failures: 9, orphanings: 9 }),
        skip: None,
        after: None,
        not_after: None,
        schedule: 0,
        revision: 0,
        definition: 0,
        overlap: OverlapRule::Allow { max: 9 },
        pool: None,
        lease,
        node: "n".to_owned(),
        catch_up: CatchUp::No,
        history: 100,
    };
    (claim, ledger.claim(request).await.unwrap().outcome)
}

/// Starts a run whose lease ends at once.
async fn orphan(ledger: &Arc<dyn RunLedger>) -> StartedRun {
    let registration = Registration { job: job().name, schedule: 0 };
    let registered = ledger.register(job().group, vec![registration]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let run = RunId::at_millis(registered.now.as_millis() + 1);
    let (claim, reply) = claim(ledger, run, None, Duration::from_millis(1)).await;
    assert!(matches!(reply, ClaimReply::Claimed { .. }), "{reply:?}");
    tokio::time::sleep(Duration::from_millis(10)).await;
    StartedRun::new(job(), run, claim)
}

async fn outcomes(ledger: &Arc<dyn RunLedger>) -> Vec<RunOutcome> {
    ledger.history(job(), 10).await.unwrap().outcome.iter().map(|attempt| attempt.outcome).collect()
}

async fn is_refused(ledger: &Arc<dyn RunLedger>, run: &StartedRun) {
    let (_, busy) = claim(ledger, run.run(), Some(run.claim()), PATIENCE).await;
    assert_eq!(busy, ClaimReply::Busy { running: 1 }, "it would run beside its transaction");
    let end = EndRequest {
        job: job(),
        run: run.run(),
        claim: run.claim(),
        outcome: RunOutcome::Abandoned,
        detail: String::new(),
        then: lock_ledger::AfterAttempt::Finish,
        history: 100,
    };
    let open = ledger.end(end).await.unwrap_err().to_string();
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
    let (_, gone) = claim(&ledger, run.run(), Some(run.claim()), PATIENCE).await;
    assert_eq!(gone, ClaimReply::Gone);
    assert_eq!(outcomes(&ledger).await, [RunOutcome::Succeeded]);
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
    let (second, reply) = claim(&ledger, run.run(), Some(run.claim()), PATIENCE).await;
    assert!(matches!(reply, ClaimReply::Claimed { attempt: 2, .. }), "{reply:?}");
    let mut tx = pool.begin().await.unwrap();
    let stale = finish_in(&mut tx, &run).await;
    assert!(matches!(stale, Err(FenceError::Stale)), "{stale:?}");
    tx.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    finish_in(&mut tx, &StartedRun::new(job(), run.run(), second)).await.unwrap();
    tx.commit().await.unwrap();
    // The record of its success is there for whoever ends it.
    let end = EndRequest {
        job: job(),
        run: run.run(),
        claim: second,
        outcome: RunOutcome::Abandoned,
        detail: String::new(),
        then: lock_ledger::AfterAttempt::Finish,
        history: 100,
    };
    assert_eq!(ledger.end(end).await.unwrap().outcome, EndReply::Recorded);
    assert_eq!(outcomes(&ledger).await, [RunOutcome::Succeeded, RunOutcome::Abandoned]);
    assert!(ledger.open_runs(job().group).await.unwrap().outcome.is_empty());
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
