//! The overdue jobs that a leader reports: one event when a job becomes overdue, and one when it no longer is.

use super::{
    effect::{Effect, panicked},
    state::RunLoop,
};
use crate::{job::Job, ledger_client::Answer, observer::CronEvent, overdue::Progress};
use lock_core::{LockName, backend::Reply};
use lock_ledger::{GroupSummary, JobSummary};
use std::{collections::BTreeMap, mem, time::Duration};

impl RunLoop {
    /// Reads the times of the latest successes, if any job has an `alert_after` or is reported as overdue.
    pub(super) fn read_successes(&mut self) {
        let alerts = self.jobs.values().any(|job| job.terms.alert_after.is_some());
        if !alerts && self.overdue.is_empty() {
            return;
        }
        let node = self.shared.node.clone();
        let read = async move { Effect::SummaryRead(node.ledger.summary().await) };
        self.spawn(read, Effect::SummaryRead(Err(panicked())));
    }

    pub(super) fn successes_read(&mut self, answer: Answer<Reply<GroupSummary>>) {
        let observers = &self.shared.node.observers;
        let (now, summary) = match answer {
            Ok(reply) => (reply.now, reply.outcome),
            Err(error) => return self.shared.node.store_failed(&error),
        };
        if self.leadership.is_none() {
            return;
        }
        let summaries: BTreeMap<&LockName, &JobSummary> =
            summary.jobs.iter().map(|summary| (&summary.job, summary)).collect();
        let before = mem::take(&mut self.overdue);
        for (name, job) in &self.jobs {
            let summary = summaries.get(name).copied();
            let Some(silent) = self.progress(job, summary).overdue(now) else { continue };
            if !before.contains(name) {
                observers.notify(|group| CronEvent::Overdue { group, job: name, silent });
            }
            self.overdue.insert(name.clone());
        }
        for job in before.difference(&self.overdue) {
            let success = summaries.get(job).and_then(|summary| summary.last_success);
            let terms = self.jobs.get(job).and_then(|job| job.terms.alert_after);
            let is_recent =
                |alert_after: Duration| success.is_some_and(|success| now.since(success) <= alert_after);
            let succeeded = terms.is_some_and(is_recent);
            observers.notify(|group| CronEvent::OverdueEnded { group, job, succeeded });
        }
    }

    fn progress<'a>(&'a self, job: &Job, summary: Option<&JobSummary>) -> Progress<'a> {
        Progress {
            alert_after: job.terms.alert_after,
            since: job.since.or_else(|| summary?.since),
            last_success: summary.and_then(|summary| summary.last_success),
            controls: self.controls.get(&job.name),
        }
    }

    /// Ends this node's reports; the next leader reports the overdue jobs again.
    pub(super) fn hand_over_overdue(&mut self) {
        for job in mem::take(&mut self.overdue) {
            let ended = |group| CronEvent::OverdueEnded { group, job: &job, succeeded: false };
            self.shared.node.observers.notify(ended);
        }
    }
}
