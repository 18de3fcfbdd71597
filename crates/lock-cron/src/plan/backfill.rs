//! The planning of a job's backfills: one run at a time, and only while no other run of the job is waiting.
//!
//! Only the leader plans backfills. The store keeps their progress and rejects a claim of a scheduled
//! time that has already started, so a plan may be outdated.

use super::{
    command::{ClaimOutcome, Command, Due},
    pending::PendingRun,
    planned_job::PlannedJob,
};
use crate::{options::Overlap, schedule::Schedule, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{ClaimReply, RunId};
use uuid::Uuid;

/// An unfinished backfill.
#[derive(Debug, Clone)]
pub(crate) struct PlannedBackfill {
    pub(crate) id: Uuid,
    pub(crate) schedule: Schedule,
    /// The scheduled time up to which runs were started.
    pub(crate) mark: UtcTime,
    pub(crate) last: UtcTime,
}

impl PlannedJob {
    /// Sets the backfills from the store, oldest first. A mark raised by the reply to a claim is
    /// kept, even if this read began before that reply.
    pub(super) fn backfills_read(&mut self, read: Vec<PlannedBackfill>) {
        let known = std::mem::replace(&mut self.backfills, read);
        for backfill in &mut self.backfills {
            let before = known.iter().find(|before| before.id == backfill.id);
            backfill.mark = before.map_or(backfill.mark, |before| before.mark.max(backfill.mark));
        }
    }

    /// Makes the next scheduled time of the oldest backfill pending, unless another run is waiting.
    pub(super) fn plan_backfill(&mut self, name: &LockName, out: &mut Vec<Command>) {
        self.pending.give_way();
        // Scheduled times that passed without a leader only become pending once the watermark has
        // been read and they have been found by a search.
        let knows_waiting = self.cursor.is_some() && self.behind.is_none();
        let waits = !self.pending.is_empty() || !self.on_time.due.is_empty();
        if self.paused || waits || !knows_waiting {
            return;
        }
        while let Some(PlannedBackfill { id, schedule, mark, last }) = self.backfills.first() {
            if let Some(at) = schedule.next_after(*mark).filter(|at| at <= last) {
                let run = RunId::Backfill { id: *id, at };
                let queues = !matches!(self.terms.overlap, Overlap::Allow { .. });
                self.pending.push(PendingRun::backfill(run, queues));
                return;
            }
            // According to this node's zone data, there are no further scheduled times.
            out.push(Command::CloseBackfill { job: name.clone(), id: *id });
            self.backfills.remove(0);
        }
    }

    /// Handles the outcome of a claim for a backfill run.
    pub(super) fn backfill_answered(&mut self, due: &Due, outcome: &ClaimOutcome, out: &mut Vec<Command>) {
        let (RunId::Backfill { id, at }, ClaimOutcome::Answered(reply)) = (due.request.run, outcome) else {
            return;
        };
        match reply {
            ClaimReply::Claimed { .. } | ClaimReply::Skipped | ClaimReply::Gone => {
                if let Some(backfill) = self.backfills.iter_mut().find(|backfill| backfill.id == id) {
                    backfill.mark = backfill.mark.max(at);
                }
            }
            // The backfill was withdrawn, or another leader started the scheduled time.
            ClaimReply::Duplicate | ClaimReply::Superseded => {
                self.backfills.retain(|backfill| backfill.id != id);
                out.push(Command::ReadControls);
            }
            _ => {}
        }
    }
}
