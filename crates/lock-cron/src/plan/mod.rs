//! The planner: what is due, what was missed, what to ask for next. A plain value; `now` is an argument, answers are commands.
//!
//! ```text
//!  of each job              instant comes              asked                 claimed, skipped, decided elsewhere
//!      decided up to `cursor` ────────▶ on the agenda ─────▶ in flight ─────────────────────────────────▶ decided
//!                                            ▲                  │  early · busy · taken · outdated
//!                                            └──────────────────┘
//! ```
//!
//! Events: led, resigned, registered (with the watermark), orders, tick, answered, ended. Commands: claim, start here (jobs of
//! each node), end the running ones, register, read the orders, resign, count what is skipped.
//!
//! Invariants:
//! - nothing is asked for without leadership, while paused, or while draining;
//! - at most one claim of a job is in flight, and they go in ascending order;
//! - `cursor` and agenda never go back: what was decided or skipped is not asked for again under the same leadership;
//! - the length of an agenda and the work of a tick are bounded, however long an outage was.

mod job;
mod missed;

use crate::{
    options::{Overlap, Scope, Terms},
    schedule::{Schedule, UtcTime},
};
use job::{Entry, Job};
use lock_core::{
    FencingToken, LockName,
    backend::ledger::{CatchUp, ClaimId, Claimed, RunId},
};
pub(crate) use missed::Budget;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// How long a claim waits that others are in the way of, unless one of them ends before.
const BUSY: Duration = Duration::from_millis(250);

/// A run to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) job: LockName,
    pub(crate) run: RunId,
    pub(crate) catch_up: CatchUp,
    /// The overlap policy of this run: catch-up runs queue.
    pub(crate) overlap: Overlap,
    pub(crate) missed: u32,
    pub(crate) revision: u64,
    pub(crate) epoch: FencingToken,
    /// The claim of an earlier request that may still be carried out.
    pub(crate) in_doubt: Option<ClaimId>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Take the run's lock and claim it.
    Claim(Due),
    /// Start it, on this node, without a claim.
    StartHere(Due),
    /// Ask the runs of this job on this node to end.
    EndRunning(LockName),
    /// Register the job again, and tell its watermark.
    Register(LockName),
    /// Read the orders.
    ReadOrders,
    /// Give the leadership back, and take it again with a later epoch than this.
    Resign { floor: FencingToken },
    /// Count runs that will not be.
    Skipped { job: LockName, reason: SkipReason, count: u32 },
}

/// Why a run was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SkipReason {
    /// Other runs of the job were open.
    Overlap,
    /// It was missed, and the misfire policy or the grace says so.
    Missed,
    /// It waited in the queue, and a later one took its place.
    Queue,
    /// Another leader had decided this instant, or a later one.
    DecidedElsewhere,
    /// The store lost the watermark of the job, so nobody knows what was run.
    DataLoss,
}

/// The answer to a [`Command::Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The ledger said so.
    Ledger(Claimed),
    /// The run's lock is held, and its instant is not decided yet.
    Taken,
    /// The store could not be asked; nothing was claimed.
    Failed,
}

/// What is planned of a group of jobs.
#[derive(Debug, Default)]
pub(crate) struct Planner {
    jobs: BTreeMap<LockName, Job>,
    epoch: Option<FencingToken>,
    draining: bool,
}

impl Planner {
    /// Takes a job in. One of each node begins at once.
    pub(crate) fn add(&mut self, now: UtcTime, name: LockName, schedule: Schedule, terms: Terms) {
        let mut job = Job {
            schedule,
            terms,
            revision: 0,
            paused: false,
            cursor: None,
            next: None,
            behind: None,
            follows_catch_up: false,
            agenda: VecDeque::new(),
            in_flight: false,
            not_before: UtcTime::from_millis(i64::MIN),
            missed: 0,
            running: 0,
        };
        if job.terms.scope == Scope::PerNode {
            job.decided_up_to(now);
        }
        self.jobs.insert(name, job);
    }

    /// This node leads from now on; the watermarks come with [`registered`](Self::registered).
    pub(crate) fn led(&mut self, epoch: FencingToken) {
        self.epoch = Some(epoch);
    }

    /// This node leads no more. What is in flight is answered all the same.
    pub(crate) fn resigned(&mut self) {
        self.epoch = None;
        for job in self.fleet_jobs() {
            job.forget();
        }
    }

    /// Nothing is started any more.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// The watermark of a job. Instants before it are no longer asked for.
    pub(crate) fn registered(&mut self, name: &LockName, watermark: UtcTime) {
        let Some(job) = self.jobs.get_mut(name).filter(|job| job.terms.scope == Scope::Fleet) else { return };
        if job.cursor.is_none_or(|cursor| cursor < watermark) {
            job.decided_up_to(watermark);
        }
        let front = usize::from(job.in_flight);
        let decided = |entry: &Entry| entry.run.scheduled().is_some_and(|at| utc(at) <= watermark);
        while job.agenda.get(front).is_some_and(decided) {
            job.agenda.remove(front);
        }
    }

    /// The orders for a job. With others than before, what was planned is forgotten, and its watermark has to be told again.
    pub(crate) fn ordered(
        &mut self,
        name: &LockName,
        revision: u64,
        paused: bool,
        schedule: Schedule,
        out: &mut Vec<Command>,
    ) {
        let leading = self.epoch.is_some();
        let Some(job) = self.jobs.get_mut(name) else { return };
        if job.revision == revision {
            return;
        }
        (job.revision, job.paused, job.schedule) = (revision, paused, schedule);
        job.forget();
        if leading {
            out.push(Command::Register(name.clone()));
        }
    }

    /// A run that was triggered by hand.
    pub(crate) fn triggered(&mut self, name: &LockName, run: RunId) {
        let leading = self.epoch.is_some();
        let Some(job) = self.jobs.get_mut(name).filter(|job| job.terms.scope == Scope::Fleet) else { return };
        if leading && !job.agenda.iter().any(|entry| entry.run == run) {
            job.agenda.push_back(Entry::triggered(run));
        }
    }

    /// Plans what is due. Jobs that are left over when the budget is spent are due at once in [`wake_at`](Self::wake_at).
    pub(crate) fn tick(&mut self, now: UtcTime, budget: &mut Budget, out: &mut Vec<Command>) {
        if self.draining {
            return;
        }
        let (leading, epoch) = (self.epoch.is_some(), self.epoch.unwrap_or(FencingToken::new(0)));
        let mut behind = Vec::new();
        for (name, job) in &mut self.jobs {
            if leading || job.terms.scope == Scope::PerNode {
                job.list_due(name, now, out);
                job.ask(name, now, epoch, out);
                behind.extend(job.behind.map(|distance| (distance, name, job)));
            }
        }
        // A job whose instants are close to each other loses the most by waiting for another tick.
        behind.sort_by_key(|(distance, ..)| *distance);
        for (_, name, job) in behind {
            if budget.is_spent() {
                return;
            }
            job.look_back(name, now, budget, out);
            job.ask(name, now, epoch, out);
        }
    }

    /// A claim was answered.
    pub(crate) fn answered(&mut self, now: UtcTime, due: &Due, answer: Answer, out: &mut Vec<Command>) {
        let current = self.epoch == Some(due.epoch);
        let Some(job) = self.jobs.get_mut(&due.job) else { return };
        let asked = std::mem::take(&mut job.in_flight);
        if !asked || job.agenda.front().is_none_or(|entry| entry.run != due.run) {
            return;
        }
        if let Some(front) = job.agenda.front_mut() {
            front.in_doubt = due.in_doubt;
            front.early = matches!(answer, Answer::Ledger(Claimed::Early { .. }));
        }
        let mut skipped = |reason, count| out.push(Command::Skipped { job: due.job.clone(), reason, count });
        match answer {
            Answer::Ledger(Claimed::Claimed { .. }) => job.decided(),
            Answer::Ledger(Claimed::Skipped { .. }) => {
                skipped(SkipReason::Overlap, 1);
                job.decided();
            }
            Answer::Ledger(Claimed::Duplicate | Claimed::Superseded | Claimed::Gone) => {
                skipped(SkipReason::DecidedElsewhere, 1);
                job.decided();
            }
            Answer::Ledger(Claimed::Early { wait }) => job.not_before = now.saturating_add(wait),
            Answer::Ledger(Claimed::Busy { .. }) => {
                job.not_before = now.saturating_add(BUSY);
                if due.overlap == Overlap::CancelPrevious {
                    out.push(Command::EndRunning(due.job.clone()));
                }
            }
            Answer::Ledger(Claimed::Paused | Claimed::Outdated) => {
                job.not_before = now.saturating_add(BUSY);
                out.push(Command::ReadOrders);
            }
            Answer::Ledger(Claimed::Unregistered) => {
                let lost = u32::try_from(job.agenda.len()).unwrap_or(u32::MAX);
                skipped(SkipReason::DataLoss, lost);
                job.forget();
                out.push(Command::Register(due.job.clone()));
            }
            Answer::Ledger(Claimed::Fenced { epoch }) if current => {
                job.not_before = now.saturating_add(BUSY);
                out.push(Command::Resign { floor: epoch });
            }
            _ => job.not_before = now.saturating_add(BUSY),
        }
    }

    /// A run of this node has ended: what waited for it may be asked for at once.
    pub(crate) fn ended(&mut self, name: &LockName) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.running = job.running.saturating_sub(1);
            job.not_before = UtcTime::from_millis(i64::MIN);
        }
    }

    /// When to call [`tick`](Self::tick) next.
    pub(crate) fn wake_at(&self) -> Option<UtcTime> {
        if self.draining {
            return None;
        }
        let leading = self.epoch.is_some();
        let led = |job: &&Job| leading || job.terms.scope == Scope::PerNode;
        self.jobs.values().filter(led).filter_map(Job::wake_at).min()
    }

    fn fleet_jobs(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.values_mut().filter(|job| job.terms.scope == Scope::Fleet)
    }
}

/// The server's time in the whole milliseconds of schedules.
pub(crate) fn utc(time: lock_core::ServerTime) -> UtcTime {
    UtcTime::from_millis(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
