//! The history of a job: ended attempts and skipped runs.

use super::state::{Job, Open};
use crate::{
    ids::{ClaimId, RunId},
    request::{ClaimRequest, Skip},
    run::{Attempt, RunOutcome},
};
use lock_core::{FencingToken, clock::UtcTime};

impl Job {
    pub(super) fn remember(&mut self, entry: Attempt, length: u32) {
        self.summarize(&entry);
        self.history.push_front(entry);
        self.history.truncate(usize::try_from(length.max(1)).unwrap_or(usize::MAX));
    }

    /// Records a skip. Adjacent skips with equal reasons are merged into one entry.
    pub(super) fn remember_skip(&mut self, now: UtcTime, r: &ClaimRequest, skip: &Skip) {
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
    pub(super) fn has_just_skipped(&self, claim: ClaimId) -> bool {
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
    pub(super) fn ended(&self, run: RunId, now: UtcTime, outcome: RunOutcome, detail: &str) -> Attempt {
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
