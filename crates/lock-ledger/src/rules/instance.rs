//! Instances, with their definitions, their recorded changes, and the end of those that run once.
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

use super::state::{GroupLedger, Job, JobKind};
use crate::{
    instance::{
        AddReply, AddRequest, Definition, Instance, InstanceDetail, Instances, InstancesFrom, Removal,
        RemoveReply,
    },
    limits::{CHANGE_LIFE, MAX_CHANGES, MAX_INSTANCE_PAYLOADS, MAX_INSTANCES, MAX_INSTANCES_READ},
};
use lock_core::{__private::expiry, LockName, clock::UtcTime};
use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

impl Job {
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

impl GroupLedger {
    /// Adds an instance, or changes its definition.
    pub fn add(&mut self, now: UtcTime, r: &AddRequest) -> AddReply {
        let (name, before) = (&r.job.name, self.instances.get(&r.job.name));
        let job = self.jobs.get(name);
        let payload_before = self.instance_payloads.get(name);
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
        if before.is_none() && self.instances.len() >= MAX_INSTANCES {
            return AddReply::Full;
        }
        // A shorter payload is accepted in any case.
        let bytes = self.instance_payloads.bytes_with(name, &r.payload);
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
        self.instances.insert(name.clone(), instance);
        self.instance_payloads.insert(name, &r.payload);
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

    /// Removes a definition and its payload.
    fn undefine(&mut self, now: UtcTime, name: &LockName) {
        self.instances.remove(name);
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
        let backfills = self.backfills.len();
        self.backfills.retain(|_, backfill| backfill.job != *name);
        let withdrawn = self.withdraw_triggers(|trigger| trigger.job == *name);
        if withdrawn || controls_changed || self.backfills.len() < backfills {
            self.raise_revision(now);
        }
    }

    fn record_change(&mut self, now: UtcTime, name: &LockName) -> u64 {
        let now_ms = now.as_millis();
        let revision = (self.instances_revision + 1).max(now_ms);
        self.instances_revision = revision;
        self.changes.push_back((revision, name.clone()));
        let is_old = |revision: u64| u128::from(now_ms.saturating_sub(revision)) > CHANGE_LIFE.as_millis();
        while self.changes.len() > MAX_CHANGES || self.changes.front().is_some_and(|(old, _)| is_old(*old)) {
            self.changes.pop_front();
        }
        revision
    }

    /// Reads one instance with its payload.
    #[must_use]
    pub fn instance(&self, name: &LockName) -> Option<InstanceDetail> {
        let instance = self.instances.get(name)?.clone();
        Some(InstanceDetail { instance, payload: self.instance_payloads.get(name).to_owned() })
    }

    /// Reads the instances that have changed after a revision, or a page of all.
    #[must_use]
    pub fn instances(&self, from: &InstancesFrom) -> Instances {
        let revision = self.instances_revision;
        let known = match from {
            InstancesFrom::Revision(known) if *known == revision => return Instances::Unchanged,
            InstancesFrom::Revision(known) => *known,
            InstancesFrom::Name(name) => return self.page(Some(name)),
        };
        let Some(at) = self.changes.iter().position(|(change, _)| *change == known) else {
            return self.page(None);
        };
        let changed: BTreeSet<_> = self.changes.iter().skip(at + 1).map(|(_, name)| name).collect();
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
        Instances::All { revision: self.instances_revision, instances, next }
    }
}
