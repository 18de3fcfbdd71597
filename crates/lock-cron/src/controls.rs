//! Commands for the whole fleet: pauses, schedules, triggers and resets.

use crate::{
    error::{CronError, CronErrorKind},
    kind,
    ledger_client::NO_REVISION,
    payload,
    schedule::Schedule,
    scheduler::Scheduler,
};
use lock_core::{__private::lock, LockName};
use lock_ledger::{CommandReply, FleetControls, JobCommand, PauseNote, RunId};
use serde::Serialize;

/// The maximum length of a note's author, and of its text, in bytes.
const MAX_NOTE_BYTES: usize = 1000;

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
        kind::check_upcoming(&name, &schedule, self.shared.node.ledger.now())?;
        let (schedule, _) = kind::write_schedule(&name, &schedule)?;
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
        self.trigger_run(job, Some(payload::encode(payload)?)).await
    }

    async fn trigger_run(&self, job: &str, payload: Option<String>) -> Result<RunId, CronError> {
        let id = *lock_core::backend::ProcessId::random().as_uuid();
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
