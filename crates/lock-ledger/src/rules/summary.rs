//! Job summaries and kind descriptions.

use super::state::{GroupLedger, Job, JobKind};
use crate::{
    limits::RECENT_OUTCOMES,
    run::{Attempt, RunOutcome},
    summary::{GroupSummary, JobDescription, JobSummary},
};
use lock_core::{LockName, clock::UtcTime};
use std::{collections::VecDeque, time::Duration};

/// The summary of a job, without its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Summary {
    schedule: String,
    dst: String,
    terms: String,
    alert_after: Option<Duration>,
    since: Option<UtcTime>,
    described: UtcTime,
    recent: VecDeque<RunOutcome>,
    last: Option<Attempt>,
    last_success: Option<UtcTime>,
    failing_since: Option<UtcTime>,
}

/// Returns `true` for a kind's name followed by a slash. An instance's name continues after the
/// slash.
fn is_kind(name: &LockName) -> bool {
    matches!(name.as_str().split_once('/'), Some((_, "")))
}

impl GroupLedger {
    /// Stores the descriptions of registered jobs and of kinds.
    pub fn describe(&mut self, now: UtcTime, jobs: &[JobDescription]) {
        for JobDescription { job, schedule, dst, terms, alert_after } in jobs {
            let (since, summary) = match self.jobs.get_mut(job) {
                Some(job) => {
                    let since = job.since.values().map(|since| since.from_ms).max();
                    (since.map(UtcTime::from_millis), job.summary.get_or_insert_default())
                }
                None if is_kind(job) => (None, self.kinds.entry(job.clone()).or_default()),
                None => continue,
            };
            (summary.schedule, summary.dst) = (schedule.clone(), dst.clone());
            summary.terms.clone_from(terms);
            (summary.alert_after, summary.since, summary.described) = (*alert_after, since, now);
        }
    }

    /// Reads the group's summary.
    #[must_use]
    pub fn summary(&self, now: UtcTime) -> GroupSummary {
        let jobs = self.jobs.iter().filter_map(|(name, job)| Some((name, job.summary.as_ref()?)));
        let known = jobs.chain(&self.kinds).map(|(name, summary)| summary.named(name));
        let mut jobs: Vec<_> = known.collect();
        jobs.sort_by(|a, b| a.job.cmp(&b.job));
        let nodes = self.nodes.values().filter(|known| now.as_millis() <= known.expires_ms);
        GroupSummary { jobs, nodes: nodes.map(|known| known.node.clone()).collect() }
    }
}

impl Job {
    /// Adds a history entry to the summary. A removed instance has no summary.
    pub(super) fn summarize(&mut self, entry: &Attempt) {
        if self.kind == JobKind::Removed {
            return;
        }
        let summary = self.summary.get_or_insert_default();
        let is_skip = entry.outcome == RunOutcome::Skipped;
        if is_skip && summary.recent.front() == Some(&RunOutcome::Skipped) {
            return;
        }
        summary.recent.push_front(entry.outcome);
        summary.recent.truncate(RECENT_OUTCOMES);
        if is_skip {
            return;
        }
        match entry.outcome {
            RunOutcome::Succeeded => {
                (summary.last_success, summary.failing_since) = (Some(entry.ended), None);
            }
            RunOutcome::Failed | RunOutcome::Panicked | RunOutcome::TimedOut | RunOutcome::Abandoned => {
                summary.failing_since.get_or_insert(entry.ended);
            }
            RunOutcome::Cancelled | RunOutcome::Skipped | RunOutcome::Other => {}
        }
        summary.last = Some(entry.clone());
    }
}

impl Summary {
    fn named(&self, job: &LockName) -> JobSummary {
        let Self {
            schedule,
            dst,
            terms,
            alert_after,
            since,
            described,
            recent,
            last,
            last_success,
            failing_since,
        } = self.clone();
        JobSummary {
            job: job.clone(),
            schedule,
            dst,
            terms,
            alert_after,
            since,
            described,
            recent: recent.into(),
            last,
            last_success,
            failing_since,
        }
    }
}
