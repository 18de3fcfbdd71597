//! Which jobs of the group nobody leads: what is open or ordered for them is left lying.
//!
//! A leader cannot ask who knows which job, since each set of jobs has an election of its own. But a leader that knows a job looks
//! for its orphans at each third of a run's lease, and carries out its triggers within a second: what is left lying for
//! much longer belongs to a job that no living node has registered.

use super::Drive;
use crate::{observer::CronEvent, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{OpenRun, RunId, RunState, Trigger};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long a trigger waits before nobody is expected to carry it out.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How many times in a row an orphan is seen before nobody is expected to look after it.
const MOST_LOOKS: u32 = 3;

/// What is left lying for jobs that this node does not know.
#[derive(Debug, Default)]
pub(super) struct Unowned {
    triggers: Vec<Trigger>,
    orphans: BTreeMap<(LockName, RunId), u32>,
    /// Jobs with a run under way: a trigger may wait for its end.
    busy: BTreeSet<LockName>,
    told: BTreeSet<LockName>,
}

impl Drive {
    /// The triggers that wait now.
    pub(super) fn see_triggers(&mut self, triggers: &[Trigger]) {
        let foreign = triggers.iter().filter(|trigger| !self.jobs.contains_key(&trigger.job));
        self.unowned.triggers = foreign.cloned().collect();
        for trigger in self.overdue() {
            self.tell_unowned(trigger.job);
        }
    }

    /// The runs that are open now. Whether a trigger still waits is asked before anything is said.
    pub(super) fn see_open(&mut self, open: &[OpenRun]) {
        let foreign: Vec<_> = open.iter().filter(|run| !self.jobs.contains_key(&run.job)).collect();
        let (orphans, alive): (Vec<_>, Vec<_>) =
            foreign.into_iter().partition(|run| matches!(run.state, RunState::Orphaned | RunState::Released));
        self.unowned.busy = alive.into_iter().map(|run| run.job.clone()).collect();
        let before = std::mem::take(&mut self.unowned.orphans);
        for orphan in orphans {
            let key = (orphan.job.clone(), orphan.run);
            let looks = before.get(&key).map_or(1, |looks| looks + 1);
            if looks >= MOST_LOOKS {
                self.tell_unowned(orphan.job.clone());
            }
            self.unowned.orphans.insert(key, looks);
        }
        if !self.overdue().is_empty() {
            self.read_all_orders();
        }
    }

    fn overdue(&self) -> Vec<Trigger> {
        let now = self.now();
        let Unowned { triggers, busy, told, .. } = &self.unowned;
        let overdue = triggers.iter().filter(|trigger| {
            now.since(UtcTime::from(trigger.given)) > LONGEST_WAIT
                && !busy.contains(&trigger.job)
                && !told.contains(&trigger.job)
        });
        overdue.cloned().collect()
    }

    /// Once for each job and leadership.
    fn tell_unowned(&mut self, job: LockName) {
        if !self.unowned.told.contains(&job) {
            self.inner.node.observers.notify(|group| CronEvent::Unowned { group, job: &job });
            self.unowned.told.insert(job);
        }
    }
}
