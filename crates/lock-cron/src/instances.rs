//! Instances of kinds, which any node can add, change, remove and forget at run time.

use crate::{
    error::{CronError, CronErrorKind},
    kind, payload,
    schedule::{Schedule, times::whole_millis},
    scheduler::Scheduler,
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{AddReply, AddRequest, Definition, Once, Removal, RemoveReply};
use serde::Serialize;
use std::time::Duration;

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
        let name = kind::instance_name(kind, id)?;
        kind::check_upcoming(&name, &schedule, self.shared.node.ledger.now())?;
        match self.define(&name, &schedule, payload::encode(payload)?, None).await? {
            Defined::Now(AddOutcome::AlreadyRun) | Defined::Decided(_) => {
                let about =
                    format!("`{kind}/{id}` was added with `once`: call `forget` first, or use another id");
                Err(CronError::new(CronErrorKind::DuplicateJob).about(about))
            }
            Defined::Now(outcome) => Ok(outcome),
        }
    }

    /// Runs a [kind](Self::kind) once at the given time, or immediately if the time has passed. The
    /// job name is `kind/id`. The id is kept for 24 hours after the run and then removed with its
    /// history. Until then, a repeated request runs nothing. If the name had an instance with a schedule before, the run
    /// has the first free time after the last one of that. Before the run, another time or
    /// payload replaces the previous one, and [`remove`](Self::remove) withdraws the run.
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
        let (name, payload) = (kind::instance_name(kind, id)?, payload::encode(payload)?);
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

    /// Reads the payload of an instance, as JSON. Returns `None` if there is no such instance.
    /// [`list`](Self::list) does not read payloads, since they can be large.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_cron::{MemoryLedger, Schedule, Scheduler};
    /// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
    /// # let cron = Scheduler::builder(locks, MemoryLedger::new()).build()?;
    /// cron.add("import", "tenant-7", Schedule::cron("H/15 * * * *")?, &7).await?;
    /// assert_eq!(cron.payload("import", "tenant-7").await?.as_deref(), Some("7"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`CronErrorKind::InvalidName`] or [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// This method is cancel safe. It changes nothing.
    pub async fn payload(&self, kind: &str, id: &str) -> Result<Option<String>, CronError> {
        let name = kind::instance_name(kind, id)?;
        Ok(self.shared.node.ledger.instance(&name).await?.map(|detail| detail.payload))
    }

    async fn define(
        &self,
        name: &LockName,
        schedule: &Schedule,
        payload: String,
        once: Option<Once>,
    ) -> Result<Defined, CronError> {
        let node = &self.shared.node;
        let (schedule, dst) = kind::write_schedule(name, schedule)?;
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
        let name = kind::instance_name(kind, id)?;
        let reply = self.shared.node.ledger.remove(&name, removal).await?;
        self.shared.wake.notify_one();
        Ok(reply == RemoveReply::Removed)
    }
}
