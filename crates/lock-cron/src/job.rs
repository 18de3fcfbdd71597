//! Jobs and kinds: their names, their effective schedules, with the fleet's controls applied, and their progress.

use crate::{
    context::RunContext,
    description::{describe_terms, parse_schedule, read_schedule, write_dst},
    error::{CronError, CronErrorKind},
    options::JobTerms,
    plan::EffectiveControls,
    schedule::{Schedule, ScheduleError},
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{Instance, JobControls, JobDescription, JobSummary, LiveNode, Registration};
use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

/// The separator between a kind and the id of an instance.
const SEPARATOR: char = '/';

/// The maximum length of the name of a group, a job or a pool, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 200;

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
        if let Err(error) = parse_schedule(&self.name, text, self.schedule.dst_policy()) {
            tracing::error!(
                cron.job = %self.name, %error, "failed to parse the replacement schedule; using the original one"
            );
        }
    }

    /// Returns the registration of the job in the ledger.
    pub(crate) fn registration(&self, controls: Option<&JobControls>) -> Registration {
        Registration { job: self.name.clone(), schedule: self.effective(controls).schedule.identity() }
    }

    /// Describes the job to the ledger, for nodes that do not have it.
    pub(crate) fn describe(&self) -> JobDescription {
        JobDescription {
            schedule: self.schedule.to_string(),
            dst: write_dst(self.schedule.dst_policy()),
            ..describe_terms(self.name.clone(), &self.terms)
        }
    }
}

/// A body and its terms, for instances that are added at run time.
pub(crate) struct Kind {
    pub(crate) terms: JobTerms,
    pub(crate) body: Body,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Kind {
    /// Returns the job of an instance.
    pub(crate) fn job(&self, instance: &Instance) -> Result<Job, ScheduleError> {
        Ok(Job {
            name: instance.name.clone(),
            schedule: schedule_of(instance)?,
            terms: self.terms.clone(),
            body: self.body.clone(),
            definition: instance.revision,
            since: Some(counts_from(instance)),
        })
    }

    /// Describes the kind to the ledger, for nodes that do not have it. It has no schedule; its instances do.
    pub(crate) fn describe(&self, name: &str) -> Option<JobDescription> {
        Some(describe_terms(described_as(name)?, &self.terms))
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

impl<'a> Progress<'a> {
    /// Creates the values of a job. `since` is known for an instance; otherwise it is that of the summary.
    pub(crate) fn new(
        alert_after: Option<Duration>,
        since: Option<UtcTime>,
        summary: Option<&JobSummary>,
        controls: Option<&'a JobControls>,
    ) -> Self {
        let since = since.or_else(|| summary?.since);
        Self { alert_after, since, last_success: summary.and_then(|summary| summary.last_success), controls }
    }

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
    let replacement = replacement.and_then(|text| parse_schedule(name, text, schedule.dst_policy()).ok());
    EffectiveControls { revision, paused, schedule: replacement.unwrap_or_else(|| schedule.clone()) }
}

/// Validates the name of a job in code, or of a kind.
pub(crate) fn static_name(text: &str) -> Result<LockName, CronError> {
    if text.contains(SEPARATOR) {
        let about =
            "the name contains a slash, which separates a kind from an instance id: use another character";
        return Err(CronError::new(CronErrorKind::InvalidName).about(about));
    }
    if matches!(text, "." | "..") {
        let about =
            "a browser removes `.` and `..` from the address of the job in the console: use another name";
        return Err(CronError::new(CronErrorKind::InvalidName).about(about));
    }
    name(text)
}

/// Validates the name of an instance.
pub(crate) fn instance_name(kind: &str, id: &str) -> Result<LockName, CronError> {
    static_name(kind)?;
    if id.is_empty() {
        let about = "the instance id is empty: use one that is unique within its kind";
        return Err(CronError::new(CronErrorKind::InvalidName).about(about));
    }
    name(&format!("{kind}{SEPARATOR}{id}"))
}

/// Validates the name of a pool.
pub(crate) fn pool_name(text: &str) -> Result<LockName, CronError> {
    name(text)
}

fn name(text: &str) -> Result<LockName, CronError> {
    let name = LockName::new(text)?;
    if text.len() > MAX_NAME_BYTES {
        let about = format!("the name is {} bytes long: use at most {MAX_NAME_BYTES}", text.len());
        return Err(CronError::new(CronErrorKind::InvalidName).about(about));
    }
    Ok(name)
}

/// Returns the kind in the name of an instance; `None` for a job in code.
pub(crate) fn kind_of(name: &LockName) -> Option<&str> {
    name.as_str().split_once(SEPARATOR).map(|(kind, _)| kind)
}

/// Returns the name under which the ledger stores the terms of a kind. No job can have this name.
pub(crate) fn described_as(kind: &str) -> Option<LockName> {
    LockName::new(format!("{kind}{SEPARATOR}")).ok()
}

/// Returns `true` if a live node has registered the instance's kind.
pub(crate) fn is_on_a_node(instance: &LockName, nodes: &[LiveNode]) -> bool {
    let has = |node: &LiveNode| node.kinds.iter().any(|kind| Some(&**kind) == kind_of(instance));
    nodes.iter().any(has)
}

/// Returns the time from which an instance's `alert_after` is measured before its first success: the
/// start of its schedule, or its only scheduled time if that is later.
pub(crate) fn counts_from(instance: &Instance) -> UtcTime {
    let once = instance.definition.once.map(|once| once.at);
    once.into_iter().fold(instance.since, Ord::max)
}

/// Returns the schedule of an instance.
pub(crate) fn schedule_of(instance: &Instance) -> Result<Schedule, ScheduleError> {
    read_schedule(&instance.name, &instance.definition.schedule, &instance.definition.dst)
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

    #[test]
    fn only_instances_have_a_kind() {
        let name = instance_name("import", "tenant/7").expect("valid name");
        assert_eq!((name.as_str(), kind_of(&name)), ("import/tenant/7", Some("import")));
        assert_eq!(kind_of(&static_name("import").expect("valid name")), None);
        for (kind, id) in [("import", ""), ("a/b", "c"), ("", "a"), ("import", "\n")] {
            assert!(instance_name(kind, id).is_err(), "{kind}/{id}");
        }
    }
}
