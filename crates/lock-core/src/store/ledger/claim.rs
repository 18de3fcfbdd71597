//! Whether a run may start: the order of the questions is the safety of the scheduler.

use super::{GroupLedger, Job, Open};
use crate::{
    backend::ledger::{Attempt, ClaimRequest, Claimed, OverlapRule, RunId, RunOutcome},
    store::{expiry, tokens},
    time::ServerTime,
    token::FencingToken,
};
use std::time::Duration;

impl GroupLedger {
    /// Decides a claim.
    pub fn claim(&mut self, now: ServerTime, r: &ClaimRequest) -> Claimed {
        let Some(job) = self.jobs.get_mut(&r.job.name) else { return Claimed::Unregistered };
        if let Some(answer) = repeated(job, r) {
            return answer;
        }
        if r.again.is_some() {
            return claim_again(job, now, r);
        }
        if r.epoch < job.epoch {
            return Claimed::Fenced { epoch: job.epoch };
        }
        let refused = match r.run {
            RunId::Scheduled(at) => refuse_instant(job, now, at, r),
            RunId::Triggered(id) => {
                let pending =
                    self.triggers.iter().any(|trigger| trigger.id == id && trigger.job == r.job.name);
                (!pending || job.knows(r.run)).then_some(Claimed::Duplicate)
            }
        };
        if let Some(refused) = refused {
            return refused;
        }
        let running = others(job, now, r.run);
        match r.overlap {
            OverlapRule::Queue if running > 0 => return Claimed::Busy { running },
            OverlapRule::Replace if running > 0 => {
                for open in job.open.values_mut().filter(|open| !open.is_over(now)) {
                    open.replaced = true;
                }
                return Claimed::Busy { running };
            }
            _ => {}
        }
        let skips = forbids(r.overlap, running);
        job.epoch = job.epoch.max(r.epoch);
        match r.run {
            RunId::Scheduled(at) => job.raise_watermark(at.as_millis()),
            RunId::Triggered(id) => self.triggers.retain(|trigger| trigger.id != id),
        }
        if skips {
            job.remember(skipped(now, r, running));
            return Claimed::Skipped { running };
        }
        start(job, now, r, 1)
    }
}

/// The first answer to the same claim.
fn repeated(job: &Job, r: &ClaimRequest) -> Option<Claimed> {
    if let Some(open) = job.open.get(&r.run).filter(|open| open.claim == r.claim) {
        return Some(Claimed::Claimed { token: open.token, attempt: open.attempt });
    }
    let ended = job.remembers(r.run, r.claim)?;
    Some(match ended.outcome {
        RunOutcome::Skipped => Claimed::Skipped { running: counted(&ended.detail) },
        _ => Claimed::Claimed { token: ended.token, attempt: ended.attempt },
    })
}

/// Retries and orphans. It needs no leadership: naming the last claim is the proof of knowing the run.
fn claim_again(job: &mut Job, now: ServerTime, r: &ClaimRequest) -> Claimed {
    let (Some(again), Some(open)) = (r.again, job.open.get(&r.run)) else { return Claimed::Gone };
    if open.claim != again.claim || open.attempt >= again.most {
        return Claimed::Gone;
    }
    let running = others(job, now, r.run);
    if !(open.waiting || open.is_over(now)) {
        return Claimed::Busy { running: running + 1 };
    }
    // Another run that began meanwhile is not ended, and not joined, by an older one.
    if forbids(r.overlap, running) {
        return Claimed::Busy { running };
    }
    let attempt = open.attempt + 1;
    if !open.waiting {
        let orphan = open.ended(r.run, now, RunOutcome::Abandoned, "its lease ended without a word");
        job.remember(orphan);
    }
    start(job, now, r, attempt)
}

fn refuse_instant(job: &Job, now: ServerTime, at: ServerTime, r: &ClaimRequest) -> Option<Claimed> {
    if job.orders.paused {
        return Some(Claimed::Paused);
    }
    if job.orders.revision != r.revision {
        return Some(Claimed::Outdated);
    }
    let at_ms = at.as_millis();
    if at_ms == job.watermark_ms {
        return Some(Claimed::Duplicate);
    }
    if at_ms < job.watermark_ms {
        return Some(Claimed::Superseded);
    }
    let tolerance = u64::try_from(r.tolerance.as_millis()).unwrap_or(u64::MAX);
    let may_begin = at_ms.saturating_sub(tolerance);
    (may_begin > now.as_millis())
        .then(|| Claimed::Early { wait: Duration::from_millis(may_begin - now.as_millis()) })
}

/// How many other runs are open and not orphaned.
fn others(job: &Job, now: ServerTime, run: RunId) -> u32 {
    let open = job.open.iter().filter(|(other, open)| **other != run && !open.is_over(now));
    u32::try_from(open.count()).unwrap_or(u32::MAX)
}

fn forbids(rule: OverlapRule, running: u32) -> bool {
    match rule {
        OverlapRule::Skip | OverlapRule::Queue | OverlapRule::Replace => running > 0,
        OverlapRule::Allow { max } => running >= max,
    }
}

fn start(job: &mut Job, now: ServerTime, r: &ClaimRequest, attempt: u32) -> Claimed {
    let (token, _) = tokens::draw(&mut job.counter, now, 0, None, None);
    let open = Open {
        claim: r.claim,
        attempt,
        token,
        node: r.node.clone(),
        catch_up: r.catch_up,
        missed: r.missed,
        started: now,
        expires_ms: expiry(now, r.lease),
        waiting: false,
        replaced: false,
    };
    job.open.insert(r.run, open);
    Claimed::Claimed { token, attempt }
}

fn skipped(now: ServerTime, r: &ClaimRequest, running: u32) -> Attempt {
    Attempt {
        run: r.run,
        attempt: 0,
        claim: r.claim,
        token: FencingToken::new(0),
        node: r.node.clone(),
        catch_up: r.catch_up,
        missed: r.missed,
        started: now,
        ended: now,
        outcome: RunOutcome::Skipped,
        detail: format!("{OPEN_RUNS}{running}"),
    }
}

/// What a skip says of itself; a repeat of the claim reads it again.
const OPEN_RUNS: &str = "other runs that were open: ";

fn counted(detail: &str) -> u32 {
    detail.strip_prefix(OPEN_RUNS).and_then(|count| count.parse().ok()).unwrap_or(0)
}
