//! The rules of the run ledger as pure functions over one group's data.
//!
//! ```text
//!            claim                     end(finish)
//!   decided ◀────── due    running ────────────────▶ history
//!   (watermark)      └──────▶ │ ▲ claim with `retry_of`
//!                             │ │   of a failed attempt: failures ≤ budget
//!                             │ │   of an orphaned or interrupted one: orphanings < budget
//!                             ▼ │   of a requeued one: always, the same attempt
//!       failed · interrupted · unbegun      or running after the end of its lease: orphaned
//!     end(retry) end(reassign) end(requeue)
//! ```
//!
//! Invariants:
//! - A scheduled time is decided once: each claim and each skip raises the watermark. A time that
//!   is not later than both the watermark and the start of its schedule is never claimed as a first
//!   attempt.
//! - An open run has one attempt, and only its claim id can renew or end it.
//! - An attempt whose lease has ended cannot be renewed, only ended or followed by another.
//! - A claim with a pool starts a run only while the pool has fewer open runs than the claim's
//!   limit, across the group.
//! - Each claim of a backfill raises its mark. At most one of its runs is open.
//! - A cancelled run gets no further attempt.
//! - A payload belongs to a pending trigger or to its open run, and is removed when neither
//!   remains.
//! - Tokens only increase. The watermark is lowered only by an operator's reset.

mod claim;
mod control;
#[cfg(feature = "__stored")]
pub(crate) mod parts;
#[cfg(test)]
mod tests;

use crate::{
    control::{Backfill, JobControls, Trigger},
    group::{GroupSummary, HeartbeatReply, HeartbeatRequest, JobDescription, JobSummary, LiveNode},
    ids::{ClaimId, RunId},
    instance::{Instance, Once},
    limits::{ABSENT_AFTER, MAX_SCHEDULES, RECENT_OUTCOMES},
    request::{JobStatus, RegisteredJob, Registration},
    run::{Attempt, CatchUp, OpenRun, RunOutcome, RunState},
};
use lock_core::{
    __private::{TokenCounter, expiry},
    FencingToken, LockName,
    clock::UtcTime,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use uuid::Uuid;

/// The data of one group of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupLedger {
    head: Head,
    jobs: BTreeMap<LockName, Job>,
    /// The payloads of pending triggers and of open triggered runs.
    payloads: BTreeMap<(LockName, RunId), String>,
    /// The nodes that have sent a heartbeat, by their ids.
    nodes: BTreeMap<Uuid, KnownNode>,
    /// The described kinds, by their names followed by a slash.
    kinds: BTreeMap<LockName, Summary>,
    instances: BTreeMap<LockName, Instance>,
    instance_payloads: BTreeMap<LockName, String>,
    /// The removal times, in ms, of the records of instances that have run once.
    expiring: BTreeSet<(u64, LockName)>,
}

/// The data that is not that of one job, node, instance or kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize), serde(default))]
struct Head {
    revision: u64,
    /// The revision at which a node last declined a run.
    declined: u64,
    /// The time at which the first job was added or registered.
    created: Option<UtcTime>,
    /// The time of the last registration of any job, in ms.
    seen_ms: u64,
    /// The total time for which the group has had a leader, in ms.
    led_ms: u64,
    /// The pending triggers, oldest first.
    triggers: Vec<Trigger>,
    /// The backfills with scheduled times left to start.
    backfills: BTreeMap<Uuid, Backfill>,
    instances_revision: u64,
    instance_count: usize,
    /// The total length of the payloads of instances.
    payload_bytes: usize,
    /// The latest changes to instances, oldest first.
    changes: VecDeque<(u64, LockName)>,
}

impl GroupLedger {
    /// Registers jobs.
    pub fn register(&mut self, now: UtcTime, jobs: &[Registration]) -> Vec<RegisteredJob> {
        let now_ms = now.as_millis();
        self.create(now);
        let silent_ms = now_ms.saturating_sub(std::mem::replace(&mut self.head.seen_ms, now_ms));
        // An outage of all nodes or a clock step does not make a job absent.
        if u128::from(silent_ms) <= ABSENT_AFTER.as_millis() {
            self.head.led_ms += silent_ms;
        }
        let led_ms = self.head.led_ms;
        let register = |registration: &Registration| {
            let known = self.jobs.contains_key(&registration.job);
            let job = self.jobs.entry(registration.job.clone()).or_default();
            if !known {
                job.watermark_ms = now_ms;
            }
            job.begin(now_ms, registration.schedule, led_ms);
            let watermark = UtcTime::from_millis(job.decided_ms(registration.schedule));
            RegisteredJob { watermark, status: if known { JobStatus::Existing } else { JobStatus::New } }
        };
        jobs.iter().map(register).collect()
    }

    /// Reads watermarks.
    #[must_use]
    pub fn watermarks(&self, jobs: &[Registration]) -> Vec<Option<UtcTime>> {
        let read =
            |r: &Registration| Some(UtcTime::from_millis(self.jobs.get(&r.job)?.decided_ms(r.schedule)));
        jobs.iter().map(read).collect()
    }

    /// Lists the open runs.
    #[must_use]
    pub fn open_runs(&self, now: UtcTime) -> Vec<OpenRun> {
        let of_job = |(name, job): (&LockName, &Job)| {
            let open = |(run, open): (&RunId, &Open)| OpenRun {
                job: name.clone(),
                run: *run,
                attempt: open.attempts.number,
                claim: open.claim,
                token: open.token,
                node: open.node.clone(),
                started: open.started,
                remaining: Duration::from_millis(open.expires_ms.saturating_sub(now.as_millis())),
                state: open.state(now),
                pool: open.pool.clone(),
                cancelled: open.cancelled,
                declines: open.declines,
            };
            job.open.iter().map(open).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job).collect()
    }

    /// Lists the last entries of a job's history, newest first.
    #[must_use]
    pub fn history(&self, job: &LockName, max: usize) -> Vec<Attempt> {
        self.jobs.get(job).map_or_else(Vec::new, |job| job.history.iter().take(max).cloned().collect())
    }

    /// Records that a node is alive, removes nodes whose lease has ended, and reads the group's
    /// state.
    pub fn heartbeat(&mut self, now: UtcTime, r: &HeartbeatRequest) -> HeartbeatReply {
        if r.lease.is_zero() {
            self.nodes.remove(&r.node.id);
        } else {
            let known = KnownNode { node: r.node.clone(), expires_ms: expiry(now, r.lease) };
            self.nodes.insert(r.node.id, known);
        }
        self.nodes.retain(|_, known| now.as_millis() <= known.expires_ms);
        HeartbeatReply {
            controls: self.controls(r.known),
            instances: self.head.instances_revision,
            nodes: self.nodes.values().map(|known| known.node.clone()).collect(),
            watermarks: self.watermarks(&r.watermarks),
        }
    }

    /// Stores the descriptions of registered jobs and of kinds.
    pub fn describe(&mut self, now: UtcTime, jobs: &[JobDescription]) {
        for JobDescription { job, schedule, dst, terms, alert_after } in jobs {
            let (since, summary) = match self.jobs.get_mut(job) {
                Some(job) => {
                    let since = job.since.values().map(|since| since.from_ms).max();
                    (since.map(UtcTime::from_millis), job.summary.get_or_insert_default())
                }
                None if is_kind(job) => (None, self.kinds.entry(job.clone()).or_default()),
                None => continue,
            };
            (summary.schedule, summary.dst) = (schedule.clone(), dst.clone());
            summary.terms.clone_from(terms);
            (summary.alert_after, summary.since, summary.described) = (*alert_after, since, now);
        }
    }

    /// Reads the group's summary.
    #[must_use]
    pub fn summary(&self, now: UtcTime) -> GroupSummary {
        let jobs = self.jobs.iter().filter_map(|(name, job)| Some((name, job.summary.as_ref()?)));
        let known = jobs.chain(&self.kinds).map(|(name, summary)| summary.named(name));
        let mut jobs: Vec<_> = known.collect();
        jobs.sort_by(|a, b| a.job.cmp(&b.job));
        let nodes = self.nodes.values().filter(|known| now.as_millis() <= known.expires_ms);
        GroupSummary { jobs, nodes: nodes.map(|known| known.node.clone()).collect() }
    }

    /// Records the creation of the group, and raises the revision so that each node reads it.
    fn create(&mut self, now: UtcTime) {
        if self.head.created.is_none() {
            self.head.created = Some(UtcTime::from_millis(now.as_millis()));
            self.raise_revision(now);
        }
    }

    /// Raises the revision to at least the server's current time in ms, so that a revision from
    /// before a data loss never recurs.
    fn raise_revision(&mut self, now: UtcTime) -> u64 {
        self.head.revision = (self.head.revision + 1).max(now.as_millis());
        self.head.revision
    }
}

/// The data of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
struct Job {
    watermark_ms: u64,
    /// The start of each schedule, by its fingerprint.
    since: BTreeMap<u64, Since>,
    counter: Option<TokenCounter>,
    open: BTreeMap<RunId, Open>,
    /// Stored on its own, since few operations need it.
    #[cfg_attr(feature = "__stored", serde(skip))]
    history: VecDeque<Attempt>,
    controls: JobControls,
    kind: JobKind,
    /// The terms of an instance that runs once.
    once: Option<Once>,
    /// The summary, present once the job was described or an attempt has ended.
    summary: Option<Summary>,
}

impl Job {
    fn raise_watermark(&mut self, to_ms: u64) {
        self.watermark_ms = self.watermark_ms.max(to_ms);
    }

    /// Returns the time up to which no run of this schedule starts.
    fn decided_ms(&self, schedule: u64) -> u64 {
        self.watermark_ms.max(self.since.get(&schedule).map_or(0, |since| since.from_ms))
    }

    /// Starts a schedule that is new to the job, or whose job was absent while other jobs in its
    /// group were present.
    fn begin(&mut self, now_ms: u64, schedule: u64, led_ms: u64) {
        let since = self.since.entry(schedule).or_insert(Since { from_ms: now_ms, seen_ms: led_ms });
        if u128::from(led_ms.saturating_sub(since.seen_ms)) > ABSENT_AFTER.as_millis() {
            since.from_ms = now_ms;
        }
        since.seen_ms = led_ms;
        while self.since.len() > MAX_SCHEDULES {
            let others = self.since.iter().filter(|(fingerprint, _)| **fingerprint != schedule);
            let oldest = others.min_by_key(|(fingerprint, since)| (since.seen_ms, **fingerprint));
            let Some((&oldest, _)) = oldest else { break };
            self.since.remove(&oldest);
        }
    }

    /// Adds a history entry to the summary. A removed instance has no summary.
    fn summarize(&mut self, entry: &Attempt) {
        if self.kind == JobKind::Removed {
            return;
        }
        let summary = self.summary.get_or_insert_default();
        let is_skip = entry.outcome == RunOutcome::Skipped;
        if is_skip && summary.recent.front() == Some(&RunOutcome::Skipped) {
            return;
        }
        summary.recent.push_front(entry.outcome);
        summary.recent.truncate(RECENT_OUTCOMES);
        if is_skip {
            return;
        }
        match entry.outcome {
            RunOutcome::Succeeded => {
                (summary.last_success, summary.failing_since) = (Some(entry.ended), None);
            }
            RunOutcome::Failed | RunOutcome::Panicked | RunOutcome::TimedOut | RunOutcome::Abandoned => {
                summary.failing_since.get_or_insert(entry.ended);
            }
            RunOutcome::Cancelled | RunOutcome::Skipped | RunOutcome::Other => {}
        }
        summary.last = Some(entry.clone());
    }
}

/// The origin of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
enum JobKind {
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
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
struct Since {
    from_ms: u64,
    /// The group's `led_ms` at the last registration.
    seen_ms: u64,
}

/// A live node and the end of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
struct KnownNode {
    node: LiveNode,
    /// The end of the lease, inclusive, in ms since the epoch.
    expires_ms: u64,
}

/// The stage of an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
enum Stage {
    Running,
    Failed,
    Interrupted,
    Unbegun,
}

/// A run that has not ended, and its latest attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
struct Open {
    claim: ClaimId,
    attempts: Attempts,
    token: FencingToken,
    node: String,
    catch_up: CatchUp,
    started: UtcTime,
    /// The end of the lease, inclusive, in ms since the epoch.
    expires_ms: u64,
    lease: Duration,
    stage: Stage,
    replaced: bool,
    pool: Option<LockName>,
    /// `true` if a command cancelled the run, which gets no further attempt.
    cancelled: bool,
    declines: u32,
}

/// The number of an attempt, starting at 1, and the failures and orphanings before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
struct Attempts {
    number: u32,
    failures: u32,
    orphanings: u32,
}

impl Attempts {
    const FIRST: Self = Self { number: 1, failures: 0, orphanings: 0 };
}

impl Open {
    fn is_over(&self, now: UtcTime) -> bool {
        now.as_millis() > self.expires_ms
    }

    fn state(&self, now: UtcTime) -> RunState {
        match (self.is_over(now), self.stage) {
            (false, Stage::Running) => RunState::Running,
            (false, _) => RunState::Waiting,
            (true, Stage::Running) => RunState::Orphaned,
            (true, _) => RunState::Released,
        }
    }
}

/// The summary of a job, without its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
struct Summary {
    schedule: String,
    dst: String,
    terms: String,
    alert_after: Option<Duration>,
    since: Option<UtcTime>,
    described: UtcTime,
    recent: VecDeque<RunOutcome>,
    last: Option<Attempt>,
    last_success: Option<UtcTime>,
    failing_since: Option<UtcTime>,
}

/// Returns `true` for a kind's name followed by a slash. An instance's name continues after the
/// slash.
fn is_kind(name: &LockName) -> bool {
    matches!(name.as_str().split_once('/'), Some((_, "")))
}

impl Summary {
    fn named(&self, job: &LockName) -> JobSummary {
        let Self {
            schedule,
            dst,
            terms,
            alert_after,
            since,
            described,
            recent,
            last,
            last_success,
            failing_since,
        } = self.clone();
        JobSummary {
            job: job.clone(),
            schedule,
            dst,
            terms,
            alert_after,
            since,
            described,
            recent: recent.into(),
            last,
            last_success,
            failing_since,
        }
    }
}
