//! The data of one group of jobs.

use super::summary::Summary;
use crate::{
    backfill::Backfill,
    control::{JobControls, Trigger},
    heartbeat::LiveNode,
    ids::{ClaimId, RunId},
    instance::{Instance, Once},
    run::{Attempt, CatchUp, RunState},
};
use lock_core::{__private::TokenCounter, FencingToken, LockName, clock::UtcTime};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use uuid::Uuid;

/// The data of one group of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupLedger {
    pub(super) jobs: BTreeMap<LockName, Job>,
    pub(super) revision: u64,
    /// The revision at which a node last declined a run.
    pub(super) declined: u64,
    /// The time at which the first job was added or registered.
    pub(super) created: Option<UtcTime>,
    /// The time of the last registration of any job, in ms.
    pub(super) seen_ms: u64,
    /// The total time for which the group has had a leader, in ms.
    pub(super) led_ms: u64,
    /// The pending triggers, oldest first.
    pub(super) triggers: Vec<Trigger>,
    /// The backfills with scheduled times left to start.
    pub(super) backfills: BTreeMap<Uuid, Backfill>,
    /// The payloads of pending triggers and of open triggered runs.
    pub(super) payloads: BTreeMap<(LockName, RunId), String>,
    /// The nodes that have sent a heartbeat, by their ids.
    pub(super) nodes: BTreeMap<Uuid, KnownNode>,
    /// The described kinds, by their names followed by a slash.
    pub(super) kinds: BTreeMap<LockName, Summary>,
    pub(super) instances: BTreeMap<LockName, Instance>,
    pub(super) instance_payloads: InstancePayloads,
    pub(super) instances_revision: u64,
    /// The latest changes to instances, oldest first.
    pub(super) changes: VecDeque<(u64, LockName)>,
    /// The removal times, in ms, of the records of instances that have run once.
    pub(super) expiring: BTreeSet<(u64, LockName)>,
}

/// The payloads of the instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InstancePayloads {
    of: BTreeMap<LockName, String>,
    /// Their total length.
    bytes: usize,
}

impl InstancePayloads {
    pub(super) fn get(&self, name: &LockName) -> &str {
        self.of.get(name).map_or("", String::as_str)
    }

    /// Returns the total length with another payload of this instance.
    pub(super) fn bytes_with(&self, name: &LockName, payload: &str) -> usize {
        self.bytes - self.get(name).len() + payload.len()
    }

    pub(super) fn insert(&mut self, name: &LockName, payload: &str) {
        self.bytes = self.bytes_with(name, payload);
        self.of.insert(name.clone(), payload.to_owned());
    }

    pub(super) fn remove(&mut self, name: &LockName) {
        self.bytes = self.bytes_with(name, "");
        self.of.remove(name);
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) watermark_ms: u64,
    /// The start of each schedule, by its fingerprint.
    pub(super) since: BTreeMap<u64, Since>,
    pub(super) counter: Option<TokenCounter>,
    pub(super) open: BTreeMap<RunId, Open>,
    pub(super) history: VecDeque<Attempt>,
    pub(super) controls: JobControls,
    pub(super) kind: JobKind,
    /// The terms of an instance that runs once.
    pub(super) once: Option<Once>,
    /// The summary, present once the job was described or an attempt has ended.
    pub(super) summary: Option<Summary>,
}

/// The origin of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum JobKind {
    /// Defined in the code of its nodes.
    #[default]
    Static,
    /// Defined in the ledger, with this revision.
    Instance(u64),
    /// Defined in the ledger, but removed.
    Removed,
}

/// The start of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) from_ms: u64,
    /// The group's `led_ms` at the last registration.
    pub(super) seen_ms: u64,
}

/// A live node and the end of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownNode {
    pub(super) node: LiveNode,
    /// The end of the lease, inclusive, in ms since the epoch.
    pub(super) expires_ms: u64,
}

/// The stage of an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    Failed,
    Interrupted,
    Unbegun,
}

/// A run that has not ended, and its latest attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) claim: ClaimId,
    pub(super) attempts: Attempts,
    pub(super) token: FencingToken,
    pub(super) node: String,
    pub(super) catch_up: CatchUp,
    pub(super) started: UtcTime,
    /// The end of the lease, inclusive, in ms since the epoch.
    pub(super) expires_ms: u64,
    pub(super) lease: Duration,
    pub(super) stage: Stage,
    pub(super) replaced: bool,
    pub(super) pool: Option<LockName>,
    /// `true` if a command cancelled the run, which gets no further attempt.
    pub(super) cancelled: bool,
    pub(super) declines: u32,
}

impl GroupLedger {
    /// Records the creation of the group, and raises the revision so that each node reads it.
    pub(super) fn create(&mut self, now: UtcTime) {
        if self.created.is_none() {
            self.created = Some(UtcTime::from_millis(now.as_millis()));
            self.raise_revision(now);
        }
    }

    /// Raises the revision to at least the server's current time in ms, so that a revision from
    /// before a data loss never recurs.
    pub(super) fn raise_revision(&mut self, now: UtcTime) -> u64 {
        self.revision = (self.revision + 1).max(now.as_millis());
        self.revision
    }
}

/// The number of an attempt, starting at 1, and the failures and orphanings before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempts {
    pub(super) number: u32,
    pub(super) failures: u32,
    pub(super) orphanings: u32,
}

impl Attempts {
    pub(super) const FIRST: Self = Self { number: 1, failures: 0, orphanings: 0 };
}

impl Open {
    pub(super) fn is_over(&self, now: UtcTime) -> bool {
        now.as_millis() > self.expires_ms
    }

    pub(super) fn state(&self, now: UtcTime) -> RunState {
        match (self.is_over(now), self.stage) {
            (false, Stage::Running) => RunState::Running,
            (false, _) => RunState::Waiting,
            (true, Stage::Running) => RunState::Orphaned,
            (true, _) => RunState::Released,
        }
    }
}

impl Job {
    pub(super) fn raise_watermark(&mut self, to_ms: u64) {
        self.watermark_ms = self.watermark_ms.max(to_ms);
    }

    /// Returns the time up to which no run of this schedule starts.
    pub(super) fn decided_ms(&self, schedule: u64) -> u64 {
        self.watermark_ms.max(self.since.get(&schedule).map_or(0, |since| since.from_ms))
    }
}
