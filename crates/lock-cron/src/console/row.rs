//! One job in the list.

use super::{
    attempt::{attempt, backfill, millis, open},
    plan::Plan,
};
use crate::{job::Progress, kind};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{Backfill, JobControls, JobSummary, LiveNode, OpenRun, RunState};
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
                true => !kind::is_on_a_node(self.name, self.nodes),
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
