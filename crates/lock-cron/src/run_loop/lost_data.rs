//! A loss of the data of the group, and the controls that this node knew before.
//!
//! Rules:
//! - A group has a time of creation. If it differs from the one before, or is missing, the store lost the data of the
//!   group. The leader reports that once, in the place of a report for each job.
//! - A node that notices it keeps the controls that it read before, and sends those of its jobs to the store: pauses,
//!   resumes and schedules, with the revisions that they had.
//! - The store keeps those of the highest revision, so nodes that read at different times agree on the last command of
//!   an operator. A command since the loss has a higher revision than all of them.
//! - Controls that no running node has read are lost. Instances get their controls back if they are added again within
//!   ten minutes.

use super::{effect::Effect, state::RunLoop};
use crate::observer::CronEvent;
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{ABSENT_AFTER, CommandReply, JobCommand, JobControls};
use std::{collections::BTreeMap, mem};
use tokio::time::Instant;

/// The creation of the group, and the controls to set again.
#[derive(Debug, Default)]
pub(super) struct LostData {
    created: Option<UtcTime>,
    controls: BTreeMap<LockName, JobControls>,
    noticed: Option<Instant>,
    /// Set while they are sent.
    sending: bool,
    /// Jobs that were new to the store although this leader had registered them. The next heartbeat tells whether the
    /// whole group was lost.
    pub(super) jobs: Vec<LockName>,
}

impl RunLoop {
    /// Takes the creation of the group and the controls that the store has. Returns the controls that apply.
    pub(super) fn remembered(
        &mut self,
        created: Option<UtcTime>,
        mut read: BTreeMap<LockName, JobControls>,
    ) -> BTreeMap<LockName, JobControls> {
        let before = mem::replace(&mut self.lost.created, created);
        if before.is_some() && before != created {
            self.lost.noticed = Some(Instant::now());
            self.lost.controls = mem::take(&mut self.controls);
            self.report_lost_group();
        }
        let is_recent = self.lost.noticed.is_some_and(|at| at.elapsed() <= ABSENT_AFTER);
        let is_newer = |name: &LockName, before: &JobControls| {
            before.revision > read.get(name).map_or(0, |controls| controls.revision)
        };
        self.lost.controls.retain(|name, before| is_recent && is_newer(name, before));
        read.extend(self.lost.controls.clone());
        read
    }

    fn report_lost_group(&mut self) {
        if self.leadership.is_some() {
            self.shared.node.observers.notify(|group| CronEvent::DataLost { group, job: None });
            // Each would be reported as lost, too.
            self.registered.clear();
            self.lost.jobs.clear();
            self.timers.registration = Instant::now();
        }
    }

    /// Reports the jobs whose data was lost alone.
    pub(super) fn report_lost_jobs(&mut self) {
        for job in mem::take(&mut self.lost.jobs) {
            self.shared.node.observers.notify(|group| CronEvent::DataLost { group, job: Some(&job) });
        }
    }

    /// Sends the controls of this node's jobs from before the loss. Those of an instance wait until the store has it
    /// again: a watermark of now would decide an only instant that is late.
    pub(super) fn reinstate(&mut self) {
        let is_known =
            |job| self.jobs.contains_key(job) && !(self.instances.reading && self.is_instance(job));
        let lost = self.lost.controls.iter().filter(|(job, _)| is_known(job));
        let lost: Vec<_> = lost.map(|(job, controls)| (job.clone(), controls.clone())).collect();
        if lost.is_empty() || mem::replace(&mut self.lost.sending, true) {
            return;
        }
        let node = self.shared.node.clone();
        let send = async move {
            for (job, controls) in lost {
                match node.ledger.command(&job, JobCommand::Reinstate(controls)).await {
                    Ok(CommandReply::Accepted { .. }) => {
                        tracing::warn!(cron.job = %job, "controls restored after data loss");
                    }
                    Ok(_) => {}
                    Err(error) => node.store_failed(&error),
                }
            }
            Effect::Reinstated
        };
        self.spawn(send, Effect::Reinstated);
    }

    pub(super) fn reinstated(&mut self) {
        self.lost.sending = false;
    }
}
