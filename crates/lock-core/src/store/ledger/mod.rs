//! The rules of the run ledger: what a store must answer to a scheduler, as pure functions over what it keeps of one group.
//!
//! ```text
//!              claim                       end(over)
//!   decided ◀────────── due    running ────────────────▶ history
//!   (watermark)           └──▶   │  ▲ claim again
//!                     end(again) ▼  │ (also of an orphan)
//!                               waiting
//! ```
//!
//! Invariants:
//! - an instant is decided once: the watermark only rises, and what is not above it is never claimed as a first attempt;
//! - an open run has one attempt, and only its claim id can keep or end it;
//! - an attempt whose time was over cannot be kept, only ended or followed by another;
//! - epochs and tokens only rise.

mod claim;
mod end;
mod orders;

use super::tokens::Counter;
use crate::{
    backend::ledger::{
        Attempt, CatchUp, ClaimId, HISTORY, JobOrders, Known, OpenRun, Registered, RunId, RunOutcome,
        RunState,
    },
    name::LockName,
    time::ServerTime,
    token::FencingToken,
};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// What a store keeps of one group of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupLedger {
    jobs: BTreeMap<LockName, Job>,
    revision: u64,
    /// In the order in which they were given.
    triggers: Vec<crate::backend::ledger::Trigger>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    watermark_ms: u64,
    epoch: FencingToken,
    counter: Option<Counter>,
    open: BTreeMap<RunId, Open>,
    history: VecDeque<Attempt>,
    orders: JobOrders,
}

/// A run that has not ended, and its last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    claim: ClaimId,
    attempt: u32,
    token: FencingToken,
    node: String,
    catch_up: CatchUp,
    missed: u32,
    started: ServerTime,
    /// Milliseconds since the epoch; the attempt counts as running up to and with it.
    expires_ms: u64,
    waiting: bool,
    replaced: bool,
}

impl Open {
    fn is_over(&self, now: ServerTime) -> bool {
        now.as_millis() > self.expires_ms
    }

    fn ended(&self, run: RunId, now: ServerTime, outcome: RunOutcome, detail: &str) -> Attempt {
        Attempt {
            run,
            attempt: self.attempt,
            claim: self.claim,
            token: self.token,
            node: self.node.clone(),
            catch_up: self.catch_up,
            missed: self.missed,
            started: self.started,
            ended: now,
            outcome,
            detail: detail.to_owned(),
        }
    }
}

impl Job {
    fn new(now: ServerTime) -> Self {
        Self {
            watermark_ms: now.as_millis(),
            epoch: FencingToken::new(0),
            counter: None,
            open: BTreeMap::new(),
            history: VecDeque::new(),
            orders: JobOrders::default(),
        }
    }

    fn raise_watermark(&mut self, to_ms: u64) {
        self.watermark_ms = self.watermark_ms.max(to_ms);
    }

    fn remember(&mut self, attempt: Attempt) {
        self.history.push_front(attempt);
        self.history.truncate(HISTORY);
    }

    /// Whether an attempt of this run was made, as far as the history goes back.
    fn knows(&self, run: RunId) -> bool {
        self.open.contains_key(&run) || self.history.iter().any(|attempt| attempt.run == run)
    }

    fn remembers(&self, run: RunId, claim: ClaimId) -> Option<&Attempt> {
        self.history.iter().find(|attempt| attempt.run == run && attempt.claim == claim)
    }
}

impl GroupLedger {
    /// Makes jobs known.
    pub fn register(&mut self, now: ServerTime, jobs: &[LockName]) -> Vec<Registered> {
        let register = |name: &LockName| {
            let state = if self.jobs.contains_key(name) { Known::Before } else { Known::New };
            let job = self.jobs.entry(name.clone()).or_insert_with(|| Job::new(now));
            Registered { watermark: ServerTime::from_micros(job.watermark_ms * 1000), state }
        };
        jobs.iter().map(register).collect()
    }

    /// What has not ended.
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
                state: match (open.is_over(now), open.waiting) {
                    (true, _) => RunState::Orphaned,
                    (false, true) => RunState::Waiting,
                    (false, false) => RunState::Running,
                },
            };
            job.open.iter().map(open).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job).collect()
    }

    /// What has ended, the newest first.
    #[must_use]
    pub fn history(&self, job: &LockName, most: usize) -> Vec<Attempt> {
        self.jobs.get(job).map_or_else(Vec::new, |job| job.history.iter().take(most).cloned().collect())
    }
}

#[cfg(test)]
mod tests;
