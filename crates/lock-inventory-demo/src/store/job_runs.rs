//! The starts of job runs. Each start is recorded before the work, so a run that started twice is
//! visible.

use super::{Store, StoreError};
use sqlx::FromRow;

/// The start of one attempt at a job run.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct JobRun {
    /// Name of the job.
    pub job: String,
    /// Scheduled time of the run, in Unix milliseconds.
    pub scheduled_ms: i64,
    /// Attempt number, starting at 1.
    pub attempt: i64,
    /// Name and process id of the shop, as in the header `x-shop`.
    pub shop: String,
    /// Start of the attempt by the shop's clock, in Unix milliseconds.
    pub started_ms: i64,
}

impl Store {
    /// Records a start.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
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
        .map_err(StoreError::of("record a job run"))
    }

    /// Returns all starts, oldest first.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn job_runs(&self) -> Result<Vec<JobRun>, StoreError> {
        let all =
            sqlx::query_as("select job, scheduled_ms, attempt, shop, started_ms from job_runs order by seq");
        all.fetch_all(&self.pool).await.map_err(StoreError::of("read the job runs"))
    }
}
