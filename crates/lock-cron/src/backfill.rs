//! Backfills, which run a job for past scheduled times on request.

use crate::{
    error::{CronError, CronErrorKind},
    kind,
    ledger_client::NO_REVISION,
    schedule::times::whole_millis,
    scheduler::Scheduler,
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{Backfill, BackfillRequest, CommandReply, FleetControls, JobCommand};
use std::{ops::Range, time::Duration};
use uuid::Uuid;

/// The maximum number of scheduled times in a backfill.
pub const MAX_BACKFILL_INSTANTS: u32 = 10_000;

impl Scheduler {
    /// Runs a job for each of its past scheduled times in a range. The start of the range is
    /// inclusive and its end exclusive. Fractions of a millisecond are dropped, and future times
    /// are ignored. Returns the id of the backfill.
    ///
    /// The leader starts the runs one at a time, oldest first, with separate ids,
    /// `backfill:<uuid>:<instant>`. A scheduled time that has already run therefore runs again. In
    /// the body, [`RunContext::is_backfill`](crate::RunContext::is_backfill) is `true`, and
    /// [`scheduled_at`](crate::RunContext::scheduled_at) is the past scheduled time. The backfill
    /// uses the current schedule and is not affected by later changes. Its progress is stored, so
    /// it survives leader changes and restarts of the whole fleet.
    ///
    /// - A run of a backfill waits while other runs of the job are open or waiting. With
    ///   [`Overlap::Allow`](crate::Overlap::Allow), open runs delay it only once they reach the
    ///   limit. While a run of the backfill is open, scheduled runs follow the overlap policy: with
    ///   [`Overlap::Skip`](crate::Overlap::Skip) they are skipped, and with
    ///   [`CancelPrevious`](crate::Overlap::CancelPrevious) they cancel it.
    /// - Retries and the orphan policy apply as they do to any other run. After the final failure
    ///   of a run, the next one still starts.
    /// - While the job is paused, the backfill waits.
    /// - Nodes with an earlier version ignore backfills, which then wait for a leader with this
    ///   version.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # use std::time::{Duration, SystemTime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// let now = SystemTime::now();
    /// let last_week = now - Duration::from_secs(7 * 24 * 60 * 60)..now;
    /// let id = cron.backfill("invoices", last_week, 10).await?;
    /// assert_eq!(cron.backfills().await?[0].count, 7);
    /// assert!(cron.cancel_backfill(id).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::RangeTooLong`] if the range contains more than `limit` scheduled
    /// times; [`InvalidOptions`](CronErrorKind::InvalidOptions) if it contains none, or if `limit`
    /// exceeds 10,000; [`TooManyBackfills`](CronErrorKind::TooManyBackfills) if 4 backfills of the
    /// job or 100 of the group are open; [`UnknownJob`](CronErrorKind::UnknownJob) for a job
    /// defined in code that this node has not registered; and otherwise the errors of
    /// [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. Repeating it may
    /// start a second backfill.
    pub async fn backfill<T: Into<UtcTime>>(
        &self,
        job: &str,
        range: Range<T>,
        limit: u32,
    ) -> Result<Uuid, CronError> {
        let (from, to) = (whole_millis(range.start), whole_millis(range.end));
        if limit > MAX_BACKFILL_INSTANTS {
            let about =
                format!("a backfill can have at most {MAX_BACKFILL_INSTANTS} runs: use a lower limit");
            return Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
        }
        let name = LockName::new(job)?;
        let schedule = self
            .effective_schedule(
                &name,
                "and `backfill` needs its schedule: check the name, or register the job",
            )
            .await?;
        let (text, dst) = kind::write_schedule(&name, &schedule)?;
        let after = from - Duration::from_millis(1);
        let now = self.shared.node.ledger.now();
        let (mut count, mut ends) = (0, None);
        let instants = schedule.after(after).take_while(|at| *at < to && *at <= now);
        for at in instants.take(MAX_BACKFILL_INSTANTS as usize + 1) {
            (count, ends) = (count + 1, Some((ends.map_or(at, |(first, _)| first), at)));
        }
        let Some((first, last)) = ends else {
            let about =
                format!("`{job}` has no past scheduled times between {from} and {to}: use another range");
            return Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
        };
        if count > limit {
            let more = if count > MAX_BACKFILL_INSTANTS { "at least " } else { "" };
            let about = format!("{more}{count} runs of `{job}`, but the limit is {limit}");
            return Err(CronError::new(CronErrorKind::RangeTooLong).about(about));
        }
        let id = *lock_core::backend::ProcessId::random().as_uuid();
        let request = BackfillRequest { id, first, last, count, schedule: text, dst };
        self.command(job, JobCommand::Backfill(request)).await?;
        Ok(id)
    }

    /// Returns the group's unfinished backfills, oldest first.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// for backfill in cron.backfills().await? {
    ///     println!("{}: {} of {} started", backfill.job, backfill.done, backfill.count);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::Store`] if a request to the store fails.
    ///
    /// # Cancel safety
    /// This method is cancel safe. It changes nothing.
    pub async fn backfills(&self) -> Result<Vec<Backfill>, CronError> {
        match self.shared.node.ledger.controls(NO_REVISION).await? {
            FleetControls::Changed { backfills, .. } => Ok(backfills),
            _ => Ok(Vec::new()),
        }
    }

    /// Cancels the remaining runs of a backfill. An open run continues; use
    /// [`cancel_run`](Self::cancel_run) to end it. Returns `false` if no runs were left.
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// for backfill in cron.backfills().await? {
    ///     cron.cancel_backfill(backfill.id).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn cancel_backfill(&self, id: Uuid) -> Result<bool, CronError> {
        let backfills = self.backfills().await?;
        let Some(backfill) = backfills.iter().find(|backfill| backfill.id == id) else { return Ok(false) };
        self.withdraw_backfill(backfill.job.as_str(), id).await
    }

    /// Cancels the remaining runs of one of the job's backfills.
    pub(crate) async fn withdraw_backfill(&self, job: &str, id: Uuid) -> Result<bool, CronError> {
        let reply = self.command(job, JobCommand::CancelBackfill(id)).await?;
        Ok(matches!(reply, CommandReply::Accepted { .. }))
    }
}
