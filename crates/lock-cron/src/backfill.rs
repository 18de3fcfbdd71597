//! Backfills: runs of past instants, on request.

use crate::{
    error::{CronError, CronErrorKind},
    kind,
    ledger_client::NO_REVISION,
    scheduler::Scheduler,
    time::{UtcTime, whole_millis},
};
use lock_core::LockName;
use lock_ledger::{Backfill, BackfillRequest, CommandReply, FleetControls, JobCommand};
use std::{ops::Range, time::Duration};
use uuid::Uuid;

/// The maximum number of instants of a backfill.
pub const MAX_BACKFILL_INSTANTS: u32 = 10_000;

impl Scheduler {
    /// Runs the past instants of a job's schedule in a time range. The start of the range is inclusive, its end
    /// exclusive; fractions of a millisecond are dropped. Future instants are left out. Returns the id of the backfill.
    ///
    /// The leader runs them one at a time, the oldest first, under identities of their own,
    /// `backfill:<uuid>:<instant>`. So an instant that has already run runs again. In its body,
    /// [`RunContext::is_backfill`](crate::RunContext::is_backfill) is `true`, and
    /// [`scheduled_at`](crate::RunContext::scheduled_at) is the instant. The backfill uses the schedule that applies
    /// now; later changes to the schedule do not affect it. Its progress is stored, so it survives changes of the
    /// leader and restarts of the whole fleet.
    ///
    /// - A run of a backfill waits while other runs of the job are open or waiting. With
    ///   [`Overlap::Allow`](crate::Overlap::Allow), open runs delay it only once they reach the limit. While it is
    ///   open, scheduled runs follow the overlap policy: with [`Overlap::Skip`](crate::Overlap::Skip) they are skipped,
    ///   and with [`CancelPrevious`](crate::Overlap::CancelPrevious) they end it.
    /// - Retries and the orphan policy apply as to every other run. If a run fails for good, the next one still starts.
    /// - While the job is paused, the backfill waits.
    /// - Nodes of an earlier version ignore backfills, which then wait for a leader of this version.
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
    /// [`CronErrorKind::RangeTooLong`] if the range has more than `limit` instants;
    /// [`InvalidOptions`](CronErrorKind::InvalidOptions) if it has none, or if `limit` exceeds 10,000;
    /// [`TooManyBackfills`](CronErrorKind::TooManyBackfills) if 4 of the job or 100 of the group are open;
    /// [`UnknownJob`](CronErrorKind::UnknownJob) for a job in code that this node has not registered. Otherwise as
    /// [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been applied; if repeated, it may start a second backfill.
    pub async fn backfill<T: Into<UtcTime>>(
        &self,
        job: &str,
        range: Range<T>,
        limit: u32,
    ) -> Result<Uuid, CronError> {
        let (from, to) = (whole_millis(range.start), whole_millis(range.end));
        if limit > MAX_BACKFILL_INSTANTS {
            let about = format!("a backfill has at most {MAX_BACKFILL_INSTANTS} instants: use a lower limit");
            return Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
        }
        let name = LockName::new(job)?;
        let schedule = self.effective_schedule(&name, "which `backfill` needs").await?;
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
                format!("no past instant of `{job}` is in the range from {from} to {to}: use another range");
            return Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
        };
        if count > limit {
            let more = if count > MAX_BACKFILL_INSTANTS { "at least " } else { "" };
            let about = format!("{more}{count} instants of `{job}`, but the limit is {limit}");
            return Err(CronError::new(CronErrorKind::RangeTooLong).about(about));
        }
        let id = *lock_core::backend::ProcessId::random().as_uuid();
        let request = BackfillRequest { id, first, last, count, schedule: text, dst };
        self.command(job, JobCommand::Backfill(request)).await?;
        Ok(id)
    }

    /// Returns the backfills of the group that have instants left, oldest first.
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
    /// [`CronErrorKind::Store`].
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn backfills(&self) -> Result<Vec<Backfill>, CronError> {
        match self.shared.node.ledger.controls(NO_REVISION).await? {
            FleetControls::Changed { backfills, .. } => Ok(backfills),
            _ => Ok(Vec::new()),
        }
    }

    /// Withdraws the instants of a backfill that have not been started. An open run continues; use
    /// [`cancel_run`](Self::cancel_run) to end it. Returns `false` if no instants were left.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been applied; it can be repeated.
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

    /// Withdraws the instants of a backfill of this job.
    pub(crate) async fn withdraw_backfill(&self, job: &str, id: Uuid) -> Result<bool, CronError> {
        let reply = self.command(job, JobCommand::CancelBackfill(id)).await?;
        Ok(matches!(reply, CommandReply::Accepted { .. }))
    }
}
