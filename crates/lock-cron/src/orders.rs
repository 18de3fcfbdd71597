//! Orders for the whole fleet: pauses, schedules, triggers and resets.

use crate::{
    error::{CronError, CronErrorKind},
    options::Scope,
    schedule::Schedule,
    scheduler::{Scheduler, registration},
};
use lock_core::{__private::lock, LockName};
use lock_ledger::{CommandReply, FleetControls, JobCommand, RunId};

impl Scheduler {
    /// Stops the scheduled runs of a job in the whole fleet, until it is [resumed](Self::resume), over restarts as well. It
    /// holds when this returns, on all nodes. Runs under way go on; runs by hand are possible.
    ///
    /// A job that is removed from the program while it is paused is still paused when it returns. A job of each node
    /// ([`Scope::PerNode`]) cannot be paused: it takes no orders of the fleet.
    ///
    /// # Errors
    /// [`CronErrorKind::InvalidName`], [`UnknownJob`](CronErrorKind::UnknownJob), [`Store`](CronErrorKind::Store).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out; it can be repeated.
    pub async fn pause(&self, job: &str) -> Result<(), CronError> {
        self.order(job, JobCommand::Pause).await
    }

    /// Lets the scheduled runs of a job start again, from now on: those that were due meanwhile are not made up.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out; it can be repeated.
    pub async fn resume(&self, job: &str) -> Result<(), CronError> {
        self.order(job, JobCommand::Resume).await
    }

    /// Gives a job another schedule in the whole fleet, over restarts as well, until it is
    /// [restored](Self::restore). An invalid one changes nothing. Its [`DstPolicy`](crate::DstPolicy) is not stored: the
    /// program's stays.
    ///
    /// # Errors
    /// [`CronErrorKind::InvalidSchedule`]; otherwise as [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out; it can be repeated.
    pub async fn replace(&self, job: &str, schedule: &str) -> Result<(), CronError> {
        let schedule = Schedule::cron(schedule)?;
        schedule.for_job(job)?;
        self.order(job, JobCommand::Replace(schedule.to_string())).await
    }

    /// Gives a job the schedule of the program back.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out; it can be repeated.
    pub async fn restore(&self, job: &str) -> Result<(), CronError> {
        self.order(job, JobCommand::Restore).await
    }

    /// Triggers one run of the job. The current leader starts it within a second. The overlap policy applies; the schedule is
    /// not changed. A trigger that waits for longer than [its life](crate::SchedulerBuilder::trigger_life) is skipped as
    /// [expired](crate::observer::SkipReason::Expired). Returns the id of the run, by which the history has it.
    ///
    /// # Errors
    /// As [`pause`](Self::pause), and [`CronErrorKind::TooManyTriggers`] if 100 triggers of the job wait, or 1000 of the group.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out; repeated, it may trigger a second run.
    pub async fn trigger_now(&self, job: &str) -> Result<RunId, CronError> {
        let id = *lock_core::backend::ProcessId::random().as_uuid();
        self.order(job, JobCommand::Trigger { id, life: self.inner.node.terms.trigger_life }).await?;
        Ok(RunId::Triggered(id))
    }

    /// Withdraws a trigger, and returns whether it was still waiting. A run that has started goes on.
    ///
    /// # Errors
    /// [`CronErrorKind::Store`].
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out; it can be repeated.
    pub async fn cancel_trigger(&self, run: RunId) -> Result<bool, CronError> {
        let store = &self.inner.node.store;
        let RunId::Triggered(id) = run else { return Ok(false) };
        let asked = store.ask(store.ledger().controls(store.group.clone(), u64::MAX)).await?.outcome;
        let FleetControls::Changed { triggers, .. } = asked else { return Ok(false) };
        let Some(trigger) = triggers.into_iter().find(|trigger| trigger.id == id) else { return Ok(false) };
        let order = store.ledger().command(store.job(&trigger.job), JobCommand::CancelTrigger(id));
        let answer = store.ask(order).await?.outcome;
        self.inner.nudge.notify_one();
        Ok(matches!(answer, CommandReply::Accepted { .. }))
    }

    /// Sets the watermark of a job to the server's now, also if that lowers it. It ends the silence after the server's clock was
    /// ahead ([`CronEvent::WatermarkAhead`](crate::observer::CronEvent::WatermarkAhead)): instants after now start again, also those that the clock had
    /// run ahead of time.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out; it can be repeated.
    pub async fn reset(&self, job: &str) -> Result<(), CronError> {
        self.order(job, JobCommand::Reset).await
    }

    async fn order(&self, job: &str, order: JobCommand) -> Result<(), CronError> {
        let store = &self.inner.node.store;
        let name = LockName::new(job)?;
        let give = || store.ask(store.ledger().command(store.job(&name), order.clone()));
        let mut answer = give().await?.outcome;
        let known = lock(&self.inner.jobs).get(&name).filter(|job| job.terms.scope == Scope::Fleet).cloned();
        // No leader has made it known yet.
        if let (CommandReply::Unregistered, Some(job)) = (answer, known) {
            let jobs = vec![registration(&job, None)];
            store.ask(store.ledger().register(store.group.clone(), jobs)).await?;
            answer = give().await?.outcome;
        }
        self.inner.nudge.notify_one();
        match answer {
            CommandReply::Unregistered => {
                let about =
                    format!("no node of this group registered `{job}`: register it on some node first");
                Err(CronError::new(CronErrorKind::UnknownJob).about(about))
            }
            CommandReply::Full => Err(CronError::new(CronErrorKind::TooManyTriggers)),
            _ => Ok(()),
        }
    }
}
