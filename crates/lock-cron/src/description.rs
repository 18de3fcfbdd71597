//! A job as text, for the store and for other nodes: its schedule with the policy for clock changes, and its terms in
//! words.

use crate::{
    options::{Jitter, JobTerms, Misfire, OnOrphan, Overlap, Placement},
    schedule::{DstPolicy, Fold, Gap, Schedule, ScheduleError, times::friendly},
};
use lock_core::LockName;
use lock_ledger::JobDescription;
use serde_json::{Value, json};
use std::time::Duration;

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

/// Parses a stored schedule and its policy.
pub(crate) fn read_schedule(name: &LockName, text: &str, dst: &str) -> Result<Schedule, ScheduleError> {
    parse_schedule(name, text, read_dst(dst))
}

/// Parses the text of a schedule of this job, to which the policy applies.
pub(crate) fn parse_schedule(
    name: &LockName,
    text: &str,
    policy: DstPolicy,
) -> Result<Schedule, ScheduleError> {
    Ok(Schedule::cron(text)?.for_job(name.as_str())?.on_dst(policy))
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

/// Describes terms to the ledger as rows, each with a name and a text, so a node can also show the terms of a
/// later version.
pub(crate) fn describe_terms(job: LockName, of: &JobTerms) -> JobDescription {
    let (terms, alert_after) = (Value::from(terms(of)).to_string(), of.alert_after);
    JobDescription { job, schedule: String::new(), dst: String::new(), terms, alert_after }
}

/// Returns the terms as rows, each with a name and a text.
pub(crate) fn terms(terms: &JobTerms) -> Vec<Value> {
    let rows = [
        ("Runs on", place(terms)),
        ("Overlap", overlap(terms.overlap)),
        ("Pool", pool(terms)),
        ("Missed runs", misfire(terms.misfire)),
        ("Grace", terms.grace.map_or_else(|| "half the interval to the next run".to_owned(), friendly)),
        ("Retries", retries(terms)),
        ("If a node dies", orphan(terms.on_orphan)),
        ("Timeout", terms.timeout.map_or_else(|| "none".to_owned(), friendly)),
        ("Jitter", jitter(terms.jitter)),
        ("Alert", terms.alert_after.map_or_else(|| "none".to_owned(), alert)),
    ];
    rows.iter().map(|(name, words)| json!([name, words])).collect()
}

/// Returns the zone of a schedule and its policy for clock changes as rows. Returns no rows for
/// UTC.
#[cfg(feature = "axum")]
pub(crate) fn clock_rows(schedule: &Schedule) -> Vec<Value> {
    if schedule.tz() == "UTC" {
        return Vec::new();
    }
    let DstPolicy { gap, fold } = schedule.dst_policy();
    let gap = match gap {
        Gap::RunOnce => "once after the gap",
        Gap::Skip => "skipped",
        Gap::ShiftForward => "shifted by the gap",
    };
    let fold = match fold {
        Fold::First => "in the first pass",
        Fold::Last => "in the second pass",
        Fold::Both => "in both passes",
    };
    vec![json!(["Time zone", schedule.tz()]), json!(["Skipped times", gap]), json!(["Repeated times", fold])]
}

fn place(terms: &JobTerms) -> String {
    match terms.placement {
        Placement::Spread => "any node",
        Placement::Leader => "the leader",
    }
    .to_owned()
}

fn overlap(overlap: Overlap) -> String {
    match overlap {
        Overlap::Skip => "skip while another run is open".to_owned(),
        Overlap::QueueOne => "queue one run".to_owned(),
        Overlap::CancelPrevious => "cancel the previous run".to_owned(),
        Overlap::Allow { max } => format!("up to {max} runs at once"),
    }
}

fn pool(terms: &JobTerms) -> String {
    match &terms.pool {
        Some(pool) => format!("{}, up to {} runs at once in the fleet", pool.name, pool.max),
        None => "none".to_owned(),
    }
}

fn misfire(misfire: Misfire) -> String {
    match misfire {
        Misfire::Skip => "skip".to_owned(),
        Misfire::FireOnce => "run the latest".to_owned(),
        Misfire::FireAll { max } => format!("run the latest {max}"),
    }
}

fn retries(terms: &JobTerms) -> String {
    let retries = &terms.retries;
    match retries.max {
        0 => "none".to_owned(),
        max => format!("up to {max}, the first after {}", friendly(retries.initial_delay)),
    }
}

fn orphan(on_orphan: OnOrphan) -> String {
    match on_orphan {
        OnOrphan::Skip => "do not run again".to_owned(),
        OnOrphan::Retry { max } => format!("run again, up to {max} times"),
    }
}

fn alert(after: Duration) -> String {
    format!("{} without a success", friendly(after))
}

fn jitter(jitter: Jitter) -> String {
    let up_to = |max: Duration, kind: &str| format!("{kind}, up to {}", friendly(max));
    match jitter {
        Jitter::None => "none".to_owned(),
        Jitter::Fixed(max) => up_to(max, "fixed per job"),
        Jitter::Random(max) => up_to(max, "random"),
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
}
