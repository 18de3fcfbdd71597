//! A job of the bench, beside those of the shop in the same scheduler: it records each of its starts as a row. There is no
//! unique key, so a run that started twice has two rows.

use distlock::cron::{CronError, Misfire, OnOrphan, Overlap, RunContext, RunResult, Schedule, Scheduler};
use lock_inventory_demo::store::{Store, StoreError};
use sqlx::FromRow;
use std::time::Duration;

/// Name of the job.
pub const TICK: &str = "tick";
/// Time between two runs.
const EVERY: Duration = Duration::from_secs(1);

/// The start of one attempt at a run.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Tick {
    /// Scheduled time of the run, in Unix milliseconds.
    pub scheduled_ms: i64,
    /// Attempt number, starting at 1.
    pub attempt: i64,
    /// Name of the server.
    pub shop: String,
    /// Start of the attempt by the server's clock, in Unix milliseconds.
    pub started_ms: i64,
}

/// Creates the table, unless it exists.
pub(super) async fn create(store: &Store) -> Result<(), StoreError> {
    let create = "create table if not exists ticks (scheduled_ms bigint not null, attempt bigint not null, \
                  shop text not null, started_ms bigint not null)";
    let mut created = sqlx::query(create).execute(store.pool()).await;
    if let Err(sqlx::Error::Database(_)) = created {
        // PostgreSQL fails, in several ways, if another server creates the table at the same time.
        created = sqlx::query(create).execute(store.pool()).await;
    }
    Ok(created.map(drop)?)
}

/// Registers the job.
pub(super) fn register(cron: &Scheduler, store: &Store, shop: &str) -> Result<(), CronError> {
    let (store, shop) = (store.clone(), shop.to_owned());
    let job = cron.job(TICK, Schedule::every(EVERY)?, move |run| record(store.clone(), shop.clone(), run));
    // Every scheduled time counts, also those at which no server led, or a run of a killed one was open.
    job.on_orphan(OnOrphan::Retry { max: 2 })
        .misfire(Misfire::FireAll { max: 1_000 })
        .overlap(Overlap::Allow { max: 100 })
        .register()
}

async fn record(store: Store, shop: String, run: RunContext) -> RunResult {
    sqlx::query("insert into ticks (scheduled_ms, attempt, shop, started_ms) values ($1, $2, $3, $4)")
        .bind(run.scheduled_at().as_millis().cast_signed())
        .bind(i64::from(run.attempt()))
        .bind(shop)
        .bind(run.started_at().as_millis().cast_signed())
        .execute(store.pool())
        .await?;
    Ok(())
}

/// Returns all starts, oldest first.
///
/// # Errors
/// Returns [`StoreError`] if the database fails.
///
/// # Cancel safety
/// Cancel safe: it changes nothing.
pub async fn ticks(store: &Store) -> Result<Vec<Tick>, StoreError> {
    let all = sqlx::query_as("select scheduled_ms, attempt, shop, started_ms from ticks order by started_ms");
    Ok(all.fetch_all(store.pool()).await?)
}
