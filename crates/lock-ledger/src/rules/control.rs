//! Changes to the jobs of a group by request: commands, triggers, backfills, and instances with their definitions.
//!
//! # Backfills
//! They run a job for past scheduled times, one at a time, in ascending order.
//!
//! ```text
//!            command                  claim of its last time, or withdrawn
//!  nothing ──────────▶ mark < last ─────────────────────────────────────────▶ nothing
//!                         │    ▲
//!                         └────┘ claim: the mark rises to its time
//! ```
//!
//! # Instances
//! Their changes are recorded, and those that run once end with their run.
//!
//! ```text
//!            add                       remove
//!  unknown ───────▶ instance ─────────────────────────▶ removed
//!     ▲             │  ▲  │ runs once, decided,            │ ▲
//!     │             └──┘  │ no run is open                 │ │
//!     │      add: changed ▼                            add │ │ remove
//!     │  expired        kept (a removed one that expires)  ▼ │
//!     └──────────────────┘                             instance
//!  forget: from any of them to unknown
//! ```
//!
//! Invariants:
//! - `add` never lowers an instance's watermark, and raises it to now if the schedule changed;
//! - only claims with the definition's current revision start a run, except for further attempts of
//!   an open run;
//! - each revision of the instances belongs to one recorded change, so the changes since a recorded
//!   revision can be determined.

use super::{GroupLedger, Job, JobKind};
use crate::{
    control::{
        Backfill, BackfillRequest, CommandReply, FleetControls, JobCommand, JobControls, PauseNote, Trigger,
    },
    ids::RunId,
    instance::{
        AddReply, AddRequest, Definition, Instance, InstanceDetail, Instances, InstancesFrom, Removal,
        RemoveReply,
    },
    limits::{
        CHANGE_LIFE, MAX_BACKFILLS, MAX_BACKFILLS_PER_JOB, MAX_CHANGES, MAX_INSTANCE_PAYLOADS, MAX_INSTANCES,
        MAX_INSTANCES_READ, MAX_TRIGGER_PAYLOADS, MAX_TRIGGERS, MAX_TRIGGERS_PER_JOB,
    },
};
use lock_core::{__private::expiry, LockName, clock::UtcTime};
use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};
use uuid::Uuid;

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
                let revision = if marked { self.raise_revision(now) } else { self.head.revision };
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
        CommandReply::Accepted { revision: self.head.revision }
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
            self.head.revision = self.head.revision.max(before.revision);
            self.raise_revision(now);
        }
        CommandReply::Accepted { revision: self.head.revision }
    }

    fn trigger(&mut self, now: UtcTime, new: Trigger, payload: Option<String>) -> CommandReply {
        let waits = self.head.triggers.iter().any(|trigger| trigger.id == new.id);
        // Accepts a command that was delivered again after its trigger ran.
        let run = RunId::Triggered(new.id);
        let known = |job: &Job| job.open.contains_key(&run) || job.remembers(run, None);
        if waits || self.jobs.get(&new.job).is_some_and(known) {
            return CommandReply::Accepted { revision: self.head.revision };
        }
        self.withdraw_triggers(|trigger| trigger.job == new.job && now > trigger.until);
        let alive: Vec<_> = self.head.triggers.iter().filter(|trigger| now <= trigger.until).collect();
        let of_job = alive.iter().filter(|trigger| trigger.job == new.job);
        let with_payload = alive.iter().filter(|trigger| self.payloads.contains_key(&key_of(trigger)));
        if alive.len() >= MAX_TRIGGERS
            || of_job.count() >= MAX_TRIGGERS_PER_JOB
            || payload.is_some() && with_payload.count() >= MAX_TRIGGER_PAYLOADS
        {
            return CommandReply::Full;
        }
        self.payloads.extend(payload.map(|payload| (key_of(&new), payload)));
        self.head.triggers.push(new);
        self.head.triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    fn cancel_trigger(&mut self, now: UtcTime, which: impl Fn(&Trigger) -> bool) -> CommandReply {
        if !self.withdraw_triggers(which) {
            return CommandReply::Gone;
        }
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    /// Removes matching triggers and their payloads. Returns `false` if there were none.
    fn withdraw_triggers(&mut self, which: impl Fn(&Trigger) -> bool) -> bool {
        let withdrawn: Vec<_> = self.head.triggers.extract_if(.., |trigger| which(trigger)).collect();
        for trigger in &withdrawn {
            self.payloads.remove(&key_of(trigger));
        }
        !withdrawn.is_empty()
    }

    /// Reads the controls unless their revision is `known`.
    #[must_use]
    pub fn controls(&self, known: u64) -> FleetControls {
        if known == self.head.revision {
            return FleetControls::Unchanged;
        }
        let mut backfills: Vec<_> = self.head.backfills.values().cloned().collect();
        backfills.sort_by_key(|backfill| (backfill.given, backfill.id));
        let set = self.jobs.iter().filter(|(_, job)| job.controls.revision > 0);
        FleetControls::Changed {
            revision: self.head.revision,
            created: self.head.created,
            jobs: set.map(|(name, job)| (name.clone(), job.controls.clone())).collect(),
            triggers: self.head.triggers.clone(),
            backfills,
            declined: self.head.declined,
        }
    }

    /// Starts a backfill.
    fn backfill(&mut self, now: UtcTime, job: &LockName, r: &BackfillRequest) -> CommandReply {
        // Accepts a command that was delivered again after its runs started.
        let known = |job: &Job| {
            let mut runs = job.open.keys().chain(job.history.iter().map(|entry| &entry.run));
            runs.any(|run| run.backfill() == Some(r.id))
        };
        if self.head.backfills.contains_key(&r.id) || self.jobs.get(job).is_some_and(known) {
            return CommandReply::Accepted { revision: self.head.revision };
        }
        let of_job = self.head.backfills.values().filter(|backfill| backfill.job == *job);
        if self.head.backfills.len() >= MAX_BACKFILLS || of_job.count() >= MAX_BACKFILLS_PER_JOB {
            return CommandReply::Full;
        }
        let backfill = Backfill {
            id: r.id,
            job: job.clone(),
            given: now,
            first: r.first,
            mark: UtcTime::from_millis(r.first.as_millis().saturating_sub(1)),
            last: r.last,
            count: r.count,
            done: 0,
            schedule: r.schedule.clone(),
            dst: r.dst.clone(),
        };
        self.head.backfills.insert(r.id, backfill);
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    /// Withdraws a backfill.
    fn cancel_backfill(&mut self, now: UtcTime, job: &LockName, id: Uuid) -> CommandReply {
        match self.head.backfills.get(&id).filter(|backfill| backfill.job == *job) {
            Some(_) => {
                self.head.backfills.remove(&id);
                CommandReply::Accepted { revision: self.raise_revision(now) }
            }
            None => CommandReply::Gone,
        }
    }

    /// Adds an instance, or changes its definition.
    pub fn add(&mut self, now: UtcTime, r: &AddRequest) -> AddReply {
        let (name, before) = (&r.job.name, self.instances.get(&r.job.name));
        let job = self.jobs.get(name);
        let payload_before = self.payload_of(name);
        if before.is_some_and(|before| before.definition == r.definition) && payload_before == r.payload {
            return AddReply::Unchanged;
        }
        // A repeating instance does not replace one that is waiting for its only run.
        let displaces = |before: &Instance| before.definition.once.is_some() && r.definition.once.is_none();
        if job.is_some_and(Job::has_run_once) || before.is_some_and(displaces) {
            return AddReply::AlreadyRun;
        }
        let watermark_ms = job.map_or(0, |job| job.watermark_ms);
        if r.definition.once.is_some_and(|once| once.at.as_millis() <= watermark_ms) {
            return AddReply::Decided { up_to: UtcTime::from_millis(watermark_ms) };
        }
        if before.is_none() && self.head.instance_count >= MAX_INSTANCES {
            return AddReply::Full;
        }
        // A shorter payload is accepted in any case.
        let bytes = self.payload_bytes_with(name, &r.payload);
        if r.payload.len() > payload_before.len() && bytes > MAX_INSTANCE_PAYLOADS {
            return AddReply::PayloadsTooLarge;
        }
        let same = |before: &Instance| {
            (&before.definition.schedule, &before.definition.dst)
                == (&r.definition.schedule, &r.definition.dst)
        };
        let since = before.filter(|before| same(before)).map_or(now, |before| before.since);
        let restarts = !before.is_some_and(same);
        let reply = if before.is_some() { AddReply::Changed } else { AddReply::Added };
        self.create(now);
        let revision = self.record_change(now, name);
        let job = self.jobs.entry(name.clone()).or_default();
        job.define(now.as_millis(), &r.definition, restarts);
        job.kind = JobKind::Instance(revision);
        let (definition, added_by) = (r.definition.clone(), r.added_by.clone());
        let instance = Instance { name: name.clone(), definition, revision, added_by, added_at: now, since };
        self.head.instance_count += usize::from(self.instances.insert(name.clone(), instance).is_none());
        self.head.payload_bytes = bytes;
        self.instance_payloads.insert(name.clone(), r.payload.clone());
        reply
    }

    /// Removes an instance, or everything that the ledger stores about a job.
    pub fn remove(&mut self, now: UtcTime, name: &LockName, removal: Removal) -> RemoveReply {
        let is_defined = self.instances.contains_key(name);
        let Some(job) = self.jobs.get_mut(name).filter(|_| is_defined || removal == Removal::Forget) else {
            return RemoveReply::Unknown;
        };
        let forgets = removal == Removal::Forget || (job.once.is_some() && job.open.is_empty());
        (job.kind, job.summary) = (JobKind::Removed, None);
        let had_controls = job.controls.revision > 0;
        if is_defined {
            self.undefine(now, name);
        }
        if forgets {
            self.jobs.remove(name);
            self.expiring.retain(|(_, other)| other != name);
            self.payloads.retain(|(other, _), _| other != name);
        }
        self.drop_triggers(now, name, forgets && had_controls);
        RemoveReply::Removed
    }

    /// Removes the definition of an instance that has run once and has no open run. Its record
    /// expires later.
    pub(super) fn conclude(&mut self, now: UtcTime, name: &LockName) {
        let has_run = |job: &&mut Job| job.has_run_once() && job.open.is_empty();
        let Some(job) = self.jobs.get_mut(name).filter(has_run) else { return };
        let Some(once) = job.once else { return };
        (job.kind, job.summary) = (JobKind::Removed, None);
        self.expiring.insert((expiry(now, once.kept), name.clone()));
        let had_controls = std::mem::take(&mut job.controls).revision > 0;
        if self.instances.contains_key(name) {
            self.undefine(now, name);
        }
        self.drop_triggers(now, name, had_controls);
    }

    /// Returns the payload of an instance.
    pub(super) fn payload_of(&self, name: &LockName) -> &str {
        self.instance_payloads.get(name).map_or("", String::as_str)
    }

    /// Returns the total length of the payloads with another one of this instance.
    fn payload_bytes_with(&self, name: &LockName, payload: &str) -> usize {
        self.head.payload_bytes - self.payload_of(name).len() + payload.len()
    }

    /// Removes a definition and its payload.
    fn undefine(&mut self, now: UtcTime, name: &LockName) {
        self.head.instance_count -= usize::from(self.instances.remove(name).is_some());
        self.head.payload_bytes = self.payload_bytes_with(name, "");
        self.instance_payloads.remove(name);
        self.record_change(now, name);
    }

    /// Removes expired records.
    pub fn expire(&mut self, now: UtcTime) {
        while self.expiring.first().is_some_and(|(expires, _)| now.as_millis() > *expires) {
            let expired = self.expiring.pop_first();
            expired.and_then(|(_, name)| self.jobs.remove(&name));
        }
    }

    /// Withdraws a job's triggers and backfills, and raises the revision of the controls if they
    /// changed.
    fn drop_triggers(&mut self, now: UtcTime, name: &LockName, controls_changed: bool) {
        let backfills = self.head.backfills.len();
        self.head.backfills.retain(|_, backfill| backfill.job != *name);
        let withdrawn = self.withdraw_triggers(|trigger| trigger.job == *name);
        if withdrawn || controls_changed || self.head.backfills.len() < backfills {
            self.raise_revision(now);
        }
    }

    fn record_change(&mut self, now: UtcTime, name: &LockName) -> u64 {
        let now_ms = now.as_millis();
        let revision = (self.head.instances_revision + 1).max(now_ms);
        self.head.instances_revision = revision;
        self.head.changes.push_back((revision, name.clone()));
        let is_old = |revision: u64| u128::from(now_ms.saturating_sub(revision)) > CHANGE_LIFE.as_millis();
        while self.head.changes.len() > MAX_CHANGES
            || self.head.changes.front().is_some_and(|(old, _)| is_old(*old))
        {
            self.head.changes.pop_front();
        }
        revision
    }

    /// Reads one instance with its payload.
    #[must_use]
    pub fn instance(&self, name: &LockName) -> Option<InstanceDetail> {
        let instance = self.instances.get(name)?.clone();
        Some(InstanceDetail { instance, payload: self.payload_of(name).to_owned() })
    }

    /// Reads the instances that have changed after a revision, or a page of all.
    #[must_use]
    pub fn instances(&self, from: &InstancesFrom) -> Instances {
        let revision = self.head.instances_revision;
        let known = match from {
            InstancesFrom::Revision(known) if *known == revision => return Instances::Unchanged,
            InstancesFrom::Revision(known) => *known,
            InstancesFrom::Name(name) => return self.page(Some(name)),
        };
        let Some(at) = self.head.changes.iter().position(|(change, _)| *change == known) else {
            return self.page(None);
        };
        let changed: BTreeSet<_> = self.head.changes.iter().skip(at + 1).map(|(_, name)| name).collect();
        let instances = changed.iter().filter_map(|name| self.instances.get(*name)).cloned().collect();
        let is_removed = |name: &&LockName| !self.instances.contains_key(*name);
        let removed = changed.into_iter().filter(is_removed).cloned().collect();
        Instances::Changed { revision, instances, removed }
    }

    /// Reads the page that follows this name, or the first one.
    fn page(&self, after: Option<&LockName>) -> Instances {
        let left = self.instances.range((after.map_or(Unbounded, Excluded), Unbounded));
        let instances: Vec<_> = left.take(MAX_INSTANCES_READ).map(|(_, of)| of.clone()).collect();
        let is_full = instances.len() == MAX_INSTANCES_READ;
        let next = instances.last().filter(|_| is_full).map(|last| last.name.clone());
        Instances::All { revision: self.head.instances_revision, instances, next }
    }
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

    /// Returns `true` if this is the revision of the job's definition; 0 for a job without one.
    pub(super) fn is_defined_by(&self, revision: u64) -> bool {
        match self.kind {
            JobKind::Static => revision == 0,
            JobKind::Instance(defined) => revision == defined,
            JobKind::Removed => false,
        }
    }

    /// Returns `true` if the job runs once, and its scheduled time is decided or it was removed.
    fn has_run_once(&self) -> bool {
        let decided = |at: UtcTime| self.watermark_ms >= at.as_millis();
        self.once.is_some_and(|once| self.kind == JobKind::Removed || decided(once.at))
    }

    /// Applies a new definition.
    fn define(&mut self, now_ms: u64, definition: &Definition, restarts: bool) {
        self.once = definition.once;
        // The only scheduled time may be in the past.
        if restarts && definition.once.is_none() {
            self.raise_watermark(now_ms);
        }
    }
}

/// Returns the key under which a trigger's payload is stored.
fn key_of(trigger: &Trigger) -> (LockName, RunId) {
    (trigger.job.clone(), RunId::Triggered(trigger.id))
}
