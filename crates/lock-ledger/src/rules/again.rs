//! Further attempts of a run: after a failure, an interruption, the death of its node, or before its body began.

use super::{Job, Open, Stage, claim};
use crate::{Again, ClaimRequest, Claimed, RunOutcome};
use lock_core::ServerTime;

/// Needs no leadership: the claim of the last attempt is the proof of knowing the run.
pub(super) fn claim_again(job: &mut Job, now: ServerTime, r: &ClaimRequest, again: Again) -> Claimed {
    let Some(open) = job.open.get(&r.run).filter(|open| open.claim == again.claim) else {
        return Claimed::Gone;
    };
    let Some(next) = next(open, again) else { return Claimed::Gone };
    let running = claim::others(job, now, r.run);
    if open.stage == Stage::Running && !open.is_over(now) {
        return Claimed::Busy { running: running + 1 };
    }
    // A later run that began meanwhile is not ended, and not joined, by an older one.
    if claim::forbids(r.overlap, running) {
        return Claimed::Busy { running };
    }
    if open.stage == Stage::Running {
        let orphan = open.ended(r.run, now, RunOutcome::Abandoned, "its lease ended without a record");
        job.remember(orphan, r.history);
    }
    claim::start(job, now, r, next)
}

/// The numbers of the next attempt: its own, and those of the failures and orphanings before it.
fn next(open: &Open, again: Again) -> Option<(u32, u32, u32)> {
    let Open { attempt, failures, orphanings, .. } = *open;
    match open.stage {
        Stage::Unbegun => Some((attempt, failures, orphanings)),
        Stage::Failed => (failures <= again.failures).then_some((attempt + 1, failures, orphanings)),
        Stage::Interrupted | Stage::Running => {
            (orphanings < again.orphanings).then_some((attempt + 1, failures, orphanings + 1))
        }
    }
}
