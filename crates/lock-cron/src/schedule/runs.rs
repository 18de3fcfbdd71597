//! The runs of a schedule, in order.

use super::Schedule;
use crate::time::UtcTime;
use std::iter::FusedIterator;

/// An iterator over a schedule's runs after a point in time, strictly increasing. Returned by
/// [`Schedule::after`].
///
/// The iterator ends after the schedule's last run. A pattern with years ends after its last year,
/// and most other schedules never end.
///
/// ```
/// use lock_cron::{Schedule, UtcTime};
///
/// let leap = Schedule::cron("0 0 29 2 *")?;
/// let years: Vec<_> = leap.after(UtcTime::from_millis(0)).take(2).map(|run| run.to_string()).collect();
/// assert_eq!(years, ["1972-02-29T00:00:00Z", "1976-02-29T00:00:00Z"]);
/// # Ok::<(), lock_cron::ScheduleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Runs<'a> {
    schedule: &'a Schedule,
    after: Option<UtcTime>,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(schedule: &'a Schedule, after: UtcTime) -> Self {
        Self { schedule, after: Some(after) }
    }
}

impl Iterator for Runs<'_> {
    type Item = UtcTime;

    fn next(&mut self) -> Option<UtcTime> {
        self.after = self.schedule.next_after(self.after?);
        self.after
    }
}

impl FusedIterator for Runs<'_> {}
