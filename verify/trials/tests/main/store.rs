//! The records of instances in the store.

use lock_testkit::{RawValue, RedisServer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The decisions about an instance, times in milliseconds since the epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decided {
    /// All instants up to this one are decided.
    pub(crate) up_to: u64,
    /// The instants of runs that are open, or whose node died before recording an outcome: they may have started
    /// without a report.
    pub(crate) unreported: BTreeSet<u64>,
    /// The number of instants that were skipped.
    pub(crate) skipped: usize,
}

fn key(what: &str) -> String {
    format!("distlock:ledger:2:{what}:{{fleet}}")
}

fn texts(value: &RawValue) -> Vec<String> {
    value.list().iter().map(|text| text.text().to_owned()).collect()
}

/// Returns the decisions about an instance. They are read in the order of a run's life: decided, then open, then in the
/// history.
pub(crate) fn decided(server: &RedisServer, name: &str) -> Decided {
    let mark = server.command(&["HGET", &format!("{}:{name}", key("job")), "mark"]);
    let (mut unreported, mut skipped) = (open(server).remove(name).unwrap_or_default(), 0);
    for entry in texts(&server.command(&["LRANGE", &format!("{}:{name}", key("history")), "0", "-1"])) {
        let entry: Value = serde_json::from_str(&entry).expect("an attempt is JSON");
        if entry["outcome"] == "skipped" {
            skipped += usize::try_from(entry["count"].as_u64().expect("a count")).expect("few skips");
        }
        if entry["outcome"] == "abandoned" {
            unreported.insert(entry["run"].as_str().and_then(|run| run.parse().ok()).expect("an instant"));
        }
    }
    Decided { up_to: mark.text().parse().expect("a number"), unreported, skipped }
}

/// Returns the instants of the open runs of each instance.
pub(crate) fn open(server: &RedisServer) -> BTreeMap<String, BTreeSet<u64>> {
    let mut open = BTreeMap::<_, BTreeSet<_>>::new();
    for field in texts(&server.command(&["HKEYS", &key("open")])) {
        let (job, run) = field.split_once('\n').expect("a job and a run");
        open.entry(job.to_owned()).or_default().insert(run.parse().expect("an instant"));
    }
    open
}

/// Returns the names of the defined instances.
pub(crate) fn defined(server: &RedisServer) -> BTreeSet<String> {
    texts(&server.command(&["HKEYS", &key("instances")])).into_iter().collect()
}

/// Returns the time up to which each of these instances is decided.
pub(crate) fn marks(server: &RedisServer, names: &[String]) -> Vec<u64> {
    let mut connection = server.raw();
    let mark = |name| {
        let mark = connection.command(&["HGET", &format!("{}:{name}", key("job")), "mark"]);
        mark.text().parse().expect("a number")
    };
    names.iter().map(mark).collect()
}

/// Returns all keys, and all fields and values of the group's hashes. The list of changes is omitted: it contains the
/// names of forgotten instances for a minute.
pub(crate) fn everything(server: &RedisServer) -> Vec<String> {
    let mut all = texts(&server.command(&["KEYS", "*"]));
    for hash in ["open", "group", "nodes", "instances", "summaries"] {
        all.extend(texts(&server.command(&["HGETALL", &key(hash)])));
    }
    all
}
