//! Attempts and open runs as JSON. Times are milliseconds since the epoch.

use lock_core::clock::UtcTime;
use lock_ledger::{Attempt, CatchUp, OpenRun};
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
