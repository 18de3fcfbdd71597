//! A job's history by run: the attempts of each run are grouped, and adjacent skips are one entry.

use super::attempt::{attempt, millis};
use lock_core::clock::UtcTime;
use lock_ledger::{Attempt, RunOutcome};
use serde_json::{Value, json};

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
