//! A registered job and its effective schedule, with the fleet's controls applied.

use crate::{
    context::RunContext,
    plan::EffectiveControls,
    schedule::{DstPolicy, Schedule, ScheduleError},
    terms::JobTerms,
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{JobControls, Registration};
use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

/// The result of a job's body: `Ok(())`, or the error with which it failed.
pub type RunResult = Result<(), Box<dyn Error + Send + Sync>>;

pub(crate) type Body =
    Arc<dyn Fn(RunContext) -> Pin<Box<dyn Future<Output = RunResult> + Send>> + Send + Sync>;

/// A registered job.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) name: LockName,
    pub(crate) schedule: Schedule,
    pub(crate) terms: JobTerms,
    pub(crate) body: Body,
    /// The revision of the instance's definition; 0 for a job in code.
    pub(crate) definition: u64,
    /// For an instance, the time from which `alert_after` is measured before the first success; `None` for a job in
    /// code.
    pub(crate) since: Option<UtcTime>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, schedule, terms, .. } = self;
        f.debug_struct("Job").field("name", name).field("schedule", schedule).field("terms", terms).finish()
    }
}

impl Job {
    /// Returns the controls that apply here, including the replacement schedule if this node can read it.
    pub(crate) fn effective(&self, controls: Option<&JobControls>) -> EffectiveControls {
        effective(&self.name, &self.schedule, controls)
    }

    /// Logs an error if this node cannot read the replacement schedule. Another version of the program may have stored
    /// it, or its zone may be unknown on this machine.
    pub(crate) fn check_replacement(&self, controls: Option<&JobControls>) {
        let Some(text) = controls.and_then(|controls| controls.schedule.as_deref()) else { return };
        if let Err(error) = read(&self.name, self.schedule.dst_policy(), text) {
            tracing::error!(
                cron.job = %self.name, %error, "failed to parse the replacement schedule; using the original one"
            );
        }
    }

    /// Returns the registration of the job in the ledger.
    pub(crate) fn registration(&self, controls: Option<&JobControls>) -> Registration {
        Registration { job: self.name.clone(), schedule: self.effective(controls).schedule.identity() }
    }
}

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

/// Returns the controls that apply to a job with this schedule, including the replacement if this node can read it.
pub(crate) fn effective(
    name: &LockName,
    schedule: &Schedule,
    controls: Option<&JobControls>,
) -> EffectiveControls {
    let (revision, paused) = controls.map_or((0, false), |controls| (controls.revision, controls.paused));
    let replacement = controls.and_then(|controls| controls.schedule.as_deref());
    let replacement = replacement.and_then(|text| read(name, schedule.dst_policy(), text).ok());
    EffectiveControls { revision, paused, schedule: replacement.unwrap_or_else(|| schedule.clone()) }
}

fn read(name: &LockName, policy: DstPolicy, text: &str) -> Result<Schedule, ScheduleError> {
    Ok(Schedule::cron(text)?.for_job(name.as_str())?.on_dst(policy))
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
