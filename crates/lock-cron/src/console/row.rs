//! One job as JSON: its row in the list, its schedule, and its history by run. Times are milliseconds since the epoch.

use crate::{
    description,
    job::{Progress, is_on_a_node},
    schedule::{DstPolicy, Schedule},
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{
    Attempt, Backfill, CatchUp, JobControls, JobSummary, LiveNode, OpenRun, Registration, RunOutcome,
    RunState,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The time after its last description at which a job in code counts as unowned. Leaders describe their jobs every
/// minute.
const UNOWNED_AFTER: Duration = Duration::from_secs(150);

/// The known facts about a job.
pub(super) struct Facts<'a> {
    pub(super) name: &'a LockName,
    /// `None` if the ledger has no data about the job yet.
    pub(super) summary: Option<&'a JobSummary>,
    pub(super) controls: Option<&'a JobControls>,
    /// The values that determine whether the job is overdue.
    pub(super) progress: Progress<'a>,
    pub(super) open: Vec<&'a OpenRun>,
    /// The job's unfinished backfills.
    pub(super) backfills: Vec<&'a Backfill>,
    pub(super) is_instance: bool,
    /// The live nodes.
    pub(super) nodes: &'a [LiveNode],
    pub(super) now: UtcTime,
}

/// The states by which the list can be filtered. A job may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags {
    pub(super) failing: bool,
    pub(super) overdue: bool,
    pub(super) paused: bool,
    pub(super) running: bool,
    pub(super) unowned: bool,
}

impl Facts<'_> {
    pub(super) fn flags(&self) -> Flags {
        let described = self.summary.map(|summary| summary.described);
        let is_silent = described.is_some_and(|at| self.now.since(at) > UNOWNED_AFTER);
        Flags {
            failing: self.summary.is_some_and(|summary| summary.failing_since.is_some()),
            overdue: self.progress.overdue(self.now).is_some(),
            paused: self.controls.is_some_and(|controls| controls.paused),
            running: self.open.iter().any(|run| matches!(run.state, RunState::Running | RunState::Waiting)),
            unowned: match self.is_instance {
                true => !is_on_a_node(self.name, self.nodes),
                false => self.nodes.is_empty() || is_silent,
            },
        }
    }

    pub(super) fn json(&self, plan: &Plan) -> Value {
        let flags = self.flags();
        let summary = self.summary;
        let note = self.controls.map(|controls| &controls.note);
        let words =
            |summary: &JobSummary| summary.recent.iter().map(|outcome| outcome.as_str()).collect::<Vec<_>>();
        let recent = summary.map(words);
        json!({
            "name": self.name.as_str(),
            "schedule": plan.text(),
            "words": plan.words,
            "next": plan.next.filter(|_| !flags.paused).map(UtcTime::as_millis),
            "replaced": self.controls.is_some_and(|controls| controls.schedule.is_some()),
            "failing": flags.failing,
            "overdue": flags.overdue,
            "paused": flags.paused,
            "running": flags.running,
            "unowned": flags.unowned,
            "note": note.map(|note| note.text.as_str()),
            "actor": note.map(|note| note.actor.as_str()),
            "failing_since": summary.and_then(|summary| summary.failing_since).map(millis),
            "last_success": summary.and_then(|summary| summary.last_success).map(millis),
            "last": summary.and_then(|summary| summary.last.as_ref()).map(attempt),
            "recent": recent.unwrap_or_default(),
            "open": self.open.iter().map(|run| open(run)).collect::<Vec<_>>(),
            "backfills": self.backfills.iter().map(|of| backfill(of, &self.open)).collect::<Vec<_>>(),
        })
    }
}

/// A schedule that applies to a job, and its next run, cached between requests.
pub(super) struct Plan {
    /// The text from which the schedule was parsed; a different text means a change.
    text: String,
    policy: DstPolicy,
    /// `None` if this version of the program cannot read the text.
    schedule: Option<Schedule>,
    pub(super) words: String,
    next: Option<UtcTime>,
}

impl Plan {
    /// Parses a stored schedule.
    pub(super) fn read(job: &LockName, text: &str, policy: DstPolicy, now: UtcTime) -> Self {
        Self::new(text, policy, description::parse_schedule(job, text, policy).ok(), now)
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

    fn text(&self) -> &str {
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

fn millis(time: UtcTime) -> u64 {
    time.as_millis()
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "run": attempt.run.to_string(),
        "scheduled": attempt.run.instant().map(millis),
        "attempt": attempt.attempt,
        "node": attempt.node,
        "token": attempt.token.get(),
        "catch_up": attempt.catch_up == CatchUp::Yes,
        "started": millis(attempt.started),
        "ended": millis(attempt.ended),
        "outcome": attempt.outcome.as_str(),
        "detail": attempt.detail,
    })
}

fn open(run: &OpenRun) -> Value {
    json!({
        "run": run.run.to_string(),
        "scheduled": run.run.instant().map(millis),
        "backfill": run.run.backfill().is_some(),
        "attempt": run.attempt,
        "node": run.node,
        "token": run.token.get(),
        "started": millis(run.started),
        "state": run.state.as_str(),
        "cancelled": run.cancelled,
    })
}

/// Returns a backfill with the numbers of its runs that have ended, that are in `open`, and that have not started.
fn backfill(backfill: &Backfill, open: &[&OpenRun]) -> Value {
    let Backfill { id, first, last, count, done: started, .. } = backfill;
    let open = open.iter().filter(|run| run.run.backfill() == Some(*id)).count() as u64;
    json!({
        "id": id.to_string(),
        "first": millis(*first),
        "last": millis(*last),
        "done": u64::from(*started).saturating_sub(open),
        "open": open,
        "left": count.saturating_sub(*started),
    })
}

/// A run with its attempts, or a group of adjacent skips.
enum Entry<'a> {
    /// The attempts, latest first.
    Run(Vec<&'a Attempt>),
    Skips {
        latest: &'a Attempt,
        first: &'a Attempt,
        count: u32,
    },
}

/// Groups a history, whose entries are sorted by their ends, latest first. The result is sorted by
/// scheduled time, latest first.
pub(super) fn runs(history: &[Attempt]) -> Value {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for entry in history {
        if entry.outcome == RunOutcome::Skipped {
            entries.push(Entry::Skips { latest: entry, first: entry, count: entry.count });
            continue;
        }
        let same_run = entries.iter_mut().find_map(|of| match of {
            Entry::Run(attempts) if attempts[0].run == entry.run => Some(attempts),
            _ => None,
        });
        match same_run {
            Some(attempts) => attempts.push(entry),
            None => entries.push(Entry::Run(vec![entry])),
        }
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.instant()));
    let mut folded: Vec<Entry<'_>> = Vec::new();
    for entry in entries {
        match (folded.last_mut(), entry) {
            (
                Some(Entry::Skips { first, count, latest }),
                Entry::Skips { first: earlier, count: more, .. },
            ) if latest.detail == earlier.detail => {
                (*first, *count) = (earlier, count.saturating_add(more));
            }
            (_, entry) => folded.push(entry),
        }
    }
    folded.iter().map(Entry::json).collect()
}

impl Entry<'_> {
    /// Returns a scheduled run's time, or the start of any other run.
    fn instant(&self) -> UtcTime {
        let of = match self {
            Self::Run(attempts) => attempts[attempts.len() - 1],
            Self::Skips { latest, .. } => latest,
        };
        of.run.scheduled().unwrap_or(of.started)
    }

    fn json(&self) -> Value {
        match self {
            Self::Run(attempts) => json!({
                "run": attempts[0].run.to_string(),
                "at": millis(self.instant()),
                "triggered": attempts[0].run.instant().is_none(),
                "backfill": attempts[0].run.backfill().and(attempts[0].run.instant()).map(millis),
                "attempts": attempts.iter().map(|of| attempt(of)).collect::<Vec<_>>(),
            }),
            Self::Skips { latest, first, count } => json!({
                "run": format!("skipped:{}", first.first),
                "at": millis(self.instant()),
                "first": first.first.scheduled().map(millis),
                "skipped": count,
                "detail": latest.detail,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::FencingToken;
    use lock_ledger::{CatchUp, ClaimId, RunId};

    fn entry(instant: u64, number: u32, ended: u64, outcome: RunOutcome) -> Attempt {
        let run = RunId::at_millis(instant);
        Attempt {
            run,
            first: run,
            count: 1,
            attempt: number,
            claim: ClaimId::random(),
            token: FencingToken::new(1),
            node: "a".to_owned(),
            catch_up: CatchUp::No,
            started: UtcTime::from_millis(instant),
            ended: UtcTime::from_millis(ended),
            outcome,
            detail: String::new(),
        }
    }

    #[test]
    fn attempts_are_grouped_and_skips_are_joined() {
        use RunOutcome::{Failed, Skipped, Succeeded};
        // The second attempt of 10 ended after the skips of 20 and 30.
        let history = [
            entry(40, 1, 44, Succeeded),
            entry(10, 2, 35, Succeeded),
            entry(30, 0, 30, Skipped),
            entry(20, 0, 20, Skipped),
            entry(10, 1, 12, Failed),
        ];
        let runs = runs(&history);
        let field =
            |name: &str| runs.as_array().unwrap().iter().map(|run| run[name].clone()).collect::<Vec<_>>();
        assert_eq!(field("at"), [40, 30, 10]);
        assert_eq!(field("skipped"), [Value::Null, 2.into(), Value::Null]);
        assert_eq!(runs[1]["first"], 20);
        let outcomes: Vec<_> =
            runs[2]["attempts"].as_array().unwrap().iter().map(|a| &a["outcome"]).collect();
        assert_eq!(outcomes, ["succeeded", "failed"]);
    }

    #[test]
    fn empty_history_has_no_runs() {
        assert_eq!(runs(&[]), Value::Array(Vec::new()));
    }
}
