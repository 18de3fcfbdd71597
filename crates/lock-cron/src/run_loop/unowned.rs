//! Jobs of the group that no leader has registered: their orphans and triggers are not taken.
//!
//! A leader cannot ask which node knows which job, since each set of jobs has its own election. But a leader that knows a job looks
//! for its orphans at each third of a run's lease, and starts its triggers within a second. A run or trigger that is not taken for
//! much longer belongs to a job that no living node has registered.

use crate::{running::RunKey, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{OpenRun, RunState, Trigger};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The time for which a trigger waits before its job counts as unowned.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The number of times in a row that an orphan is seen before its job counts as unowned.
const MAX_LOOKS: u32 = 3;

/// The orphans and triggers of jobs that this node does not know, under one leadership.
#[derive(Debug, Default)]
pub(super) struct UnownedJobs {
    triggers: Vec<Trigger>,
    orphans: BTreeMap<RunKey, u32>,
    /// Jobs with a run under way: a trigger may wait for its end.
    busy: BTreeSet<LockName>,
    reported: BTreeSet<LockName>,
}

impl UnownedJobs {
    /// Takes the triggers that wait now, of jobs that this node does not know. Returns the jobs to report.
    pub(super) fn see_triggers(&mut self, triggers: Vec<Trigger>, now: UtcTime) -> Vec<LockName> {
        self.triggers = triggers;
        let overdue = self.overdue(now).map(|trigger| trigger.job.clone()).collect();
        self.report(overdue)
    }

    /// Takes the runs that are open now, of jobs that this node does not know. Returns the jobs to report.
    pub(super) fn see_open_runs(&mut self, runs: Vec<OpenRun>) -> Vec<LockName> {
        let is_left = |run: &OpenRun| matches!(run.state, RunState::Orphaned | RunState::Released);
        let (left, alive): (Vec<_>, Vec<_>) = runs.into_iter().partition(is_left);
        self.busy = alive.into_iter().map(|run| run.job).collect();
        let before = std::mem::take(&mut self.orphans);
        let look = |run: OpenRun| {
            let key = RunKey { job: run.job, run: run.run };
            let looks = before.get(&key).map_or(1, |looks| looks + 1);
            (key, looks)
        };
        self.orphans = left.into_iter().map(look).collect();
        let unowned = self.orphans.iter().filter(|(_, looks)| **looks >= MAX_LOOKS);
        let unowned = unowned.map(|(key, _)| key.job.clone()).collect();
        self.report(unowned)
    }

    /// Returns whether a trigger seems to be overdue. Whether it still waits has to be read before it is reported.
    pub(super) fn has_overdue_trigger(&self, now: UtcTime) -> bool {
        self.overdue(now).next().is_some()
    }

    fn overdue(&self, now: UtcTime) -> impl Iterator<Item = &Trigger> {
        self.triggers.iter().filter(move |trigger| {
            now.since(trigger.given.into()) > MAX_WAIT
                && !self.busy.contains(&trigger.job)
                && !self.reported.contains(&trigger.job)
        })
    }

    /// Each job is reported once in a leadership.
    fn report(&mut self, jobs: Vec<LockName>) -> Vec<LockName> {
        jobs.into_iter().filter(|job| self.reported.insert(job.clone())).collect()
    }
}
