//! The fleet's jobs. Each run is started once, by one of the shops.

mod audit;
mod expire;
mod restock;

use crate::{
    shop::Shop,
    store::{JobRun, StoreError},
};
use lock_cron::{
    CronError, OnOrphan, RunContext, RunResult, Schedule, Scheduler, observer::OtelCronObserver,
};
use std::{sync::Arc, time::Duration};

/// Name of the job that expires reservations. Job names must be stable, because the store keeps a
/// history for each.
pub const EXPIRE: &str = "expire-reservations";
/// Name of the job that restocks products.
pub const RESTOCK: &str = "restock";
/// Name of the nightly audit.
pub const AUDIT: &str = "nightly-audit";

/// Time for which a dead shop keeps the leadership.
const LEADERSHIP: Duration = Duration::from_secs(2);
/// Time for which a run counts as running after its shop has died.
const RUN_LEASE: Duration = Duration::from_secs(10);
/// Time limit for running jobs when the shop shuts down.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Creates a shop's scheduler and registers its jobs.
///
/// # Errors
/// Returns [`CronError`] if a schedule or a name is invalid.
pub fn schedule(shop: &Arc<Shop>) -> Result<Scheduler, CronError> {
    let cron = Scheduler::builder(shop.locks.clone(), shop.lock_store.ledger())
        .group(shop.config.qualified("shop"))
        .node(shop.instance())
        .leadership_lease(LEADERSHIP)
        .run_lease(RUN_LEASE)
        .shutdown_grace(SHUTDOWN)
        .observer(OtelCronObserver::new(shop.metrics.meter()))
        .build()?;
    let every = |seconds| Schedule::every(Duration::from_secs(seconds));
    register(&cron, EXPIRE, every(5)?, shop, expire::run)?;
    register(&cron, RESTOCK, every(60)?, shop, restock::run)?;
    register(&cron, AUDIT, Schedule::cron("0 3 * * *")?, shop, audit::run)?;
    shop.set_cron(cron.clone());
    Ok(cron)
}

/// Registers a job. A run whose shop died is retried, which is safe because each job detects the
/// effects of an earlier attempt.
fn register<W>(
    cron: &Scheduler,
    name: &'static str,
    schedule: Schedule,
    shop: &Arc<Shop>,
    body: fn(Arc<Shop>, RunContext) -> W,
) -> Result<(), CronError>
where
    W: Future<Output = RunResult> + Send + 'static,
{
    let shop = shop.clone();
    let job = cron.job(name, schedule, move |run| {
        let shop = shop.clone();
        async move {
            note(&shop, name, &run).await?;
            body(shop, run).await
        }
    });
    job.on_orphan(OnOrphan::Retry { max: 2 }).timeout(Duration::from_secs(60)).register()
}

async fn note(shop: &Shop, job: &str, run: &RunContext) -> Result<(), StoreError> {
    let start = JobRun {
        job: job.to_owned(),
        scheduled_ms: run.scheduled_at().as_millis().cast_signed(),
        attempt: run.attempt().into(),
        shop: shop.instance(),
        started_ms: run.started_at().as_millis().cast_signed(),
    };
    shop.store().note_job_run(&start).await
}
