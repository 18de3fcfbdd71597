//! The schedule of a job and its next run, which is searched once and not at each look.

use crate::{schedule::Schedule, time::UtcTime};
use lock_core::LockName;
use lock_ledger::Registration;

/// A schedule that applies to a job.
pub(super) struct Plan {
    /// The text that was read, by which a change is noticed.
    text: String,
    /// `None` if this version of the program cannot read the text.
    schedule: Option<Schedule>,
    pub(super) words: String,
    pub(super) next: Option<UtcTime>,
}

impl Plan {
    /// Reads a schedule as it was stored.
    pub(super) fn read(job: &LockName, text: &str, now: UtcTime) -> Self {
        let read = Schedule::cron(text).and_then(|schedule| schedule.for_job(job.as_str()));
        Self::new(text, read.ok(), now)
    }

    /// Takes a schedule of this program.
    pub(super) fn of(schedule: &Schedule, now: UtcTime) -> Self {
        Self::new(&schedule.to_string(), Some(schedule.clone()), now)
    }

    fn new(text: &str, schedule: Option<Schedule>, now: UtcTime) -> Self {
        let words = schedule.as_ref().map_or_else(|| text.to_owned(), Schedule::describe);
        let next = schedule.as_ref().and_then(|schedule| schedule.next_after(now));
        Self { text: text.to_owned(), schedule, words, next }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if this is the plan of the text, and of the schedule if this program can read it.
    pub(super) fn is_of(&self, text: &str, schedule: Option<&Schedule>) -> bool {
        let policy = self.schedule.as_ref().map(Schedule::dst_policy);
        self.text == text && schedule.is_none_or(|schedule| policy == Some(schedule.dst_policy()))
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
