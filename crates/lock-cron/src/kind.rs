//! Kinds of jobs, and the jobs of their instances.

use crate::{
    error::{CronError, CronErrorKind},
    job::{Body, Job},
    schedule::{DstPolicy, Fold, Gap, Schedule, ScheduleError},
    terms::{JobTerms, MAX_NAME_BYTES},
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{Instance, LiveNode};
use std::fmt;

/// The separator between a kind and the id of an instance.
const SEPARATOR: char = '/';

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

/// Formats a schedule for the store as its text and its policy. Returns an error if a node could
/// not parse them.
pub(crate) fn write_schedule(
    name: &LockName,
    schedule: &Schedule,
) -> Result<(String, String), ScheduleError> {
    let (text, dst) = (schedule.to_string(), write_dst(schedule.dst_policy()));
    read_schedule(name, &text, &dst)?;
    Ok((text, dst))
}

/// Returns an error if a schedule has no run of this job after this time.
pub(crate) fn check_upcoming(
    name: &LockName,
    schedule: &Schedule,
    now: UtcTime,
) -> Result<(), ScheduleError> {
    schedule.clone().for_job(name.as_str())?.check_upcoming(now)
}

/// Returns the schedule of an instance.
pub(crate) fn schedule_of(instance: &Instance) -> Result<Schedule, ScheduleError> {
    read_schedule(&instance.name, &instance.definition.schedule, &instance.definition.dst)
}

/// Parses a stored schedule and its policy.
pub(crate) fn read_schedule(name: &LockName, text: &str, dst: &str) -> Result<Schedule, ScheduleError> {
    Ok(Schedule::cron(text)?.for_job(name.as_str())?.on_dst(read_dst(dst)))
}

const GAPS: [(Gap, &str); 3] =
    [(Gap::RunOnce, "run_once"), (Gap::Skip, "skip"), (Gap::ShiftForward, "shift_forward")];
const FOLDS: [(Fold, &str); 3] = [(Fold::First, "first"), (Fold::Last, "last"), (Fold::Both, "both")];

/// Formats a policy as two words.
pub(crate) fn write_dst(policy: DstPolicy) -> String {
    let gap = GAPS.iter().find(|(gap, _)| *gap == policy.gap).map_or("", |(_, word)| word);
    let fold = FOLDS.iter().find(|(fold, _)| *fold == policy.fold).map_or("", |(_, word)| word);
    format!("{gap} {fold}")
}

/// Parses a policy. An unknown word, from a later version, means the default.
pub(crate) fn read_dst(text: &str) -> DstPolicy {
    let (gap, fold) = text.split_once(' ').unwrap_or_default();
    DstPolicy {
        gap: GAPS.iter().find(|(_, word)| *word == gap).map_or(Gap::default(), |(gap, _)| *gap),
        fold: FOLDS.iter().find(|(_, word)| *word == fold).map_or(Fold::default(), |(fold, _)| *fold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_back_from_their_words() {
        for (gap, _) in GAPS {
            for (fold, _) in FOLDS {
                let policy = DstPolicy { gap, fold };
                assert_eq!(read_dst(&write_dst(policy)), policy);
            }
        }
        assert_eq!(read_dst("a later_word"), DstPolicy::default());
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
