//! Records of the ledger, which are JSON objects. Unknown fields are ignored, and unknown words map
//! to a separate variant. A record that cannot be decoded is omitted, and the rest of the reply is
//! used.

use lock_core::{FencingToken, LockName, clock::UtcTime};
use lock_ledger::{
    Attempt, Backfill, CatchUp, Definition, Instance, JobControls, JobSummary, LiveNode, Once, OpenRun,
    PauseNote, RunId, RunOutcome, RunState, Trigger,
};
use serde_json::{Map, Value, json};
use std::{str::FromStr, time::Duration};
use uuid::Uuid;

pub(super) struct Record(Map<String, Value>);

impl Record {
    pub(super) fn read(text: &str) -> Option<Self> {
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Some(Self(fields)),
            _ => None,
        }
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str()
    }

    fn parsed<T: FromStr>(&self, field: &str) -> Option<T> {
        self.text(field)?.parse().ok()
    }

    /// Returns a count. Small ones are stored as numbers, large ones as text.
    fn count(&self, field: &str) -> u32 {
        let number = self.0.get(field).and_then(Value::as_f64).unwrap_or_default();
        number.clamp(0.0, u32::MAX.into()) as u32
    }

    fn is(&self, field: &str) -> bool {
        self.0.get(field) == Some(&Value::Bool(true))
    }

    /// Returns the parts of a text that are separated by slashes.
    fn texts(&self, field: &str) -> Vec<String> {
        let parts = self.text(field).unwrap_or_default().split('/');
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn micros(&self, field: &str) -> Option<UtcTime> {
        self.parsed(field).map(UtcTime::from_micros)
    }

    pub(super) fn open(&self, job: LockName, now: UtcTime) -> Option<OpenRun> {
        let expires: u64 = self.parsed("expires")?;
        let is_over = now.as_millis() > expires;
        let state = match (is_over, self.text("stage")) {
            (false, Some("failed" | "interrupted" | "unbegun")) => RunState::Waiting,
            (true, Some("failed" | "interrupted" | "unbegun")) => RunState::Released,
            (false, _) => RunState::Running,
            (true, _) => RunState::Orphaned,
        };
        Some(OpenRun {
            job,
            run: self.parsed("run")?,
            attempt: self.count("attempt"),
            claim: self.parsed("claim")?,
            token: FencingToken::new(self.parsed("token")?),
            node: self.text("node").unwrap_or_default().to_owned(),
            started: self.micros("started")?,
            remaining: Duration::from_millis(expires.saturating_sub(now.as_millis())),
            state,
            pool: self.text("pool").and_then(|pool| LockName::new(pool).ok()),
            cancelled: self.is("cancelled"),
            declines: self.count("declines"),
        })
    }

    pub(super) fn ended(&self) -> Option<Attempt> {
        let run: RunId = self.parsed("run")?;
        Some(Attempt {
            run,
            first: self.parsed("first").unwrap_or(run),
            count: self.count("count"),
            attempt: self.count("attempt"),
            claim: self.parsed("claim")?,
            token: FencingToken::new(self.parsed("token")?),
            node: self.text("node").unwrap_or_default().to_owned(),
            catch_up: if self.is("catch_up") { CatchUp::Yes } else { CatchUp::No },
            started: self.micros("started")?,
            ended: self.micros("ended")?,
            outcome: RunOutcome::from_word(self.text("outcome")?),
            detail: self.text("detail").unwrap_or_default().to_owned(),
        })
    }

    pub(super) fn node(&self, id: &str) -> Option<LiveNode> {
        Some(LiveNode {
            id: Uuid::try_parse(id).ok()?,
            name: self.text("name").unwrap_or_default().to_owned(),
            jobs: u64::from_str_radix(self.text("jobs")?, 16).ok()?,
            room: self.count("room"),
            kinds: self.texts("kinds"),
            leading: self.is("leading"),
        })
    }

    pub(super) fn instance(&self, name: LockName) -> Option<Instance> {
        let once = self.parsed("once").zip(self.parsed("kept"));
        let once =
            once.map(|(at, kept)| Once { at: UtcTime::from_millis(at), kept: Duration::from_millis(kept) });
        let text = |field| self.text(field).map(str::to_owned);
        Some(Instance {
            name,
            definition: Definition { schedule: text("schedule")?, dst: text("dst")?, once },
            revision: self.parsed("revision")?,
            added_by: text("added_by")?,
            added_at: self.micros("added_at")?,
            since: self.micros("since").or_else(|| self.micros("added_at"))?,
        })
    }

    /// Returns `true` if the lease of a node has ended.
    pub(super) fn is_over(&self, now: UtcTime) -> bool {
        self.parsed::<u64>("expires").is_none_or(|expires| now.as_millis() > expires)
    }

    pub(super) fn summary(&self, job: LockName) -> JobSummary {
        let last = self.0.get("last").and_then(Value::as_object);
        let recent = self.text("recent").unwrap_or_default();
        JobSummary {
            job,
            schedule: self.text("schedule").unwrap_or_default().to_owned(),
            dst: self.text("dst").unwrap_or_default().to_owned(),
            terms: self.text("terms").unwrap_or_default().to_owned(),
            alert_after: self.parsed("alert").map(Duration::from_millis),
            since: self.parsed("since").map(UtcTime::from_millis),
            described: self.micros("described").unwrap_or_default(),
            recent: recent.split_whitespace().map(RunOutcome::from_word).collect(),
            last: last.and_then(|last| Self(last.clone()).ended()),
            last_success: self.micros("success"),
            failing_since: self.micros("failing"),
        }
    }

    pub(super) fn controls(&self) -> Option<JobControls> {
        Some(JobControls {
            revision: self.parsed("revision")?,
            paused: self.is("paused"),
            note: PauseNote {
                actor: self.text("actor").unwrap_or_default().to_owned(),
                text: self.text("note").unwrap_or_default().to_owned(),
            },
            schedule: self.text("schedule").map(str::to_owned),
        })
    }

    pub(super) fn backfill(&self, id: Uuid) -> Option<Backfill> {
        let millis = |field| self.parsed(field).map(UtcTime::from_millis);
        let text = |field| self.text(field).map(str::to_owned);
        Some(Backfill {
            id,
            job: LockName::new(self.text("job")?).ok()?,
            given: self.micros("given")?,
            first: millis("first")?,
            mark: millis("mark")?,
            last: millis("last")?,
            count: self.count("count"),
            done: self.count("done"),
            schedule: text("schedule")?,
            dst: text("dst")?,
        })
    }

    pub(super) fn trigger(&self, run: RunId) -> Option<Trigger> {
        let RunId::Triggered(id) = run else { return None };
        let job = LockName::new(self.text("job")?).ok()?;
        Some(Trigger { given: self.micros("given")?, until: self.micros("until")?, id, job })
    }
}

/// Encodes controls in the format that `ledger_command.lua` writes.
pub(super) fn of_controls(controls: &JobControls) -> String {
    let JobControls { revision, paused, note, schedule } = controls;
    let mut record = json!({ "revision": revision.to_string(), "paused": paused });
    if *paused {
        (record["note"], record["actor"]) = (json!(note.text), json!(note.actor));
    }
    if let Some(schedule) = schedule {
        record["schedule"] = json!(schedule);
    }
    record.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDED: &str = r#"{"run":"1767225600000","first":"1767225600000","count":1,"attempt":2,
        "claim":"00000000-0000-0000-0000-000000000007","token":"1767225600000123","node":"a","catch_up":true,
        "started":"1767225600000001","ended":"1767225600000002","outcome":"succeeded","detail":""}"#;

    #[test]
    fn written_controls_are_read_back() {
        let note = PauseNote { actor: "ann \"ü\"".to_owned(), text: "{[".to_owned() };
        let paused = JobControls { revision: u64::MAX, paused: true, note, schedule: None };
        let replaced = JobControls { revision: 7, schedule: Some("@daily".to_owned()), ..Default::default() };
        for controls in [paused, replaced] {
            let read = Record::read(&of_controls(&controls)).and_then(|record| record.controls());
            assert_eq!(read, Some(controls));
        }
    }

    #[test]
    fn unknown_fields_and_words_are_tolerated() {
        let read = |text: &str| Record::read(text).and_then(|record| record.ended());
        let before = read(ENDED).expect("our record");
        let more = ENDED.replace("{\"run\"", "{\"later\":{\"of\":[1]},\"run\"");
        assert_eq!(read(&more), Some(before.clone()));
        let other = read(&more.replace("succeeded", "teleported")).expect("a word from a later version");
        assert_eq!(other, Attempt { outcome: RunOutcome::Other, ..before });
    }
}
