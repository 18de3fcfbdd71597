//! The jobs of the fleet: each run is started once, by whichever shop leads.

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

/// The name of the job that gives expired reservations back. Names are stable: the store keeps a history of each.
pub const EXPIRE: &str = "expire-reservations";
/// The name of the job that fills the stock up.
pub const RESTOCK: &str = "restock";
/// The name of the nightly audit.
pub const AUDIT: &str = "nightly-audit";

/// How long a shop that died keeps the leadership.
const LEADERSHIP: Duration = Duration::from_secs(2);
/// How long a run whose shop died counts as running.
const RUN_LEASE: Duration = Duration::from_secs(10);
/// How long running jobs may take when the shop ends.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Makes the scheduler of a shop, and registers its jobs.
///
/// # Errors
/// [`CronError`] if a schedule or a name is refused.
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

/// A run whose shop died is run again: each of these jobs finds what an earlier attempt has done.
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
        scheduled_ms: run.scheduled_at().as_millis(),
        attempt: run.attempt().into(),
        shop: shop.instance(),
        started_ms: run.started_at().as_millis(),
    };
    shop.store().note_job_run(&start).await
}
