//! The backfills of a job: one run after another, while nothing else of the job waits.
//!
//! Only the leader plans them. Their progress is in the store, and a claim of an instant that is already started is
//! refused, so a plan may be outdated.

use super::{
    command::{ClaimOutcome, Command, Due},
    pending::PendingRun,
    planned_job::PlannedJob,
};
use crate::{options::Overlap, schedule::Schedule, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{ClaimReply, RunId};
use uuid::Uuid;

/// A backfill with instants left.
#[derive(Debug, Clone)]
pub(crate) struct PlannedBackfill {
    pub(crate) id: Uuid,
    pub(crate) schedule: Schedule,
    /// The time up to which its instants were started.
    pub(crate) mark: UtcTime,
    pub(crate) last: UtcTime,
}

impl PlannedJob {
    /// Takes the backfills in the store, oldest first. A mark that an answer to a claim has raised stays, even if they were
    /// read before it.
    pub(super) fn backfills_read(&mut self, read: Vec<PlannedBackfill>) {
        let known = std::mem::replace(&mut self.backfills, read);
        for backfill in &mut self.backfills {
            let before = known.iter().find(|before| before.id == backfill.id);
            backfill.mark = before.map_or(backfill.mark, |before| before.mark.max(backfill.mark));
        }
    }

    /// Makes the next instant of the oldest backfill pending, unless another run waits.
    pub(super) fn plan_backfill(&mut self, name: &LockName, out: &mut Vec<Command>) {
        if self.pending.give_way() {
            self.clear_backoff();
        }
        // Instants that came without a leader are not pending before the watermark is read and they are searched.
        let knows_waiting = self.cursor.is_some() && self.behind.is_none();
        let waits = !self.pending.is_empty() || self.on_time.due_at().is_some();
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
            // The zone data of this node has no further instant.
            out.push(Command::CloseBackfill { job: name.clone(), id: *id });
            self.backfills.remove(0);
        }
    }

    /// Takes the outcome of a claim of a backfill's run.
    pub(super) fn backfill_answered(&mut self, due: &Due, outcome: &ClaimOutcome, out: &mut Vec<Command>) {
        let (RunId::Backfill { id, at }, ClaimOutcome::Answered(reply)) = (due.run, outcome) else { return };
        match reply {
            ClaimReply::Claimed { .. } | ClaimReply::Skipped | ClaimReply::Gone => {
                if let Some(backfill) = self.backfills.iter_mut().find(|backfill| backfill.id == id) {
                    backfill.mark = backfill.mark.max(at);
                }
            }
            // It was withdrawn, or another leader has started it.
            ClaimReply::Duplicate | ClaimReply::Superseded => {
                self.backfills.retain(|backfill| backfill.id != id);
                out.push(Command::ReadControls);
            }
            _ => {}
        }
    }
}
