//! Backfills, which run a job for past scheduled times, one at a time, in ascending order.
//!
//! ```text
//!            command                  claim of its last time, or withdrawn
//!  nothing ──────────▶ mark < last ─────────────────────────────────────────▶ nothing
//!                         │    ▲
//!                         └────┘ claim: the mark rises to its time
//! ```

use super::state::{GroupLedger, Job};
use crate::{
    backfill::{Backfill, BackfillRequest},
    control::CommandReply,
    ids::RunId,
    limits::{MAX_BACKFILLS, MAX_BACKFILLS_PER_JOB},
    reply::ClaimReply,
};
use lock_core::{LockName, clock::UtcTime};
use std::{collections::BTreeMap, time::Duration};
use uuid::Uuid;

impl GroupLedger {
    /// Starts a backfill.
    pub(super) fn backfill(&mut self, now: UtcTime, job: &LockName, r: &BackfillRequest) -> CommandReply {
        // Accepts a command that was delivered again after its runs started.
        let known = |job: &Job| {
            let mut runs = job.open.keys().chain(job.history.iter().map(|entry| &entry.run));
            runs.any(|run| run.backfill() == Some(r.id))
        };
        if self.backfills.contains_key(&r.id) || self.jobs.get(job).is_some_and(known) {
            return CommandReply::Accepted { revision: self.revision };
        }
        let of_job = self.backfills.values().filter(|backfill| backfill.job == *job);
        if self.backfills.len() >= MAX_BACKFILLS || of_job.count() >= MAX_BACKFILLS_PER_JOB {
            return CommandReply::Full;
        }
        let backfill = Backfill {
            id: r.id,
            job: job.clone(),
            given: now,
            first: r.first,
            mark: UtcTime::from_millis(r.first.as_millis().saturating_sub(1)),
            last: r.last,
            count: r.count,
            done: 0,
            schedule: r.schedule.clone(),
            dst: r.dst.clone(),
        };
        self.backfills.insert(r.id, backfill);
        CommandReply::Accepted { revision: self.raise_revision(now) }
    }

    /// Withdraws a backfill.
    pub(super) fn cancel_backfill(&mut self, now: UtcTime, job: &LockName, id: Uuid) -> CommandReply {
        match self.backfills.get(&id).filter(|backfill| backfill.job == *job) {
            Some(_) => {
                self.backfills.remove(&id);
                CommandReply::Accepted { revision: self.raise_revision(now) }
            }
            None => CommandReply::Gone,
        }
    }
}

/// Returns the reply to a claim of a backfill run that cannot start.
pub(super) fn refuse(
    job: &Job,
    now: UtcTime,
    backfill: Option<&Backfill>,
    at: UtcTime,
) -> Option<ClaimReply> {
    if job.controls.paused {
        return Some(ClaimReply::Paused);
    }
    let Some(backfill) = backfill else { return Some(ClaimReply::Duplicate) };
    let is_open = |run: &&RunId| run.backfill() == Some(backfill.id);
    if at == backfill.mark || job.open.contains_key(&RunId::Backfill { id: backfill.id, at }) {
        return Some(ClaimReply::Duplicate);
    }
    if at < backfill.mark || at > backfill.last {
        return Some(ClaimReply::Superseded);
    }
    let (at_ms, now_ms) = (at.as_millis(), now.as_millis());
    if at_ms > now_ms {
        return Some(ClaimReply::Early { wait: Duration::from_millis(at_ms - now_ms) });
    }
    // Includes a run whose node has crashed, since a leader continues or ends it.
    let running = u32::try_from(job.open.keys().filter(is_open).count()).unwrap_or(u32::MAX);
    (running > 0).then_some(ClaimReply::Busy { running })
}

/// Raises a backfill's mark to a decided scheduled time.
pub(super) fn advance(backfills: &mut BTreeMap<Uuid, Backfill>, id: Uuid, at: UtcTime) {
    if let Some(backfill) = backfills.get_mut(&id) {
        (backfill.mark, backfill.done) = (at, backfill.done.saturating_add(1));
        if at >= backfill.last {
            backfills.remove(&id);
        }
    }
}
