//! Further attempts of a run, after a failure, an interruption or a node crash, or if its body
//! never began.

use super::{
    start::{forbids, other_runs, start},
    state::{Attempts, Job, Open, Stage},
};
use crate::{
    reply::ClaimReply,
    request::{ClaimRequest, RetryOf},
    run::RunOutcome,
};
use lock_core::clock::UtcTime;

/// Claims the next attempt. The caller need not be the leader, because it already has the claim of
/// the last attempt.
pub(super) fn claim_retry(
    job: &mut Job,
    now: UtcTime,
    r: &ClaimRequest,
    retry_of: RetryOf,
    refused_by_pool: Option<ClaimReply>,
) -> ClaimReply {
    let can_be_followed = |open: &&Open| open.claim == retry_of.claim && !open.cancelled;
    let Some(open) = job.open.get(&r.run).filter(can_be_followed) else { return ClaimReply::Gone };
    let Some(next) = next(open, retry_of) else { return ClaimReply::Gone };
    let running = other_runs(job, now, r.run);
    if open.stage == Stage::Running && !open.is_over(now) {
        return ClaimReply::Busy { running: running + 1 };
    }
    // Always busy: a retry neither ends a later run that has started in the meantime, nor runs
    // beside it.
    if forbids(r.overlap, running) {
        return ClaimReply::Busy { running };
    }
    if let Some(refused) = refused_by_pool {
        return refused;
    }
    if open.stage == Stage::Running {
        let orphan =
            open.ended(r.run, now, RunOutcome::Abandoned, "its lease expired before an outcome was recorded");
        job.remember(orphan, r.history);
    }
    start(job, now, r, next)
}

/// Returns the next attempt if the budgets allow one.
fn next(open: &Open, budget: RetryOf) -> Option<Attempts> {
    let Attempts { number, failures, orphanings } = open.attempts;
    let allowed = match open.stage {
        Stage::Unbegun => true,
        Stage::Failed => failures <= budget.failures,
        Stage::Interrupted | Stage::Running => orphanings < budget.orphanings,
    };
    let next = match open.stage {
        Stage::Unbegun => open.attempts,
        Stage::Failed => Attempts { number: number + 1, ..open.attempts },
        Stage::Interrupted | Stage::Running => {
            Attempts { number: number + 1, failures, orphanings: orphanings + 1 }
        }
    };
    allowed.then_some(next)
}
