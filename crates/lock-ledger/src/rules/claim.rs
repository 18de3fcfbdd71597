//! The decision whether a run may start. The order of the questions is the safety of the scheduler.

use super::{GroupLedger, Job, Open, Stage, again::claim_again};
use crate::{ClaimRequest, Claimed, OverlapRule, RunId, Skip};
use lock_core::{
    __private::{draw_tokens, expiry},
    ServerTime,
};
use std::time::Duration;

impl GroupLedger {
    /// Decides a claim.
    pub fn claim(&mut self, now: ServerTime, r: &ClaimRequest) -> Claimed {
        let Some(job) = self.jobs.get_mut(&r.job.name) else { return Claimed::Unregistered };
        if let Some(answer) = repeated(job, now, r) {
            return answer;
        }
        if let Some(again) = r.again {
            return claim_again(job, now, r, again);
        }
        match r.run {
            RunId::Scheduled(at) => {
                if let Some(refused) = refuse_instant(job, now, at, r) {
                    return refused;
                }
            }
            RunId::Triggered(id) => {
                let pending = self.triggers.iter().find(|t| t.id == id && t.job == r.job.name);
                let Some(trigger) = pending.filter(|_| !job.open.contains_key(&r.run)) else {
                    return Claimed::Duplicate;
                };
                if now > trigger.until {
                    self.triggers.retain(|trigger| trigger.id != id);
                    job.remember_skip(now, r, &one(r, "the trigger expired"));
                    return Claimed::Expired;
                }
            }
        }
        let running = others(job, now, r.run);
        let skip = match (&r.skip, r.overlap) {
            (Some(skip), _) => Some(skip.clone()),
            (None, OverlapRule::Queue) if running > 0 => return Claimed::Busy { running },
            (None, OverlapRule::Replace) if running > 0 => {
                for open in job.open.values_mut().filter(|open| !open.is_over(now)) {
                    open.replaced = true;
                }
                return Claimed::Busy { running };
            }
            (None, rule) => forbids(rule, running).then(|| one(r, "other runs were open")),
        };
        match r.run {
            RunId::Scheduled(at) => job.raise_watermark(at.as_millis()),
            RunId::Triggered(id) => self.triggers.retain(|trigger| trigger.id != id),
        }
        match skip {
            Some(skip) => {
                job.remember_skip(now, r, &skip);
                Claimed::Skipped
            }
            None => start(job, now, r, (1, 0, 0)),
        }
    }
}

/// The row of this run alone.
fn one(r: &ClaimRequest, detail: &str) -> Skip {
    Skip { first: r.run, count: 1, detail: detail.to_owned() }
}

/// The answer to a claim that was granted or skipped before. A lease that is over is not renewed: others may run instead.
fn repeated(job: &mut Job, now: ServerTime, r: &ClaimRequest) -> Option<Claimed> {
    if let Some(open) = job.open.get_mut(&r.run).filter(|open| open.claim == r.claim) {
        if open.is_over(now) || open.stage != Stage::Running {
            return Some(Claimed::Gone);
        }
        open.expires_ms = open.expires_ms.max(expiry(now, r.lease));
        return Some(Claimed::Claimed { token: open.token, attempt: open.attempt, failures: open.failures });
    }
    job.has_just_skipped(r.claim).then_some(Claimed::Skipped)
}

fn refuse_instant(job: &Job, now: ServerTime, at: ServerTime, r: &ClaimRequest) -> Option<Claimed> {
    if job.orders.paused {
        return Some(Claimed::Paused);
    }
    if job.orders.revision != r.revision {
        return Some(Claimed::Outdated);
    }
    let at_ms = at.as_millis();
    if at_ms == job.watermark_ms || job.open.contains_key(&r.run) {
        return Some(Claimed::Duplicate);
    }
    if at_ms <= job.decided_ms(r.schedule) {
        return Some(Claimed::Superseded);
    }
    let now_ms = now.as_millis();
    (at_ms > now_ms).then(|| Claimed::Early { wait: Duration::from_millis(at_ms - now_ms) })
}

/// The number of other runs that are open and not orphaned.
pub(super) fn others(job: &Job, now: ServerTime, run: RunId) -> u32 {
    let open = job.open.iter().filter(|(other, open)| **other != run && !open.is_over(now));
    u32::try_from(open.count()).unwrap_or(u32::MAX)
}

pub(super) fn forbids(rule: OverlapRule, running: u32) -> bool {
    match rule {
        OverlapRule::Skip | OverlapRule::Queue | OverlapRule::Replace => running > 0,
        OverlapRule::Allow { max } => running >= max,
    }
}

pub(super) fn start(
    job: &mut Job,
    now: ServerTime,
    r: &ClaimRequest,
    (attempt, failures, orphanings): (u32, u32, u32),
) -> Claimed {
    let (token, _) = draw_tokens(&mut job.counter, now, 0, None, None);
    let open = Open {
        claim: r.claim,
        attempt,
        failures,
        orphanings,
        token,
        node: r.node.clone(),
        catch_up: r.catch_up,
        started: now,
        expires_ms: expiry(now, r.lease),
        lease: r.lease,
        stage: Stage::Running,
        replaced: false,
    };
    job.open.insert(r.run, open);
    Claimed::Claimed { token, attempt, failures }
}
