//! The starts of the jobs' runs. Each is noted before its work, so that a run that started twice is seen.

use super::{Store, StoreError};
use sqlx::FromRow;

/// The start of an attempt of a run.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct JobRun {
    /// The name of the job.
    pub job: String,
    /// The instant of the run, in milliseconds since 1970.
    pub scheduled_ms: i64,
    /// The attempt, from 1.
    pub attempt: i64,
    /// The shop and its process, as in the header `x-shop`.
    pub shop: String,
    /// When it started by the clock of the shop, in milliseconds since 1970.
    pub started_ms: i64,
}

impl Store {
    /// Notes a start.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub async fn note_job_run(&self, run: &JobRun) -> Result<(), StoreError> {
        sqlx::query(
            "insert into job_runs (job, scheduled_ms, attempt, shop, started_ms) values ($1, $2, $3, $4, $5)",
        )
        .bind(&run.job)
        .bind(run.scheduled_ms)
        .bind(run.attempt)
        .bind(&run.shop)
        .bind(run.started_ms)
        .execute(&self.pool)
        .await
        .map(drop)
        .map_err(StoreError::of("note the run of a job"))
    }

    /// Returns all starts, in their order.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub async fn job_runs(&self) -> Result<Vec<JobRun>, StoreError> {
        let all =
            sqlx::query_as("select job, scheduled_ms, attempt, shop, started_ms from job_runs order by seq");
        all.fetch_all(&self.pool).await.map_err(StoreError::of("read the runs of the jobs"))
    }
}
