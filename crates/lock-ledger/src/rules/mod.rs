//! The rules of the run ledger: what a store must answer to a scheduler, as pure functions over what it keeps of one group.
//!
//! ```text
//!            claim                     end(over)
//!   decided ◀────── due    running ────────────────▶ history
//!   (watermark)      └──────▶ │ ▲ claim again
//!                             │ │   of a failed attempt: failures ≤ budget
//!                             │ │   of an orphaned or interrupted one: orphanings < budget
//!                             ▼ │   of one that was given back: always, the same attempt
//!      failed · interrupted · unbegun        or running, and its lease is over: orphaned
//!      end(again) end(hand over) end(give back)
//! ```
//!
//! Invariants:
//! - an instant is decided once: the watermark rises with each claim and each skip, and an instant that is not above it, or
//!   not above the beginning of its schedule, is never claimed as a first attempt;
//! - an open run has one attempt, and only its claim id can keep or end it;
//! - an attempt whose lease is over cannot be kept, only ended or followed by another;
//! - tokens only rise; the watermark falls by an operator's reset alone.

mod again;
mod claim;
mod end;
mod history;
mod orders;

use crate::{
    ABSENT, Attempt, CatchUp, ClaimId, JobOrders, Known, OpenRun, Registered, Registration, RunId, RunState,
    SCHEDULES, Trigger,
};
use lock_core::{__private::TokenCounter, FencingToken, LockName, ServerTime};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// What a store keeps of one group of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupLedger {
    jobs: BTreeMap<LockName, Job>,
    revision: u64,
    /// The time of the last registration of any job.
    seen_ms: u64,
    /// The time for which the group has had leaders: a clock that stands still while it has none.
    led_ms: u64,
    /// In the order in which they were given.
    triggers: Vec<Trigger>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Job {
    watermark_ms: u64,
    /// Of each schedule, by its fingerprint.
    since: BTreeMap<u64, Since>,
    counter: Option<TokenCounter>,
    open: BTreeMap<RunId, Open>,
    history: VecDeque<Attempt>,
    orders: JobOrders,
}

/// The beginning of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Since {
    from_ms: u64,
    /// The `led_ms` of the group at its last registration.
    seen_ms: u64,
}

/// The stage of an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Failed,
    Interrupted,
    Unbegun,
}

/// A run that has not ended, and its last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    claim: ClaimId,
    attempt: u32,
    failures: u32,
    orphanings: u32,
    token: FencingToken,
    node: String,
    catch_up: CatchUp,
    started: ServerTime,
    /// Milliseconds since the epoch; the lease lasts up to and with it.
    expires_ms: u64,
    lease: Duration,
    stage: Stage,
    replaced: bool,
}

impl Open {
    fn is_over(&self, now: ServerTime) -> bool {
        now.as_millis() > self.expires_ms
    }

    fn state(&self, now: ServerTime) -> RunState {
        match (self.is_over(now), self.stage) {
            (false, Stage::Running) => RunState::Running,
            (false, _) => RunState::Waiting,
            (true, Stage::Running) => RunState::Orphaned,
            (true, _) => RunState::Released,
        }
    }
}

impl Job {
    fn raise_watermark(&mut self, to_ms: u64) {
        self.watermark_ms = self.watermark_ms.max(to_ms);
    }

    /// The time up to which nothing of this schedule is started.
    fn decided_ms(&self, schedule: u64) -> u64 {
        self.watermark_ms.max(self.since.get(&schedule).map_or(0, |since| since.from_ms))
    }

    /// Begins a schedule that is new to the job, or whose job was absent while others of its group were there.
    fn begin(&mut self, now_ms: u64, schedule: u64, led_ms: u64) {
        let since = self.since.entry(schedule).or_insert(Since { from_ms: now_ms, seen_ms: led_ms });
        if u128::from(led_ms.saturating_sub(since.seen_ms)) > ABSENT.as_millis() {
            since.from_ms = now_ms;
        }
        since.seen_ms = led_ms;
        while self.since.len() > SCHEDULES {
            let others = self.since.iter().filter(|(fingerprint, _)| **fingerprint != schedule);
            let oldest = others.min_by_key(|(fingerprint, since)| (since.seen_ms, **fingerprint));
            let Some((&oldest, _)) = oldest else { break };
            self.since.remove(&oldest);
        }
    }
}

impl GroupLedger {
    /// Makes jobs known.
    pub fn register(&mut self, now: ServerTime, jobs: &[Registration]) -> Vec<Registered> {
        let now_ms = now.as_millis();
        let silent_ms = now_ms.saturating_sub(std::mem::replace(&mut self.seen_ms, now_ms));
        // An outage of all, and a step of the clock, make no job absent.
        if u128::from(silent_ms) <= ABSENT.as_millis() {
            self.led_ms += silent_ms;
        }
        let led_ms = self.led_ms;
        let register = |registration: &Registration| {
            let known = self.jobs.contains_key(&registration.job);
            let job = self.jobs.entry(registration.job.clone()).or_default();
            if !known {
                job.watermark_ms = now_ms;
            }
            job.begin(now_ms, registration.schedule, led_ms);
            let watermark = from_millis(job.decided_ms(registration.schedule));
            Registered { watermark, state: if known { Known::Before } else { Known::New } }
        };
        jobs.iter().map(register).collect()
    }

    /// Reads watermarks.
    #[must_use]
    pub fn watermarks(&self, jobs: &[Registration]) -> Vec<Option<ServerTime>> {
        let read = |r: &Registration| Some(from_millis(self.jobs.get(&r.job)?.decided_ms(r.schedule)));
        jobs.iter().map(read).collect()
    }

    /// Lists the runs that have not ended.
    #[must_use]
    pub fn open(&self, now: ServerTime) -> Vec<OpenRun> {
        let of_job = |(name, job): (&LockName, &Job)| {
            let open = |(run, open): (&RunId, &Open)| OpenRun {
                job: name.clone(),
                run: *run,
                attempt: open.attempt,
                claim: open.claim,
                token: open.token,
                node: open.node.clone(),
                started: open.started,
                remaining: Duration::from_millis(open.expires_ms.saturating_sub(now.as_millis())),
                state: open.state(now),
            };
            job.open.iter().map(open).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job).collect()
    }

    /// Lists the last entries of a history, the newest first.
    #[must_use]
    pub fn history(&self, job: &LockName, most: usize) -> Vec<Attempt> {
        self.jobs.get(job).map_or_else(Vec::new, |job| job.history.iter().take(most).cloned().collect())
    }
}

fn from_millis(millis: u64) -> ServerTime {
    ServerTime::from_micros(millis.saturating_mul(1000))
}

#[cfg(test)]
mod tests;
