//! A group's controls: pauses, schedules and triggers.

use super::state::{GroupLedger, Job, JobKind};
use crate::{
    control::{CommandReply, FleetControls, JobCommand, JobControls, PauseNote, Trigger},
    ids::RunId,
    limits::{MAX_TRIGGER_PAYLOADS, MAX_TRIGGERS, MAX_TRIGGERS_PER_JOB},
};
use lock_core::{__private::expiry, LockName, clock::UtcTime};

impl GroupLedger {
    /// Executes a command. Scheduled times missed under the previous controls stay missed. For
    /// example, a job that was paused for a week does not run for that week.
    pub fn command(&mut self, now: UtcTime, name: &LockName, command: &JobCommand) -> CommandReply {
        if let JobCommand::Reinstate(controls) = command {
            return self.reinstate(now, name, controls);
        }
        // The open runs of a removed instance continue, so they can be cancelled.
        let is_cancel = matches!(command, JobCommand::Cancel { .. });
        let Some(job) = self.jobs.get_mut(name).filter(|job| is_cancel || job.kind != JobKind::Removed)
        else {
            return CommandReply::Unregistered;
        };
        let mut next = job.controls.clone();
        match command {
            JobCommand::Pause(note) => (next.paused, next.note) = (true, note.clone()),
            JobCommand::Resume => (next.paused, next.note) = (false, PauseNote::default()),
            JobCommand::Replace(schedule) => next.schedule = Some(schedule.clone()),
            JobCommand::Restore => next.schedule = None,
            JobCommand::Reset => job.reset(now),
            JobCommand::Reinstate(_) => {}
            JobCommand::Trigger { id, life, payload } => {
                let until = UtcTime::from_millis(expiry(now, *life));
                let payload = payload.clone().filter(|payload| !payload.is_empty());
                return self.trigger(now, Trigger { given: now, until, id: *id, job: name.clone() }, payload);
            }
            JobCommand::Cancel { run } => {
                let Some(marked) = job.cancel(*run) else { return CommandReply::Gone };
                let revision = if marked { self.raise_revision(now) } else { self.revision };
                return CommandReply::Accepted { revision };
            }
            JobCommand::Backfill(request) => return self.backfill(now, name, request),
            JobCommand::CancelBackfill(id) => return self.cancel_backfill(now, name, *id),
            JobCommand::CancelTrigger(id) => {
                return self.cancel_trigger(now, |trigger| trigger.id == *id && trigger.job == *name);
            }
        }
        let changes = next != job.controls;
        // A job's first command is recorded even if it changes nothing, since it overrides controls
        // from before a data loss.
        if changes || *command == JobCommand::Reset || job.controls.revision == 0 {
            // A job that runs once keeps its watermark, so that its only scheduled time is late and
            // not missed.
            if changes && !matches!(command, JobCommand::Pause(_) | JobCommand::Reset) && job.once.is_none() {
                job.raise_watermark(now.as_millis());
            }
            self.set(now, name, next);
        }
        CommandReply::Accepted { revision: self.revision }
    }

    fn set(&mut self, now: UtcTime, name: &LockName, next: JobControls) {
        let revision = self.raise_revision(now);
        if let Some(job) = self.jobs.get_mut(name) {
            job.controls = JobControls { revision, ..next };
        }
    }

    /// Restores controls from before a data loss, unless the job's controls are newer.
    fn reinstate(&mut self, now: UtcTime, name: &LockName, before: &JobControls) -> CommandReply {
        if self.jobs.get(name).is_some_and(|job| job.kind == JobKind::Removed) {
            return CommandReply::Unregistered;
        }
        self.create(now);
        let new = || Job { watermark_ms: now.as_millis(), ..Job::default() };
        let job = self.jobs.entry(name.clone()).or_insert_with(new);
        if before.revision > job.controls.revision {
            job.controls = before.clone();
            // The clock may have been ahead. Later commands must get a higher revision.
            self.revision = self.revision.max(before.revision);
            self.raise_revision(now);
        }
        CommandReply::Accepted { revision: self.revision }
    }

    fn trigger(&mut self, now: UtcTime, new: Trigger, payload: Option<String>) -> CommandReply {
        let waits = self.triggers.iter().any(|trigger| trigger.id == new.id);
        // Accepts a command that was delivered again after its trigger ran.
        let run = RunId::Triggered(new.id);
        let known = |job: &Job| job.open.contains_key(&run) || job.remembers(run, None);
        if waits || self.jobs.get(&new.job).is_some_and(known) {
            return CommandReply::Accepted { revision: self.revision };
        }
        self.withdraw_triggers(|trigger| trigger.job == new.job && now > trigger.until);
        let alive: Vec<_> = self.triggers.iter().filter(|trigger| now <= trigger.until).collect();
        let of_job = alive.iter().filter(|trigger| trigger.job == new.job);
        let with_payload = alive.iter().filter(|trigger| self.payloads.contains_key(&key_of(trigger)));
        if alive.len() >= MAX_TRIGGERS
            || of_job.count() >= MAX_TRIGGERS_PER_JOB
            || payload.is_some() && with_payload.count() >= MAX_TRIGGER_PAYLOADS
        {
            return CommandReply::Full;
        }
        self.payloads.extend(payload.map(|payload| (key_of(&new), payload)));
        self.triggers.push(new);
        self.triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    fn cancel_trigger(&mut self, now: UtcTime, which: impl Fn(&Trigger) -> bool) -> CommandReply {
        if !self.withdraw_triggers(which) {
            return CommandReply::Gone;
        }
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    /// Removes matching triggers and their payloads. Returns `false` if there were none.
    pub(super) fn withdraw_triggers(&mut self, which: impl Fn(&Trigger) -> bool) -> bool {
        let withdrawn: Vec<_> = self.triggers.extract_if(.., |trigger| which(trigger)).collect();
        for trigger in &withdrawn {
            self.payloads.remove(&key_of(trigger));
        }
        !withdrawn.is_empty()
    }

    /// Reads the controls unless their revision is `known`.
    #[must_use]
    pub fn controls(&self, known: u64) -> FleetControls {
        if known == self.revision {
            return FleetControls::Unchanged;
        }
        let mut backfills: Vec<_> = self.backfills.values().cloned().collect();
        backfills.sort_by_key(|backfill| (backfill.given, backfill.id));
        let set = self.jobs.iter().filter(|(_, job)| job.controls.revision > 0);
        FleetControls::Changed {
            revision: self.revision,
            created: self.created,
            jobs: set.map(|(name, job)| (name.clone(), job.controls.clone())).collect(),
            triggers: self.triggers.clone(),
            backfills,
            declined: self.declined,
        }
    }
}

/// Returns the key under which a trigger's payload is stored.
fn key_of(trigger: &Trigger) -> (LockName, RunId) {
    (trigger.job.clone(), RunId::Triggered(trigger.id))
}

impl Job {
    /// Marks one or all open runs as cancelled. Returns `None` if there are none, and
    /// `false` if all of them were already marked.
    fn cancel(&mut self, run: Option<RunId>) -> Option<bool> {
        let asked = self.open.iter_mut().filter(|(id, _)| run.is_none_or(|run| run == **id));
        let marked = asked.map(|(_, open)| !std::mem::replace(&mut open.cancelled, true));
        marked.reduce(|one, other| one | other)
    }

    /// Lowers future times that were written while the clock was ahead.
    fn reset(&mut self, now: UtcTime) {
        let now_ms = now.as_millis();
        // The only scheduled time of a job that runs once must not become decided.
        self.watermark_ms = self.once.map_or(now_ms, |_| self.watermark_ms.min(now_ms));
        for since in self.since.values_mut() {
            since.from_ms = since.from_ms.min(now_ms);
        }
        for open in self.open.values_mut() {
            open.expires_ms = open.expires_ms.min(expiry(now, open.lease));
        }
    }
}
