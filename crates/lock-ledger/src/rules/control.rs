//! The controls of a group: pauses, schedules and triggers.

use super::state::{GroupLedger, Job, JobKind};
use crate::{
    control::{CommandReply, FleetControls, JobCommand, JobControls, PauseNote, Trigger},
    ids::RunId,
    limits::{MAX_TRIGGERS, MAX_TRIGGERS_PER_JOB},
};
use lock_core::{__private::expiry, LockName, clock::ServerTime};

impl GroupLedger {
    /// Carries out a command. Instants that were missed under the previous controls stay missed: a job that was
    /// paused for a week does not start with the runs of that week.
    pub fn command(&mut self, now: ServerTime, name: &LockName, command: &JobCommand) -> CommandReply {
        if let JobCommand::Reinstate(controls) = command {
            return self.reinstate(now, name, controls);
        }
        let Some(job) = self.jobs.get_mut(name).filter(|job| job.kind != JobKind::Removed) else {
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
            JobCommand::Trigger { id, life } => {
                let until = ServerTime::from_millis(expiry(now, *life));
                return self.trigger(now, Trigger { given: now, until, id: *id, job: name.clone() });
            }
            JobCommand::CancelTrigger(id) => {
                return self.cancel(now, |trigger| trigger.id == *id && trigger.job == *name);
            }
        }
        let changes = next != job.controls;
        // The first command of a job is recorded even if it changes nothing: it outweighs controls from before a loss.
        if changes || *command == JobCommand::Reset || job.controls.revision == 0 {
            // The only instant of a job that runs once is late then, not missed.
            if changes && !matches!(command, JobCommand::Pause(_) | JobCommand::Reset) && job.once.is_none() {
                job.raise_watermark(now.as_millis());
            }
            self.set(now, name, next);
        }
        CommandReply::Accepted { revision: self.revision }
    }

    fn set(&mut self, now: ServerTime, name: &LockName, next: JobControls) {
        let revision = self.raise_revision(now);
        if let Some(job) = self.jobs.get_mut(name) {
            job.controls = JobControls { revision, ..next };
        }
    }

    /// Sets controls from before a loss of data, unless those of the job are newer.
    fn reinstate(&mut self, now: ServerTime, name: &LockName, before: &JobControls) -> CommandReply {
        if self.jobs.get(name).is_some_and(|job| job.kind == JobKind::Removed) {
            return CommandReply::Unregistered;
        }
        self.create(now);
        let new = || Job { watermark_ms: now.as_millis(), ..Job::default() };
        let job = self.jobs.entry(name.clone()).or_insert_with(new);
        if before.revision > job.controls.revision {
            job.controls = before.clone();
            self.raise_revision(now);
        }
        CommandReply::Accepted { revision: self.revision }
    }

    fn trigger(&mut self, now: ServerTime, new: Trigger) -> CommandReply {
        let waits = self.triggers.iter().any(|trigger| trigger.id == new.id);
        // The command was delivered twice, far apart, and its trigger ran in between.
        let run = RunId::Triggered(new.id);
        let known = |job: &Job| job.open.contains_key(&run) || job.remembers(run, None);
        if waits || self.jobs.get(&new.job).is_some_and(known) {
            return CommandReply::Accepted { revision: self.revision };
        }
        self.triggers.retain(|trigger| trigger.job != new.job || now <= trigger.until);
        let alive = self.triggers.iter().filter(|trigger| now <= trigger.until);
        let of_job = self.triggers.iter().filter(|trigger| trigger.job == new.job);
        if alive.count() >= MAX_TRIGGERS || of_job.count() >= MAX_TRIGGERS_PER_JOB {
            return CommandReply::Full;
        }
        self.triggers.push(new);
        self.triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    fn cancel(&mut self, now: ServerTime, which: impl Fn(&Trigger) -> bool) -> CommandReply {
        let before = self.triggers.len();
        self.triggers.retain(|trigger| !which(trigger));
        if self.triggers.len() == before {
            return CommandReply::Gone;
        }
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    /// Reads the controls unless their revision is `known`.
    #[must_use]
    pub fn controls(&self, known: u64) -> FleetControls {
        if known == self.revision {
            return FleetControls::Unchanged;
        }
        let set = self.jobs.iter().filter(|(_, job)| job.controls.revision > 0);
        FleetControls::Changed {
            revision: self.revision,
            created: self.created,
            jobs: set.map(|(name, job)| (name.clone(), job.controls.clone())).collect(),
            triggers: self.triggers.clone(),
        }
    }
}

impl Job {
    /// Takes back times in the future, which a clock that was ahead has written.
    fn reset(&mut self, now: ServerTime) {
        let now_ms = now.as_millis();
        self.watermark_ms = now_ms;
        for since in self.since.values_mut() {
            since.from_ms = since.from_ms.min(now_ms);
        }
        for open in self.open.values_mut() {
            open.expires_ms = open.expires_ms.min(expiry(now, open.lease));
        }
    }
}
