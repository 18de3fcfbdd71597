//! The loss of the group's data in the store, and the controls that this node knew before it.
//!
//! Rules:
//! - A group has a creation time. If it differs from the previous one, or is missing, the store lost the group's data.
//!   The leader reports that once, and not for each job.
//! - A node that notices the loss keeps the controls that it read before. It sends those of its own jobs to the store:
//!   pauses, resumes and schedules, with the revisions that they had.
//! - The store keeps the controls with the highest revision, so nodes that read at different times agree on the
//!   operators' last command. A command given after the loss has a higher revision than all of them.
//! - Controls that no running node has read are lost. Instances get their controls back if they are added again within
//!   ten minutes.

use super::{effect::Effect, state::RunLoop};
use crate::observer::CronEvent;
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{ABSENT_AFTER, CommandReply, JobCommand, JobControls};
use std::{collections::BTreeMap, mem};
use tokio::time::Instant;

/// The creation time of the group, and the controls to restore.
#[derive(Debug, Default)]
pub(super) struct LostData {
    created: Option<UtcTime>,
    controls: BTreeMap<LockName, JobControls>,
    noticed: Option<Instant>,
    /// Set while the controls are being sent.
    sending: bool,
    /// Jobs that were new to the store although this leader had registered them. The next heartbeat shows whether the
    /// whole group was lost.
    pub(super) jobs: Vec<LockName>,
}

impl RunLoop {
    /// Handles the group's creation time and controls, as read from the store. Returns the controls that apply.
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
            // Otherwise each job would be reported as lost, too.
            self.registered.clear();
            self.lost.jobs.clear();
            self.timers.registration = Instant::now();
        }
    }

    /// Reports jobs that lost their data while the group kept its own.
    pub(super) fn report_lost_jobs(&mut self) {
        for job in mem::take(&mut self.lost.jobs) {
            self.shared.node.observers.notify(|group| CronEvent::DataLost { group, job: Some(&job) });
        }
    }

    /// Sends the controls of this node's jobs from before the loss. Those of an instance wait until
    /// the store has the instance again. Otherwise, the instance would get the current time as its
    /// watermark, which would decide the late run of an instance that runs once.
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
