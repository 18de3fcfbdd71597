//! Jobs of the group that no leader has registered, so their orphans and triggers are not handled.
//! Instances whose kind no node has registered are reported with them.
//!
//! A leader has no list of other nodes' jobs, because each set of jobs has its own election.
//! However, the leader of a job checks for orphans every third of a run's lease, and starts
//! triggers within a second. If a run or a trigger waits much longer, no live node has registered
//! its job.

use crate::{running::RunKey, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{OpenRun, RunState, Trigger};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The time for which a trigger waits before its job counts as unowned.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The number of consecutive checks in which an orphan is seen before its job counts as unowned.
const MAX_LOOKS: u32 = 3;

/// The orphans and triggers of jobs that this node does not have, during one leadership.
#[derive(Debug, Default)]
pub(super) struct UnownedJobs {
    triggers: Vec<Trigger>,
    orphans: BTreeMap<RunKey, u32>,
    /// Jobs with an open run, which a trigger may be waiting for.
    busy: BTreeSet<LockName>,
    reported: BTreeSet<LockName>,
}

impl UnownedJobs {
    /// Records the pending triggers of jobs that this node does not have. Returns the jobs to report.
    pub(super) fn see_triggers(&mut self, triggers: Vec<Trigger>, now: UtcTime) -> Vec<LockName> {
        self.triggers = triggers;
        let overdue = self.overdue(now).map(|trigger| trigger.job.clone()).collect();
        self.report(overdue)
    }

    /// Records the open runs of jobs that this node does not have. Returns the jobs to report.
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

    /// Returns `true` if a trigger seems to be overdue. Before reporting its job, the caller must check in the store
    /// whether the trigger is still waiting.
    pub(super) fn has_overdue_trigger(&self, now: UtcTime) -> bool {
        self.overdue(now).next().is_some()
    }

    fn overdue(&self, now: UtcTime) -> impl Iterator<Item = &Trigger> {
        self.triggers.iter().filter(move |trigger| {
            now.since(trigger.given) > MAX_WAIT
                && !self.busy.contains(&trigger.job)
                && !self.reported.contains(&trigger.job)
        })
    }

    /// Selects the jobs to report, each once per leadership.
    pub(super) fn report(&mut self, jobs: Vec<LockName>) -> Vec<LockName> {
        jobs.into_iter().filter(|job| self.reported.insert(job.clone())).collect()
    }
}
