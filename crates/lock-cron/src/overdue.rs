//! Overdue jobs: jobs without a success for longer than their `alert_after`.

use crate::time::UtcTime;
use lock_ledger::JobControls;
use std::time::Duration;

/// The values that determine whether a job is overdue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress<'a> {
    pub(crate) alert_after: Option<Duration>,
    /// The start of the job's schedule, from which `alert_after` is measured before the first success. `None` if the
    /// schedule has not started.
    pub(crate) since: Option<UtcTime>,
    pub(crate) last_success: Option<UtcTime>,
    pub(crate) controls: Option<&'a JobControls>,
}

impl Progress<'_> {
    /// Returns the time without a success if the job is overdue. A paused job is never overdue.
    pub(crate) fn overdue(&self, now: UtcTime) -> Option<Duration> {
        let alert_after = self.alert_after?;
        if self.controls.is_some_and(|controls| controls.paused) {
            return None;
        }
        // The revision of the controls is the server's time of the last command in ms, unless that clock was ahead.
        let command = self.controls.map(|controls| UtcTime::from_millis(controls.revision));
        let command = command.filter(|at| *at <= now);
        let from = command.into_iter().chain(self.last_success).fold(self.since?, UtcTime::max);
        let silent = now.since(from);
        (silent > alert_after).then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn hours(n: u64) -> UtcTime {
        UtcTime::from_millis(n * 3_600_000)
    }

    fn registered() -> Progress<'static> {
        Progress { alert_after: Some(HOUR), since: Some(hours(1)), last_success: None, controls: None }
    }

    #[test]
    fn time_counts_from_the_last_start_success_or_command() {
        assert_eq!(registered().overdue(hours(2)), None, "exactly at the limit");
        assert_eq!(registered().overdue(hours(3)), Some(2 * HOUR));
        let succeeded = Progress { last_success: Some(hours(2)), ..registered() };
        assert_eq!((succeeded.overdue(hours(3)), succeeded.overdue(hours(4))), (None, Some(2 * HOUR)));
        let before = Progress { last_success: Some(hours(0)), ..registered() };
        assert_eq!(before.overdue(hours(2)), None, "back after its removal");
        let resumed = JobControls { revision: 4 * 3_600_000, ..JobControls::default() };
        let resumed = Progress { controls: Some(&resumed), ..succeeded };
        assert_eq!((resumed.overdue(hours(5)), resumed.overdue(hours(6))), (None, Some(2 * HOUR)));
        assert_eq!(resumed.overdue(hours(3) + HOUR / 2), Some(HOUR + HOUR / 2), "the clock was ahead");
    }

    #[test]
    fn paused_unregistered_and_alertless_jobs_are_not_overdue() {
        let paused = JobControls { revision: 1, paused: true, ..JobControls::default() };
        assert_eq!(Progress { controls: Some(&paused), ..registered() }.overdue(hours(9)), None);
        assert_eq!(Progress { since: None, ..registered() }.overdue(hours(9)), None);
        assert_eq!(Progress { alert_after: None, ..registered() }.overdue(hours(9)), None);
    }
}
