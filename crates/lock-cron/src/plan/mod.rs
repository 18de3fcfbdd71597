//! The planner: what is due, what was missed, what to ask for next. A plain value; `now` is an argument, answers are commands.
//!
//! ```text
//!  of each job              instant comes              asked                 claimed, skipped, decided elsewhere
//!      decided up to `cursor` ────────▶ on the agenda ─────▶ in flight ─────────────────────────────────▶ decided
//!                                            ▲                  │  early · busy · outdated
//!                                            └──────────────────┘
//! ```
//!
//! Events: led, resigned, registered (with the watermark), orders, tick, answered, ended. Commands: claim (or skip), start here
//! (jobs of each node), end the running ones, register, read the orders, count what is skipped.
//!
//! Invariants:
//! - nothing is asked for without leadership, while paused, or while draining;
//! - at most one claim of a job is in flight, and they go in ascending order;
//! - `cursor` and agenda never go back: what was decided or skipped is not asked for again under the same leadership;
//! - the length of an agenda and the work of a tick are bounded, however long an outage was.

mod agenda;
mod job;
mod missed;

use crate::{
    backoff::Backoff,
    observer::SkipReason,
    options::{Overlap, Scope, Terms},
    schedule::Schedule,
    time::UtcTime,
};
use agenda::{Agenda, Entry};
use job::Job;
use lock_core::LockName;
use lock_ledger::{CatchUp, ClaimId, ClaimReply, Registration, RunId, Skip};
pub(crate) use missed::Budget;
use std::{collections::BTreeMap, time::Duration};

/// The wait before a claim is sent again.
const PAUSE: Duration = Duration::from_millis(250);

/// The waits of a claim while other runs are open. They are over when a run of this node ends.
const BUSY: Backoff = Backoff::new(PAUSE, Duration::from_secs(5));

/// A run to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) job: LockName,
    pub(crate) run: RunId,
    pub(crate) catch_up: CatchUp,
    /// The overlap policy of this run: catch-up runs queue.
    pub(crate) overlap: Overlap,
    /// It is decided and not started.
    pub(crate) skip: Option<Skip>,
    pub(crate) schedule: u64,
    pub(crate) revision: u64,
    /// The claim of an earlier request that may still be carried out.
    pub(crate) in_doubt: Option<ClaimId>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Claim it, or have it skipped.
    Claim(Due),
    /// Start it, on this node, without a claim.
    StartHere(Due),
    /// Ask the runs of this job on this node to end.
    EndRunning(LockName),
    /// Register the job again, and tell its watermark.
    Register(LockName),
    /// Read the orders.
    ReadOrders,
    /// Count runs that will not be.
    Skipped { job: LockName, reason: SkipReason, count: u32 },
}

/// The answer to a [`Command::Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The ledger said so.
    Ledger(ClaimReply),
    /// The store could not be asked; nothing was claimed.
    Failed,
}

/// What is planned of a group of jobs.
#[derive(Debug, Default)]
pub(crate) struct Planner {
    jobs: BTreeMap<LockName, Job>,
    leading: bool,
    draining: bool,
}

impl Planner {
    /// Takes a job in. One of each node begins at once.
    pub(crate) fn add(&mut self, now: UtcTime, name: LockName, schedule: Schedule, terms: Terms) {
        let mut job = Job {
            identity: schedule.identity(),
            schedule,
            terms,
            revision: 0,
            paused: false,
            cursor: None,
            next: None,
            behind: None,
            follows_catch_up: false,
            agenda: Agenda::default(),
            not_before: UtcTime::from_millis(i64::MIN),
            busy: BUSY,
            running: 0,
        };
        if job.terms.scope == Scope::PerNode {
            job.decided_up_to(now);
        }
        self.jobs.insert(name, job);
    }

    /// This node leads from now on; the watermarks come with [`registered`](Self::registered).
    pub(crate) fn led(&mut self) {
        self.leading = true;
    }

    /// This node leads no more. What is in flight is answered all the same.
    pub(crate) fn resigned(&mut self) {
        self.leading = false;
        for job in self.fleet_jobs() {
            job.forget();
        }
    }

    /// Nothing is started any more.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// A job as the store is to know it.
    pub(crate) fn registration(&self, name: &LockName) -> Option<Registration> {
        let job = self.jobs.get(name)?;
        Some(Registration { job: name.clone(), schedule: job.identity })
    }

    /// Whether nothing of the job is planned before its watermark is known.
    pub(crate) fn waits_for_watermark(&self, name: &LockName) -> bool {
        self.jobs.get(name).is_some_and(|job| job.cursor.is_none())
    }

    /// The watermark of a job with this schedule. Instants before it are no longer asked for.
    pub(crate) fn registered(&mut self, registration: &Registration, watermark: UtcTime) {
        let Some(job) = self.jobs.get_mut(&registration.job).filter(|job| job.terms.scope == Scope::Fleet)
        else {
            return;
        };
        // The orders have changed it meanwhile: another registration is under way.
        if job.identity != registration.schedule {
            return;
        }
        if job.cursor.is_none_or(|cursor| cursor < watermark) {
            job.decided_up_to(watermark);
        }
        job.agenda.drop_decided(watermark);
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
        let leading = self.leading;
        let Some(job) = self.jobs.get_mut(name) else { return };
        if job.revision == revision {
            return;
        }
        job.identity = schedule.identity();
        (job.revision, job.paused, job.schedule) = (revision, paused, schedule);
        job.forget();
        if leading {
            out.push(Command::Register(name.clone()));
        }
    }

    /// A run that was triggered by hand.
    pub(crate) fn triggered(&mut self, name: &LockName, run: RunId) {
        let leading = self.leading;
        let Some(job) = self.jobs.get_mut(name).filter(|job| job.terms.scope == Scope::Fleet) else { return };
        if leading && !job.agenda.has(run) {
            job.agenda.push(Entry::triggered(run));
        }
    }

    /// Plans what is due. Jobs that are left over when the budget is spent are due at once in [`wake_at`](Self::wake_at).
    pub(crate) fn tick(&mut self, now: UtcTime, budget: &mut Budget, out: &mut Vec<Command>) {
        if self.draining {
            return;
        }
        let leading = self.leading;
        let mut behind = Vec::new();
        for (name, job) in &mut self.jobs {
            if leading || job.terms.scope == Scope::PerNode {
                job.list_due(name, now, out);
                job.ask(name, now, out);
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
            job.ask(name, now, out);
        }
    }

    /// A claim was answered.
    pub(crate) fn answered(&mut self, now: UtcTime, due: &Due, answer: Answer, out: &mut Vec<Command>) {
        let Some(job) = self.jobs.get_mut(&due.job) else { return };
        let asked = std::mem::take(&mut job.agenda.in_flight);
        if !asked || job.agenda.front().is_none_or(|entry| entry.run != due.run) {
            return;
        }
        if let Some(front) = job.agenda.front_mut() {
            front.in_doubt = due.in_doubt;
            front.early = matches!(answer, Answer::Ledger(ClaimReply::Early { .. }));
        }
        let row = job.agenda.front().and_then(|entry| entry.skip);
        let (reason, count) = row.map_or((SkipReason::Overlap, 1), |row| (row.reason, row.count));
        let mut skipped = |reason, count| out.push(Command::Skipped { job: due.job.clone(), reason, count });
        match answer {
            Answer::Ledger(ClaimReply::Claimed { .. }) => job.decided(),
            Answer::Ledger(ClaimReply::Skipped) => {
                skipped(reason, count);
                job.decided();
            }
            Answer::Ledger(ClaimReply::Expired) => {
                skipped(SkipReason::Expired, 1);
                job.decided();
            }
            Answer::Ledger(ClaimReply::Duplicate | ClaimReply::Superseded | ClaimReply::Gone) => {
                skipped(SkipReason::DecidedElsewhere, count);
                job.decided();
            }
            Answer::Ledger(ClaimReply::Early { wait }) => job.not_before = now.saturating_add(wait),
            Answer::Ledger(ClaimReply::Busy { .. }) => {
                job.ask_later(now);
                if due.overlap == Overlap::CancelPrevious {
                    out.push(Command::EndRunning(due.job.clone()));
                }
            }
            Answer::Ledger(ClaimReply::Paused | ClaimReply::Outdated) => {
                job.not_before = now.saturating_add(PAUSE);
                out.push(Command::ReadOrders);
            }
            Answer::Ledger(ClaimReply::Unregistered) => {
                skipped(SkipReason::DataLoss, job.agenda.count());
                job.forget();
                out.push(Command::Register(due.job.clone()));
            }
            _ => job.not_before = now.saturating_add(PAUSE),
        }
    }

    /// A run of this node has ended: what waited for it may be asked for at once.
    pub(crate) fn ended(&mut self, name: &LockName) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.running = job.running.saturating_sub(1);
            job.ask_at_once();
        }
    }

    /// When to call [`tick`](Self::tick) next.
    pub(crate) fn wake_at(&self) -> Option<UtcTime> {
        if self.draining {
            return None;
        }
        let leading = self.leading;
        let led = |job: &&Job| leading || job.terms.scope == Scope::PerNode;
        self.jobs.values().filter(led).filter_map(Job::wake_at).min()
    }

    fn fleet_jobs(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.values_mut().filter(|job| job.terms.scope == Scope::Fleet)
    }
}

#[cfg(test)]
mod tests;
