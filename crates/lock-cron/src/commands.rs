//! Commands for the whole fleet: pauses, schedules, triggers, cancellations, resets and backfills of jobs; and the
//! instances of kinds, which any node can add, change, remove and forget.

use crate::{
    context::encode_payload,
    description::write_schedule,
    error::{CronError, CronErrorKind},
    job::instance_name,
    ledger_client::NO_REVISION,
    schedule::{Schedule, ScheduleError, times::whole_millis},
    scheduler::Scheduler,
};
use lock_core::{__private::lock, LockName, backend::ProcessId, clock::UtcTime};
use lock_ledger::{
    AddReply, AddRequest, BackfillRequest, CommandReply, Definition, FleetControls, JobCommand, Once,
    PauseNote, Removal, RemoveReply, RunId,
};
use serde::Serialize;
use std::{ops::Range, time::Duration};
use uuid::Uuid;

/// The maximum length of a note's author, and of its text, in bytes.
const MAX_NOTE_BYTES: usize = 1000;

/// The maximum number of scheduled times in a backfill.
pub const MAX_BACKFILL_INSTANTS: u32 = 10_000;

/// The time for which the id of a run added by [`Scheduler::once`] is kept after the run.
const ID_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The effect of [`Scheduler::add`] and [`Scheduler::once`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddOutcome {
    /// The instance is new.
    Added,
    /// The instance's schedule or payload was changed.
    Changed,
    /// The instance already has this schedule and this payload.
    Unchanged,
    /// The run with this id was started or skipped within the last 24 hours. Only returned by
    /// [`Scheduler::once`].
    AlreadyRun,
}

/// The result of one request to add an instance.
enum Defined {
    Now(AddOutcome),
    /// Nothing was changed: the only scheduled time is at or before this watermark of the name.
    Decided(UtcTime),
}

impl Scheduler {
    /// Stops the scheduled runs of a job in the whole fleet until it is [resumed](Self::resume), even across restarts.
    /// The pause is effective on all nodes when this method returns. Running bodies continue, and the job can still be
    /// triggered.
    ///
    /// If a paused job is removed from the program and added again, it is still paused. If the
    /// store loses its data, running nodes that have read the pause restore it before they start a
    /// run of the job.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// cron.pause("invoices").await?;
    /// assert!(cron.list().await?[0].paused);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`] for an invalid job name, [`UnknownJob`](CronErrorKind::UnknownJob) if no
    /// node has registered the job, or [`Store`](CronErrorKind::Store) if a request to the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn pause(&self, job: &str) -> Result<(), CronError> {
        self.pause_with_note(job, PauseNote::default()).await
    }

    /// Pauses a job like [`pause`](Self::pause), and stores the author and the reason, which
    /// [`list`](Self::list) and the console show until the job is resumed. Pausing a paused job
    /// replaces the note.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// use lock_cron::PauseNote;
    ///
    /// let note = PauseNote { actor: "ada".into(), text: "the bank is closed".into() };
    /// cron.pause_with_note("invoices", note.clone()).await?;
    /// assert_eq!(cron.list().await?[0].note, note);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidOptions`] if the author or the reason is longer than 1,000 bytes, and otherwise
    /// the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn pause_with_note(&self, job: &str, note: PauseNote) -> Result<(), CronError> {
        if note.actor.len().max(note.text.len()) > MAX_NOTE_BYTES {
            let about = format!(
                "the author or reason of the pause is longer than {MAX_NOTE_BYTES} bytes: shorten it"
            );
            return Err(CronError::new(CronErrorKind::InvalidOptions).about(about));
        }
        self.command(job, JobCommand::Pause(note)).await.map(drop)
    }

    /// Resumes the scheduled runs of a job from now on. Runs that were due during the pause are not
    /// caught up.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// cron.pause("invoices").await?;
    /// cron.resume("invoices").await?;
    /// assert!(!cron.list().await?[0].paused);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn resume(&self, job: &str) -> Result<(), CronError> {
        self.command(job, JobCommand::Resume).await.map(drop)
    }

    /// Replaces the schedule of a job in the whole fleet, even across restarts, until it is
    /// [restored](Self::restore). An invalid schedule changes nothing. The new schedule keeps the
    /// [`DstPolicy`](crate::DstPolicy) of the replaced schedule, because only the text is stored.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// cron.replace("invoices", "30 3 * * *").await?;
    /// assert!(cron.list().await?[0].replaced);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidSchedule`] if the schedule is invalid or has no further runs,
    /// and otherwise the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn replace(&self, job: &str, schedule: &str) -> Result<(), CronError> {
        let (name, schedule) = (LockName::new(job)?, Schedule::cron(schedule)?);
        check_upcoming(&name, &schedule, self.shared.node.ledger.now())?;
        let (schedule, _) = write_schedule(&name, &schedule)?;
        self.command(job, JobCommand::Replace(schedule)).await.map(drop)
    }

    /// Restores the schedule set in the program.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// cron.replace("invoices", "30 3 * * *").await?;
    /// cron.restore("invoices").await?;
    /// assert!(!cron.list().await?[0].replaced);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn restore(&self, job: &str) -> Result<(), CronError> {
        self.command(job, JobCommand::Restore).await.map(drop)
    }

    /// Triggers one run of the job. The current leader starts it within a second. The overlap policy applies; the
    /// schedule is not changed. A trigger that waits longer than [its life](crate::SchedulerBuilder::trigger_life) is
    /// skipped as [expired](crate::observer::SkipReason::Expired). Returns the id of the run, which identifies it in
    /// the history.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// let run = cron.trigger("invoices").await?;
    /// println!("triggered as {run}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause), and [`CronErrorKind::TooManyTriggers`] if 100 triggers of the job
    /// or 1,000 of the group are waiting.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. Repeating it may
    /// trigger a second run.
    pub async fn trigger(&self, job: &str) -> Result<RunId, CronError> {
        self.trigger_run(job, None).await
    }

    /// Triggers one run of the job like [`trigger`](Self::trigger), with a payload, which the body
    /// reads with [`RunContext::payload`](crate::RunContext::payload). For an instance, the payload
    /// replaces the instance's payload in this run. Every attempt of the run receives it, on any
    /// node.
    ///
    /// A payload is JSON of at most 64 KiB. At most 256 pending triggers of a group may have a
    /// payload, which limits the stored payloads to 16 MiB. Nodes with an earlier version run the
    /// job without the payload: upgrade all nodes first.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// cron.job("invoices", Schedule::cron("0 2 * * *")?, |run: RunContext| async move {
    ///     match run.payload::<Option<u32>>()? {
    ///         Some(customer) => println!("invoices of customer {customer}"),
    ///         None => println!("all invoices"), // a scheduled run
    ///     }
    ///     Ok(())
    /// })
    /// .register()?;
    /// cron.trigger_with("invoices", &7).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`trigger`](Self::trigger). Also returns
    /// [`TooManyTriggers`](CronErrorKind::TooManyTriggers) if 256 triggers of the group are waiting with a payload, and
    /// [`InvalidPayload`](CronErrorKind::InvalidPayload) if the payload cannot be encoded as JSON or is larger than 64
    /// KiB.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. Repeating it may
    /// trigger a second run.
    pub async fn trigger_with(&self, job: &str, payload: &impl Serialize) -> Result<RunId, CronError> {
        self.trigger_run(job, Some(encode_payload(payload)?)).await
    }

    async fn trigger_run(&self, job: &str, payload: Option<String>) -> Result<RunId, CronError> {
        let id = *ProcessId::random().as_uuid();
        let life = self.shared.node.terms.trigger_life;
        self.command(job, JobCommand::Trigger { id, life, payload }).await?;
        Ok(RunId::Triggered(id))
    }

    /// Cancels a trigger. Returns `true` if it was still waiting. A run that has started continues.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// let run = cron.trigger("invoices").await?;
    /// assert!(cron.cancel_trigger(run).await?, "no leader has started it yet");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::Store`] if a request to the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn cancel_trigger(&self, run: RunId) -> Result<bool, CronError> {
        let ledger = &self.shared.node.ledger;
        let RunId::Triggered(id) = run else { return Ok(false) };
        let FleetControls::Changed { triggers, .. } = ledger.controls(NO_REVISION).await? else {
            return Ok(false);
        };
        let Some(trigger) = triggers.into_iter().find(|trigger| trigger.id == id) else { return Ok(false) };
        let reply = ledger.command(&trigger.job, JobCommand::CancelTrigger(id)).await?;
        self.shared.wake.notify_one();
        Ok(matches!(reply, CommandReply::Accepted { .. }))
    }

    /// Sets a job's watermark to the server's current time, even if that lowers it. Use this if a
    /// job no longer runs because the server's clock had been ahead
    /// ([`WatermarkAhead`](crate::observer::CronEvent::WatermarkAhead)). Runs scheduled from now on
    /// will start, even those that already ran early. A late run of [`once`](Self::once) still
    /// starts.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// cron.reset("invoices").await?;
    /// assert!(cron.list().await?[0].ahead_by.is_zero());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn reset(&self, job: &str) -> Result<(), CronError> {
        self.command(job, JobCommand::Reset).await.map(drop)
    }

    /// Cancels all open runs of a job, on any node. Returns `false` if there were none.
    ///
    /// Within about a second, [`RunContext::cancelled`](crate::RunContext::cancelled) completes in
    /// their bodies, which are dropped after the [cancel grace](crate::JobBuilder::cancel_grace).
    /// Such an attempt has the outcome [`Cancelled`](crate::RunOutcome::Cancelled), unless the body
    /// succeeds within the grace. No further attempt follows, not even a retry that is already
    /// waiting or that would follow the node's death. A node whose heartbeats fail learns of the
    /// cancellation when it next renews the run's lease. Renewals are a third of the [run
    /// lease](crate::SchedulerBuilder::run_lease) apart.
    ///
    /// Later runs are not affected: [`pause`](Self::pause) stops the schedule, and
    /// [`cancel_trigger`](Self::cancel_trigger) withdraws a trigger that has not started.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// assert!(!cron.cancel("invoices").await?, "nothing runs");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn cancel(&self, job: &str) -> Result<bool, CronError> {
        self.cancel_runs(job, None).await
    }

    /// Cancels one open run of a job, like [`cancel`](Self::cancel) does for all of them.
    /// [`list`](Self::list) returns the ids of the open runs. Returns `false` if the run was not
    /// open.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// for job in cron.list().await? {
    ///     for open in job.open {
    ///         cron.cancel_run("invoices", open.run).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn cancel_run(&self, job: &str, run: RunId) -> Result<bool, CronError> {
        self.cancel_runs(job, Some(run)).await
    }

    async fn cancel_runs(&self, job: &str, run: Option<RunId>) -> Result<bool, CronError> {
        let reply = self.command(job, JobCommand::Cancel { run }).await?;
        Ok(matches!(reply, CommandReply::Accepted { .. }))
    }

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
        let (text, dst) = write_schedule(&name, &schedule)?;
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
        let id = *ProcessId::random().as_uuid();
        let request = BackfillRequest { id, first, last, count, schedule: text, dst };
        self.command(job, JobCommand::Backfill(request)).await?;
        Ok(id)
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

    /// Adds an instance of a [kind](Self::kind), or changes its schedule and payload. Its job name
    /// is `kind/id`, which is used to pause it, trigger it and read its history.
    ///
    /// The instance is stored, so it survives restarts. Any node can add it. Within two seconds,
    /// all nodes that registered the kind take part in running it. While no live node has
    /// registered the kind, nothing runs and the instance is [unowned](crate::JobInfo::unowned).
    ///
    /// A new instance, or one with a changed schedule, starts from now and never runs for scheduled
    /// times that have already passed. If only the payload changes, missed runs are still caught up. An open run
    /// keeps its payload. If its node dies, the next attempt gets the new payload. If two nodes add
    /// different definitions at the same time, the later request wins.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_cron::{AddOutcome, MemoryLedger, Schedule, Scheduler};
    /// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
    /// # let cron = Scheduler::builder(locks, MemoryLedger::new()).build()?;
    /// let every_quarter = Schedule::cron("H/15 * * * *")?;
    /// assert_eq!(cron.add("import", "tenant-7", every_quarter.clone(), &7).await?, AddOutcome::Added);
    /// assert_eq!(cron.add("import", "tenant-7", every_quarter, &7).await?, AddOutcome::Unchanged);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`]; [`InvalidSchedule`](CronErrorKind::InvalidSchedule)
    /// for a schedule that has no further runs, for one with `H` that matches no date with this name,
    /// and for one whose text with its time zone is longer than
    /// [`MAX_TEXT_BYTES`](crate::schedule::MAX_TEXT_BYTES);
    /// [`InvalidPayload`](CronErrorKind::InvalidPayload) if the payload cannot be encoded as JSON
    /// or is larger than 64 KiB; [`DuplicateJob`](CronErrorKind::DuplicateJob) if the name belongs
    /// to a run added by [`once`](Self::once);
    /// [`TooManyInstances`](CronErrorKind::TooManyInstances) beyond 10,000 in the group;
    /// [`PayloadsTooLarge`](CronErrorKind::PayloadsTooLarge) beyond 128 MiB for all payloads of the
    /// group's instances;
    /// [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn add(
        &self,
        kind: &str,
        id: &str,
        schedule: Schedule,
        payload: &impl Serialize,
    ) -> Result<AddOutcome, CronError> {
        let name = instance_name(kind, id)?;
        check_upcoming(&name, &schedule, self.shared.node.ledger.now())?;
        match self.define(&name, &schedule, encode_payload(payload)?, None).await? {
            Defined::Now(AddOutcome::AlreadyRun) | Defined::Decided(_) => {
                let about =
                    format!("`{kind}/{id}` was added with `once`: call `forget` first, or use another id");
                Err(CronError::new(CronErrorKind::DuplicateJob).about(about))
            }
            Defined::Now(outcome) => Ok(outcome),
        }
    }

    /// Runs a [kind](Self::kind) once at the given time, or immediately if the time has passed. The job name is
    /// `kind/id`. The id is kept for 24 hours after the run and then removed with its history. Until then, a repeated
    /// request runs nothing. If the name had an instance with a schedule before, the run has the first free time after
    /// the last one of that. Before the run, another time or payload replaces the previous one, and
    /// [`remove`](Self::remove) withdraws the run.
    ///
    /// While the job is paused, the run waits. After an outage, the run counts as late within the kind's
    /// [grace](crate::JobBuilder::grace), which is 24 hours unless it is set. After that, the
    /// [misfire policy](crate::JobBuilder::misfire) applies.
    ///
    /// # Errors
    /// Returns the errors of [`add`](Self::add), except that
    /// [`InvalidSchedule`](CronErrorKind::InvalidSchedule) means a time after 9999-12-30T22:00:00Z.
    /// Returns the outcome [`AlreadyRun`](AddOutcome::AlreadyRun) instead of
    /// [`DuplicateJob`](CronErrorKind::DuplicateJob).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_cron::{AddOutcome, MemoryLedger, Scheduler};
    /// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
    /// # let cron = Scheduler::builder(locks, MemoryLedger::new()).build()?;
    /// let tomorrow = std::time::SystemTime::now() + std::time::Duration::from_secs(24 * 60 * 60);
    /// assert_eq!(cron.once("welcome", "42", tomorrow, &"ann@example.org").await?, AddOutcome::Added);
    /// # Ok(()) }
    /// ```
    pub async fn once(
        &self,
        kind: &str,
        id: &str,
        at: impl Into<UtcTime>,
        payload: &impl Serialize,
    ) -> Result<AddOutcome, CronError> {
        let (name, payload) = (instance_name(kind, id)?, encode_payload(payload)?);
        // The ledger only handles scheduled times after the epoch.
        let mut at = whole_millis(at).max(UtcTime::from_millis(1));
        loop {
            let once = Some(Once { at, kept: ID_KEPT });
            match self.define(&name, &Schedule::at(at), payload.clone(), once).await? {
                Defined::Now(outcome) => return Ok(outcome),
                // The name had runs before. A run of its own needs a time that none of them can have.
                Defined::Decided(up_to) => at = up_to + Duration::from_millis(1),
            }
        }
    }

    /// Removes an instance. No further run starts; an open run continues. The history, a pause and the watermark are
    /// kept, and apply again if the instance is added again. Returns `false` if there was no such instance.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_cron::{MemoryLedger, Schedule, Scheduler};
    /// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
    /// # let cron = Scheduler::builder(locks, MemoryLedger::new()).build()?;
    /// # cron.add("import", "tenant-7", Schedule::cron("H/15 * * * *")?, &7).await?;
    /// assert!(cron.remove("import", "tenant-7").await?);
    /// assert!(!cron.remove("import", "tenant-7").await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`] or [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn remove(&self, kind: &str, id: &str) -> Result<bool, CronError> {
        self.withdraw(kind, id, Removal::KeepRecord).await
    }

    /// Removes an instance with all its data: history, controls and triggers. The node of an open
    /// run loses the run at its next renewal, and the body is told to stop. Fencing tokens still
    /// increase if the instance is added again. A record with the name is kept for a minute to
    /// notify nodes of the removal. Returns `false` if the store contained no data about the
    /// instance.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_cron::{MemoryLedger, Schedule, Scheduler};
    /// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
    /// # let cron = Scheduler::builder(locks, MemoryLedger::new()).build()?;
    /// # cron.add("import", "tenant-7", Schedule::cron("H/15 * * * *")?, &7).await?;
    /// assert!(cron.forget("import", "tenant-7").await?);
    /// assert!(!cron.forget("import", "tenant-7").await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`remove`](Self::remove).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn forget(&self, kind: &str, id: &str) -> Result<bool, CronError> {
        self.withdraw(kind, id, Removal::Forget).await
    }

    async fn define(
        &self,
        name: &LockName,
        schedule: &Schedule,
        payload: String,
        once: Option<Once>,
    ) -> Result<Defined, CronError> {
        let node = &self.shared.node;
        let (schedule, dst) = write_schedule(name, schedule)?;
        let definition = Definition { schedule, dst, once };
        let (job, added_by) = (node.ledger.job(name), node.name.clone());
        let reply = node.ledger.add(AddRequest { job, definition, payload, added_by }).await?;
        self.shared.wake.notify_one();
        let outcome = match reply {
            AddReply::Added => AddOutcome::Added,
            AddReply::Changed => AddOutcome::Changed,
            AddReply::AlreadyRun => AddOutcome::AlreadyRun,
            AddReply::Decided { up_to } => return Ok(Defined::Decided(up_to)),
            AddReply::Full => {
                return Err(CronError::new(CronErrorKind::TooManyInstances).of_job(name.as_str()));
            }
            AddReply::PayloadsTooLarge => {
                return Err(CronError::new(CronErrorKind::PayloadsTooLarge).of_job(name.as_str()));
            }
            _ => AddOutcome::Unchanged,
        };
        Ok(Defined::Now(outcome))
    }

    async fn withdraw(&self, kind: &str, id: &str, removal: Removal) -> Result<bool, CronError> {
        let name = instance_name(kind, id)?;
        let reply = self.shared.node.ledger.remove(&name, removal).await?;
        self.shared.wake.notify_one();
        Ok(reply == RemoveReply::Removed)
    }

    /// Sends a command. Registers the job first if no leader has done so yet.
    pub(crate) async fn command(&self, job: &str, command: JobCommand) -> Result<CommandReply, CronError> {
        let ledger = &self.shared.node.ledger;
        let name = LockName::new(job)?;
        let known = lock(&self.shared.registry).jobs.get(&name).cloned();
        let full = match command {
            JobCommand::Backfill(_) => CronErrorKind::TooManyBackfills,
            _ => CronErrorKind::TooManyTriggers,
        };
        let mut reply = ledger.command(&name, command.clone()).await?;
        // No leader has registered the job yet.
        if let (CommandReply::Unregistered, Some(job)) = (reply, known) {
            ledger.register(vec![job.registration(None)]).await?;
            reply = ledger.command(&name, command).await?;
        }
        self.shared.wake.notify_one();
        match reply {
            CommandReply::Unregistered => {
                let about =
                    format!("no node of this group has registered `{job}`: register it on a node first");
                Err(CronError::new(CronErrorKind::UnknownJob).about(about))
            }
            CommandReply::Full => Err(CronError::new(full)),
            reply => Ok(reply),
        }
    }
}

/// Returns an error if a schedule has no run of this job after this time.
fn check_upcoming(name: &LockName, schedule: &Schedule, now: UtcTime) -> Result<(), ScheduleError> {
    schedule.clone().for_job(name.as_str())?.check_upcoming(now)
}
