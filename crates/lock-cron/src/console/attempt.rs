//! Attempts, open runs and backfills as JSON. Times are milliseconds since the epoch.

use lock_core::clock::UtcTime;
use lock_ledger::{Attempt, Backfill, CatchUp, OpenRun};
use serde_json::{Value, json};

pub(super) fn millis(time: UtcTime) -> u64 {
    time.as_millis()
}

pub(super) fn attempt(attempt: &Attempt) -> Value {
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

pub(super) fn open(run: &OpenRun) -> Value {
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
pub(super) fn backfill(backfill: &Backfill, open: &[&OpenRun]) -> Value {
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
