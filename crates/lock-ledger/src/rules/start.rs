//! The start of an attempt, and the overlap rule that can prevent it.

use super::state::{Attempts, Job, Open, Stage};
use crate::{
    ids::RunId,
    reply::ClaimReply,
    request::{ClaimRequest, OverlapRule},
};
use lock_core::{
    __private::{draw_tokens, expiry},
    clock::UtcTime,
};

/// Counts the other runs that are open and not orphaned.
pub(super) fn other_runs(job: &Job, now: UtcTime, run: RunId) -> u32 {
    let open = job.open.iter().filter(|(other, open)| **other != run && !open.is_over(now));
    u32::try_from(open.count()).unwrap_or(u32::MAX)
}

pub(super) fn forbids(rule: OverlapRule, running: u32) -> bool {
    match rule {
        OverlapRule::Skip | OverlapRule::Replace => running > 0,
        OverlapRule::Queue { max } | OverlapRule::Allow { max } => running >= max,
    }
}

/// Records an attempt as running, with a new token.
pub(super) fn start(job: &mut Job, now: UtcTime, r: &ClaimRequest, attempts: Attempts) -> ClaimReply {
    let (token, _) = draw_tokens(&mut job.counter, now, 0, None, None);
    let open = Open {
        claim: r.claim,
        attempts,
        token,
        node: r.node.clone(),
        catch_up: r.catch_up,
        started: now,
        expires_ms: expiry(now, r.lease),
        lease: r.lease,
        stage: Stage::Running,
        replaced: false,
        pool: r.pool.as_ref().map(|pool| pool.name.clone()),
        cancelled: false,
        declines: job.open.get(&r.run).map_or(0, |before| before.declines),
    };
    job.open.insert(r.run, open);
    ClaimReply::Claimed { token, attempt: attempts.number, failures: attempts.failures, payload: None }
}
