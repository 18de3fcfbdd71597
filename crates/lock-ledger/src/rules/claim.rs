//! The life of a run: the claim that starts it, further attempts, renewals, the end, and the history. The scheduler's
//! safety depends on the order of the checks in a claim.

use super::{Attempts, GroupLedger, Job, Open, Stage};
use crate::{
    control::Backfill,
    ids::{ClaimId, RunId},
    limits::MAX_DECLINES,
    request::{
        AfterAttempt, ClaimReply, ClaimRequest, EndReply, EndRequest, OverlapRule, RenewRun, RetryOf,
        RunRenewal, Skip,
    },
    run::{Attempt, RunOutcome},
};
use lock_core::{
    __private::{draw_tokens, expiry},
    FencingToken,
    clock::UtcTime,
};
use std::{collections::BTreeMap, time::Duration};
use uuid::Uuid;

impl GroupLedger {
    /// Decides a claim.
    pub fn claim(&mut self, now: UtcTime, r: &ClaimRequest) -> ClaimReply {
        let mut reply = self.decide(now, r);
        if let ClaimReply::Claimed { payload, .. } = &mut reply {
            let of_instance = self.payload_of(&r.job.name);
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
        if let Some(answer) = job.repeated(now, r) {
            return answer;
        }
        if let Some(retry_of) = r.retry_of {
            return job.retry(now, r, retry_of, refused_by_pool);
        }
        if !job.is_defined_by(r.definition) {
            return ClaimReply::Outdated;
        }
        match r.run {
            RunId::Scheduled(at) => {
                if let Some(refused) = job.refuse_instant(now, at, r) {
                    return refused;
                }
            }
            RunId::Backfill { id, at } => {
                let known = self.head.backfills.get(&id).filter(|backfill| backfill.job == r.job.name);
                if let Some(refused) = job.refuse_backfill(now, known, at) {
                    return refused;
                }
            }
            RunId::Triggered(id) => {
                let pending = self.head.triggers.iter().find(|t| t.id == id && t.job == r.job.name);
                let Some(trigger) = pending.filter(|_| !job.open.contains_key(&r.run)) else {
                    return ClaimReply::Duplicate;
                };
                if now > trigger.until {
                    self.head.triggers.retain(|trigger| trigger.id != id);
                    self.payloads.remove(&(r.job.name.clone(), r.run));
                    job.remember_skip(now, r, &one(r, "the trigger expired"));
                    return ClaimReply::Expired;
                }
            }
        }
        let running = job.other_runs(now, r.run);
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
            RunId::Triggered(id) => self.head.triggers.retain(|trigger| trigger.id != id),
            RunId::Backfill { id, at } => advance_backfill(&mut self.head.backfills, id, at),
        }
        match skip {
            Some(skip) => {
                self.payloads.remove(&(r.job.name.clone(), r.run));
                job.remember_skip(now, r, &skip);
                self.conclude(now, &r.job.name);
                ClaimReply::Skipped
            }
            None => job.start(now, r, Attempts::FIRST),
        }
    }

    /// Returns the reply to a claim whose pool is full. The run itself is not counted, so a run
    /// that waits for its next attempt keeps its slot.
    fn refuse_by_pool(&self, now: UtcTime, r: &ClaimRequest) -> Option<ClaimReply> {
        let pool = r.pool.as_ref()?;
        let others = self.jobs.iter().flat_map(|(job, of)| {
            of.open.iter().filter(move |(run, _)| (job, *run) != (&r.job.name, &r.run))
        });
        let takes_place =
            |(_, open): &(&RunId, &Open)| open.pool.as_ref() == Some(&pool.name) && !open.is_over(now);
        let running = u32::try_from(others.filter(takes_place).count()).unwrap_or(u32::MAX);
        (running >= pool.max).then_some(ClaimReply::PoolFull { running })
    }

    /// Renews the lease of a run.
    pub fn renew(&mut self, now: UtcTime, item: &RenewRun) -> RunRenewal {
        let open = self.jobs.get_mut(&item.job).and_then(|job| job.open.get_mut(&item.run));
        match open.filter(|open| open.claim == item.claim && !open.is_over(now)) {
            Some(open) => {
                open.expires_ms = open.expires_ms.max(expiry(now, item.lease));
                match (open.cancelled, open.replaced) {
                    (true, _) => RunRenewal::Cancelled,
                    (false, true) => RunRenewal::Replaced,
                    (false, false) => RunRenewal::Renewed,
                }
            }
            None => RunRenewal::Gone,
        }
    }

    /// Records the end of an attempt, even if it was orphaned in the meantime. If any node can
    /// continue the run, the group's revision is raised so that the leader checks immediately.
    pub fn end(&mut self, now: UtcTime, r: &EndRequest) -> EndReply {
        let open = self.jobs.get(&r.job.name).and_then(|job| job.open.get(&r.run));
        let open = open.filter(|open| open.claim == r.claim);
        let is_open = open.is_some();
        let then = match (open, r.then) {
            (Some(open), _) if open.cancelled => AfterAttempt::Finish,
            (Some(open), AfterAttempt::Decline)
                if open.stage == Stage::Running && open.declines + 1 >= MAX_DECLINES =>
            {
                AfterAttempt::Finish
            }
            (_, then) => then,
        };
        if is_open && !matches!(then, AfterAttempt::Finish | AfterAttempt::Retry) {
            let revision = self.raise_revision(now);
            if then == AfterAttempt::Decline {
                self.head.declined = revision;
            }
        }
        let reply = self.jobs.get_mut(&r.job.name).map_or(EndReply::Gone, |job| job.end(now, r, then));
        if is_open && then == AfterAttempt::Finish {
            self.payloads.remove(&(r.job.name.clone(), r.run));
            self.conclude(now, &r.job.name);
        }
        reply
    }
}

impl Job {
    /// Returns the reply to a repeated claim. A lease that has ended is not renewed, since another run
    /// may have started.
    fn repeated(&mut self, now: UtcTime, r: &ClaimRequest) -> Option<ClaimReply> {
        if let Some(open) = self.open.get_mut(&r.run).filter(|open| open.claim == r.claim) {
            if open.is_over(now) || open.stage != Stage::Running {
                return Some(ClaimReply::Gone);
            }
            open.expires_ms = open.expires_ms.max(expiry(now, r.lease));
            let Attempts { number: attempt, failures, .. } = open.attempts;
            return Some(ClaimReply::Claimed { token: open.token, attempt, failures, payload: None });
        }
        self.has_just_skipped(r.claim).then_some(ClaimReply::Skipped)
    }

    /// Returns the reply to a claim of a scheduled run that cannot start.
    fn refuse_instant(&self, now: UtcTime, at: UtcTime, r: &ClaimRequest) -> Option<ClaimReply> {
        if self.controls.paused {
            return Some(ClaimReply::Paused);
        }
        if self.controls.revision != r.revision {
            return Some(ClaimReply::Outdated);
        }
        let at_ms = at.as_millis();
        if at_ms == self.watermark_ms || self.open.contains_key(&r.run) {
            return Some(ClaimReply::Duplicate);
        }
        let decided_ms = self.decided_ms(r.schedule);
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

    /// Returns the reply to a claim of a backfill run that cannot start.
    fn refuse_backfill(&self, now: UtcTime, backfill: Option<&Backfill>, at: UtcTime) -> Option<ClaimReply> {
        if self.controls.paused {
            return Some(ClaimReply::Paused);
        }
        let Some(backfill) = backfill else { return Some(ClaimReply::Duplicate) };
        let is_open = |run: &&RunId| run.backfill() == Some(backfill.id);
        if at == backfill.mark || self.open.contains_key(&RunId::Backfill { id: backfill.id, at }) {
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
        let running = u32::try_from(self.open.keys().filter(is_open).count()).unwrap_or(u32::MAX);
        (running > 0).then_some(ClaimReply::Busy { running })
    }

    /// Counts the other runs that are open and not orphaned.
    fn other_runs(&self, now: UtcTime, run: RunId) -> u32 {
        let open = self.open.iter().filter(|(other, open)| **other != run && !open.is_over(now));
        u32::try_from(open.count()).unwrap_or(u32::MAX)
    }

    /// Records an attempt as running, with a new token.
    fn start(&mut self, now: UtcTime, r: &ClaimRequest, attempts: Attempts) -> ClaimReply {
        let (token, _) = draw_tokens(&mut self.counter, now, 0, None, None);
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
            declines: self.open.get(&r.run).map_or(0, |before| before.declines),
        };
        self.open.insert(r.run, open);
        ClaimReply::Claimed { token, attempt: attempts.number, failures: attempts.failures, payload: None }
    }

    /// Claims the next attempt. The caller need not be the leader, because it already has the claim of
    /// the last attempt.
    fn retry(
        &mut self,
        now: UtcTime,
        r: &ClaimRequest,
        retry_of: RetryOf,
        refused_by_pool: Option<ClaimReply>,
    ) -> ClaimReply {
        let can_be_followed = |open: &&Open| open.claim == retry_of.claim && !open.cancelled;
        let Some(open) = self.open.get(&r.run).filter(can_be_followed) else { return ClaimReply::Gone };
        let Some(next) = open.next(retry_of) else { return ClaimReply::Gone };
        let running = self.other_runs(now, r.run);
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
            let orphan = open.ended(
                r.run,
                now,
                RunOutcome::Abandoned,
                "its lease expired before an outcome was recorded",
            );
            self.remember(orphan, r.history);
        }
        self.start(now, r, next)
    }

    fn end(&mut self, now: UtcTime, r: &EndRequest, then: AfterAttempt) -> EndReply {
        let Some(open) = self.open.get_mut(&r.run).filter(|open| open.claim == r.claim) else {
            return if self.remembers(r.run, Some(r.claim)) { EndReply::Recorded } else { EndReply::Gone };
        };
        // An attempt that has already ended is in the history, unless it was requeued.
        let was_running = open.stage == Stage::Running;
        let is_last = open.stage == Stage::Unbegun && then == AfterAttempt::Finish;
        let unbegun =
            matches!(then, AfterAttempt::Requeue | AfterAttempt::Postpone { .. } | AfterAttempt::Decline);
        let ended =
            (was_running && !unbegun || is_last).then(|| open.ended(r.run, now, r.outcome, &r.detail));
        if was_running && then != AfterAttempt::Decline {
            // The node could read the payload, or did not try.
            open.declines = 0;
        }
        match then {
            AfterAttempt::Finish => {}
            AfterAttempt::Retry if was_running => {
                (open.stage, open.attempts.failures) = (Stage::Failed, open.attempts.failures + 1);
            }
            AfterAttempt::Reassign if was_running => open.stage = Stage::Interrupted,
            AfterAttempt::Decline if was_running => {
                (open.stage, open.declines) = (Stage::Unbegun, open.declines + 1);
            }
            _ if was_running => open.stage = Stage::Unbegun,
            _ => {}
        }
        match then {
            AfterAttempt::Finish => drop(self.open.remove(&r.run)),
            AfterAttempt::Reassign | AfterAttempt::Requeue | AfterAttempt::Decline => open.expires_ms = 0,
            AfterAttempt::Postpone { delay } => open.expires_ms = expiry(now, delay),
            AfterAttempt::Retry => {}
        }
        if let Some(attempt) = ended {
            self.remember(attempt, r.history);
        }
        EndReply::Recorded
    }

    fn remember(&mut self, entry: Attempt, length: u32) {
        self.summarize(&entry);
        self.history.push_front(entry);
        self.history.truncate(usize::try_from(length.max(1)).unwrap_or(usize::MAX));
    }

    /// Records a skip. Adjacent skips with equal reasons are merged into one entry.
    fn remember_skip(&mut self, now: UtcTime, r: &ClaimRequest, skip: &Skip) {
        let mut entry = Attempt {
            run: r.run,
            first: skip.first,
            count: skip.count,
            attempt: 0,
            claim: r.claim,
            token: FencingToken::new(0),
            node: r.node.clone(),
            catch_up: r.catch_up,
            started: now,
            ended: now,
            outcome: RunOutcome::Skipped,
            detail: skip.detail.clone(),
        };
        let same = |last: &&Attempt| last.outcome == RunOutcome::Skipped && last.detail == entry.detail;
        if let Some(last) = self.history.front().filter(same) {
            entry.first = last.first;
            entry.count = last.count.saturating_add(entry.count);
            entry.started = last.started;
            self.history.pop_front();
        }
        self.remember(entry, r.history);
    }

    /// Returns `true` if the last entry is a skip by this claim.
    fn has_just_skipped(&self, claim: ClaimId) -> bool {
        let last = self.history.front();
        last.is_some_and(|last| last.outcome == RunOutcome::Skipped && last.claim == claim)
    }

    /// Returns `true` if the history contains an attempt of this run, with this claim if one is
    /// given.
    pub(super) fn remembers(&self, run: RunId, claim: Option<ClaimId>) -> bool {
        let same = |entry: &Attempt| entry.run == run && claim.is_none_or(|claim| claim == entry.claim);
        self.history.iter().any(same)
    }
}

impl Open {
    /// Returns the next attempt if the budgets allow one.
    fn next(&self, budget: RetryOf) -> Option<Attempts> {
        let Attempts { number, failures, orphanings } = self.attempts;
        let allowed = match self.stage {
            Stage::Unbegun => true,
            Stage::Failed => failures <= budget.failures,
            Stage::Interrupted | Stage::Running => orphanings < budget.orphanings,
        };
        let next = match self.stage {
            Stage::Unbegun => self.attempts,
            Stage::Failed => Attempts { number: number + 1, ..self.attempts },
            Stage::Interrupted | Stage::Running => {
                Attempts { number: number + 1, failures, orphanings: orphanings + 1 }
            }
        };
        allowed.then_some(next)
    }

    /// Returns the entry of the attempt for the history.
    fn ended(&self, run: RunId, now: UtcTime, outcome: RunOutcome, detail: &str) -> Attempt {
        Attempt {
            run,
            first: run,
            count: 1,
            attempt: self.attempts.number,
            claim: self.claim,
            token: self.token,
            node: self.node.clone(),
            catch_up: self.catch_up,
            started: self.started,
            ended: now,
            outcome,
            detail: detail.to_owned(),
        }
    }
}

/// Returns a skip of only this run.
fn one(r: &ClaimRequest, detail: &str) -> Skip {
    Skip { first: r.run, count: 1, detail: detail.to_owned() }
}

fn forbids(rule: OverlapRule, running: u32) -> bool {
    match rule {
        OverlapRule::Skip | OverlapRule::Replace => running > 0,
        OverlapRule::Queue { max } | OverlapRule::Allow { max } => running >= max,
    }
}

/// Raises a backfill's mark to a decided scheduled time.
fn advance_backfill(backfills: &mut BTreeMap<Uuid, Backfill>, id: Uuid, at: UtcTime) {
    if let Some(backfill) = backfills.get_mut(&id) {
        (backfill.mark, backfill.done) = (at, backfill.done.saturating_add(1));
        if at >= backfill.last {
            backfills.remove(&id);
        }
    }
}
