//! The facts about its group that a node keeps between two replies of the store: the instances, the controls from
//! before a loss of data, the runs that nodes could not read, the jobs that no node has registered, and the offset of
//! the clocks.

use crate::{ledger_client::NO_REVISION, running::RunKey};
use lock_core::{__private::Backoff, LockName, clock::UtcTime};
use lock_ledger::{ABSENT_AFTER, JobControls, OpenRun, RunState, Trigger};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};
use tokio::time::Instant;

/// The pauses after failed reads, which can be large.
const READ_WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// The group's instances, as read by this node.
#[derive(Debug)]
pub(super) struct KnownInstances {
    /// The revision up to which they are known.
    pub(super) revision: u64,
    /// The last time at which the store had that revision.
    pub(super) current_at: UtcTime,
    /// The instances that this node cannot run.
    pub(super) foreign: BTreeSet<LockName>,
    /// Set while they are being read.
    pub(super) reading: bool,
    /// The earliest time of the next read.
    next_read: Instant,
    waits: Backoff,
}

impl Default for KnownInstances {
    fn default() -> Self {
        let (revision, current_at, foreign) = (NO_REVISION, UtcTime::default(), BTreeSet::new());
        Self { revision, current_at, foreign, reading: false, next_read: Instant::now(), waits: READ_WAITS }
    }
}

impl KnownInstances {
    /// Returns `true` if they may be read now.
    pub(super) fn may_be_read(&self) -> bool {
        !self.reading && Instant::now() >= self.next_read
    }

    /// Records that they are known up to this revision.
    pub(super) fn read(&mut self, revision: u64) {
        (self.revision, self.waits) = (revision, READ_WAITS);
    }

    /// Delays the next read.
    pub(super) fn read_failed(&mut self) {
        self.next_read = Instant::now() + self.waits.next_wait();
    }
}

/// The loss of the group's data in the store, and the controls that this node knew before it.
///
/// Rules:
/// - A group has a creation time. If it differs from the previous one, or is missing, the store lost the group's data.
///   The leader reports that once, and not for each job. A leader that lost its lock with the data reports it when it,
///   or another node, leads again.
/// - A node that notices the loss keeps the controls that it read before. It sends those of its own jobs to the store:
///   pauses, resumes and schedules, with the revisions that they had.
/// - The store keeps the controls with the highest revision, so nodes that read at different times agree on the
///   operators' last command. A command given after the loss has a higher revision than all of them.
/// - Controls that no running node has read are lost. Instances get their controls back if they are added again within
///   ten minutes.
#[derive(Debug, Default)]
pub(super) struct LostData {
    /// The creation time of the group.
    created: Option<UtcTime>,
    /// The controls to restore.
    pub(super) controls: BTreeMap<LockName, JobControls>,
    noticed: Option<Instant>,
    /// Set until the loss is reported, by this node or by another that leads.
    unreported: bool,
    /// Set while the controls are being sent.
    pub(super) sending: bool,
    /// Jobs that were new to the store although this leader had registered them. The next heartbeat shows whether the
    /// whole group was lost.
    pub(super) jobs: Vec<LockName>,
}

impl LostData {
    /// Handles the group's creation time, as read from the store. If it shows a loss, keeps the controls `known` before
    /// it.
    pub(super) fn read(&mut self, created: Option<UtcTime>, known: &mut BTreeMap<LockName, JobControls>) {
        let before = mem::replace(&mut self.created, created);
        if before.is_some() && before != created {
            (self.noticed, self.controls) = (Some(Instant::now()), mem::take(known));
            self.unreported = true;
        }
    }

    /// Returns `true` if a loss was not reported yet. `is_led` is set if there is a leader, who reports it.
    pub(super) fn take_unreported(&mut self, is_led: bool) -> bool {
        is_led && mem::take(&mut self.unreported)
    }

    /// Returns the controls that apply: those `read` from the store, or those from before the loss, while they are
    /// newer.
    pub(super) fn restored(
        &mut self,
        mut read: BTreeMap<LockName, JobControls>,
    ) -> BTreeMap<LockName, JobControls> {
        let is_recent = self.noticed.is_some_and(|at| at.elapsed() <= ABSENT_AFTER);
        let is_newer = |name: &LockName, before: &JobControls| {
            before.revision > read.get(name).map_or(0, |controls| controls.revision)
        };
        self.controls.retain(|name, before| is_recent && is_newer(name, before));
        read.extend(self.controls.clone());
        read
    }
}

/// The runs that this node has declined, and the news of those that any node has declined.
#[derive(Debug, Default)]
pub(super) struct DeclinedRuns {
    here: BTreeMap<RunKey, (Instant, String)>,
    /// The last revision at which a run was declined.
    seen: u64,
    /// The time at which this node looks again at those that it could not start.
    pub(super) look_again: Option<Instant>,
}

impl DeclinedRuns {
    /// Adds a run that this node has just declined.
    pub(super) fn insert(&mut self, key: RunKey, reason: String) {
        self.here.insert(key, (Instant::now(), reason));
    }

    /// Returns the time at which this node declined a run, and the reason.
    pub(super) fn get(&self, run: &OpenRun) -> Option<&(Instant, String)> {
        self.here.get(&RunKey { job: run.job.clone(), run: run.run })
    }

    /// Returns `true` if a run was declined since the last call.
    pub(super) fn is_news(&mut self, revision: u64) -> bool {
        mem::replace(&mut self.seen, revision) != revision
    }

    /// Forgets the runs that have ended.
    pub(super) fn retain(&mut self, open: &[OpenRun]) {
        self.here.retain(|key, _| open.iter().any(|run| run.job == key.job && run.run == key.run));
    }
}

/// The time for which a trigger waits before its job counts as unowned.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The number of consecutive checks in which an orphan is seen before its job counts as unowned.
const MAX_LOOKS: u32 = 3;

/// The orphans and triggers of jobs that this node does not have, during one leadership. They show the jobs that no
/// leader has registered, so that their orphans and triggers are not handled, and the instances whose kind no node has
/// registered.
///
/// A leader has no list of other nodes' jobs, because each set of jobs has its own election.
/// However, the leader of a job checks for orphans every third of a run's lease, and starts
/// triggers within a second. If a run or a trigger waits much longer, no live node has registered
/// its job.
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
        let before = mem::take(&mut self.orphans);
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

/// The change in the offset between two heartbeats above which it counts as a jump, in seconds. A
/// slow reply changes the estimate of the server's clock by less.
const MAX_CHANGE: f64 = 5.0;

/// The offset after the last heartbeat, in seconds.
#[derive(Debug, Default)]
pub(super) struct ClockOffset(Option<f64>);

impl ClockOffset {
    /// Records the offset after a heartbeat. Returns its change if that is a jump.
    pub(super) fn changed(&mut self, offset: f64) -> Option<f64> {
        let by = offset - self.0.replace(offset)?;
        (by.abs() > MAX_CHANGE).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_is_reported_once_and_drift_is_not() {
        let mut clock = ClockOffset::default();
        let changes = [100.0, 104.0, 108.0, 208.0, 208.0, 8.0].map(|offset| clock.changed(offset));
        assert_eq!(changes, [None, None, None, Some(100.0), None, Some(-200.0)]);
    }
}
