//! The decision to start a run. The scheduler's safety depends on the order of the checks.

use super::{
    backfill,
    retry::claim_retry,
    start::{forbids, other_runs, start},
    state::{Attempts, GroupLedger, Job, Stage},
};
use crate::{
    ids::RunId,
    reply::ClaimReply,
    request::{ClaimRequest, OverlapRule, Skip},
};
use lock_core::{__private::expiry, clock::UtcTime};
use std::time::Duration;

impl GroupLedger {
    /// Decides a claim.
    pub fn claim(&mut self, now: UtcTime, r: &ClaimRequest) -> ClaimReply {
        let mut reply = self.decide(now, r);
        if let ClaimReply::Claimed { payload, .. } = &mut reply {
            let of_instance = self.instance_payloads.get(&r.job.name);
            let of_trigger = self.payloads.get(&(r.job.name.clone(), r.run));
            *payload = of_trigger
                .map(String::as_str)
                .or(Some(of_instance))
                .filter(|text| !text.is_empty())
                .map(str::to_owned);
        }
        reply
    }

    fn decide(&mut self, now: UtcTime, r: &ClaimRequest) -> ClaimReply {
        let refused_by_pool = self.refuse_by_pool(now, r);
        let Some(job) = self.jobs.get_mut(&r.job.name) else { return ClaimReply::Unregistered };
        if let Some(answer) = repeated(job, now, r) {
            return answer;
        }
        if let Some(retry_of) = r.retry_of {
            return claim_retry(job, now, r, retry_of, refused_by_pool);
        }
        if !job.is_defined_by(r.definition) {
            return ClaimReply::Outdated;
        }
        match r.run {
            RunId::Scheduled(at) => {
                if let Some(refused) = refuse_instant(job, now, at, r) {
                    return refused;
                }
            }
            RunId::Backfill { id, at } => {
                let known = self.backfills.get(&id).filter(|backfill| backfill.job == r.job.name);
                if let Some(refused) = backfill::refuse(job, now, known, at) {
                    return refused;
                }
            }
            RunId::Triggered(id) => {
                let pending = self.triggers.iter().find(|t| t.id == id && t.job == r.job.name);
                let Some(trigger) = pending.filter(|_| !job.open.contains_key(&r.run)) else {
                    return ClaimReply::Duplicate;
                };
                if now > trigger.until {
                    self.triggers.retain(|trigger| trigger.id != id);
                    self.payloads.remove(&(r.job.name.clone(), r.run));
                    job.remember_skip(now, r, &one(r, "the trigger expired"));
                    return ClaimReply::Expired;
                }
            }
        }
        let running = other_runs(job, now, r.run);
        let skip = match (&r.skip, r.overlap) {
            (Some(skip), _) => Some(skip.clone()),
            (None, rule) if r.run.backfill().is_some() && forbids(rule, running) => {
                return ClaimReply::Busy { running };
            }
            (None, rule @ OverlapRule::Queue { .. }) if forbids(rule, running) => {
                return ClaimReply::Busy { running };
            }
            (None, OverlapRule::Replace) if running > 0 => {
                for open in job.open.values_mut().filter(|open| !open.is_over(now)) {
                    open.replaced = true;
                }
                return ClaimReply::Busy { running };
            }
            (None, rule) => forbids(rule, running).then(|| one(r, "other runs were open")),
        };
        if let (None, Some(refused)) = (&skip, refused_by_pool) {
            return refused;
        }
        match r.run {
            RunId::Scheduled(at) => job.raise_watermark(at.as_millis()),
            RunId::Triggered(id) => self.triggers.retain(|trigger| trigger.id != id),
            RunId::Backfill { id, at } => backfill::advance(&mut self.backfills, id, at),
        }
        match skip {
            Some(skip) => {
                self.payloads.remove(&(r.job.name.clone(), r.run));
                job.remember_skip(now, r, &skip);
                self.conclude(now, &r.job.name);
                ClaimReply::Skipped
            }
            None => start(job, now, r, Attempts::FIRST),
        }
    }
}

/// Returns a skip of only this run.
fn one(r: &ClaimRequest, detail: &str) -> Skip {
    Skip { first: r.run, count: 1, detail: detail.to_owned() }
}

/// Returns the reply to a repeated claim. A lease that has ended is not renewed, since another run
/// may have started.
fn repeated(job: &mut Job, now: UtcTime, r: &ClaimRequest) -> Option<ClaimReply> {
    if let Some(open) = job.open.get_mut(&r.run).filter(|open| open.claim == r.claim) {
        if open.is_over(now) || open.stage != Stage::Running {
            return Some(ClaimReply::Gone);
        }
        open.expires_ms = open.expires_ms.max(expiry(now, r.lease));
        let Attempts { number: attempt, failures, .. } = open.attempts;
        return Some(ClaimReply::Claimed { token: open.token, attempt, failures, payload: None });
    }
    job.has_just_skipped(r.claim).then_some(ClaimReply::Skipped)
}

fn refuse_instant(job: &Job, now: UtcTime, at: UtcTime, r: &ClaimRequest) -> Option<ClaimReply> {
    if job.controls.paused {
        return Some(ClaimReply::Paused);
    }
    if job.controls.revision != r.revision {
        return Some(ClaimReply::Outdated);
    }
    let at_ms = at.as_millis();
    if at_ms == job.watermark_ms || job.open.contains_key(&r.run) {
        return Some(ClaimReply::Duplicate);
    }
    let decided_ms = job.decided_ms(r.schedule);
    if at_ms <= decided_ms {
        return Some(ClaimReply::Superseded);
    }
    let first = r.skip.as_ref().and_then(|skip| skip.first.scheduled());
    if first.is_some_and(|first| first.as_millis() <= decided_ms) {
        return Some(ClaimReply::PartlyDecided);
    }
    let now_ms = now.as_millis();
    if at_ms > now_ms {
        return Some(ClaimReply::Early { wait: Duration::from_millis(at_ms - now_ms) });
    }
    if r.not_after.is_some_and(|not_after| now_ms > not_after.as_millis()) {
        return Some(ClaimReply::Late);
    }
    let is_behind = r.after.is_some_and(|after| decided_ms < after.as_millis());
    is_behind.then_some(ClaimReply::Behind)
}
