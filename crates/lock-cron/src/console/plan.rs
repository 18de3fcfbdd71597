//! A job's schedule and its next run, cached between requests.

use crate::{
    description,
    schedule::{DstPolicy, Schedule},
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::Registration;
use serde_json::Value;

/// A schedule that applies to a job.
pub(super) struct Plan {
    /// The text from which the schedule was parsed; a different text means a change.
    text: String,
    policy: DstPolicy,
    /// `None` if this version of the program cannot read the text.
    schedule: Option<Schedule>,
    pub(super) words: String,
    pub(super) next: Option<UtcTime>,
}

impl Plan {
    /// Parses a stored schedule.
    pub(super) fn read(job: &LockName, text: &str, policy: DstPolicy, now: UtcTime) -> Self {
        let read = Schedule::cron(text).and_then(|schedule| schedule.for_job(job.as_str()));
        Self::new(text, policy, read.ok().map(|schedule| schedule.on_dst(policy)), now)
    }

    /// Creates the plan for one of this program's schedules.
    pub(super) fn of(schedule: &Schedule, now: UtcTime) -> Self {
        Self::new(&schedule.to_string(), schedule.dst_policy(), Some(schedule.clone()), now)
    }

    fn new(text: &str, policy: DstPolicy, schedule: Option<Schedule>, now: UtcTime) -> Self {
        let words = schedule.as_ref().map_or_else(|| text.to_owned(), Schedule::describe);
        let next = schedule.as_ref().and_then(|schedule| schedule.next_after(now));
        Self { text: text.to_owned(), policy, schedule, words, next }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the plan was made from this text and policy.
    pub(super) fn is_of(&self, text: &str, policy: DstPolicy) -> bool {
        self.text == text && self.policy == policy
    }

    /// Returns the zone and the policy for clock changes as rows of the terms.
    pub(super) fn clock_rows(&self) -> Vec<Value> {
        self.schedule.as_ref().map_or_else(Vec::new, description::clock_rows)
    }

    /// Returns the registration of the job in the ledger, or `None` if this program cannot read its schedule.
    pub(super) fn registration(&self, job: &LockName) -> Option<Registration> {
        let schedule = self.schedule.as_ref()?.identity();
        Some(Registration { job: job.clone(), schedule })
    }

    /// Advances to the next run after this time.
    pub(super) fn advance(&mut self, now: UtcTime) {
        if self.next.is_some_and(|next| next <= now) {
            self.next = self.schedule.as_ref().and_then(|schedule| schedule.next_after(now));
        }
    }

    /// Returns the next `n` runs.
    pub(super) fn next_runs(&self, now: UtcTime, n: usize) -> Vec<UtcTime> {
        self.schedule.as_ref().map_or_else(Vec::new, |schedule| schedule.after(now).take(n).collect())
    }
}
