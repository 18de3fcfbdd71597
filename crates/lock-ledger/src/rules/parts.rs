//! A group's data in parts, as a database stores them in rows. An operation reads the parts that its rule needs, applies
//! the rule to a ledger that has only these, and writes the parts that have changed.

use super::{GroupLedger, Head, Job, Stage};
use crate::{
    ids::{ClaimId, ParseIdError, RunId},
    instance::InstancesFrom,
    run::RunOutcome,
};
use lock_core::{LockName, clock::UtcTime};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The kinds of parts. Except for the head, a group has many of each, by name.
pub(crate) const HEAD: &str = "head";
pub(crate) const NODE: &str = "node";
pub(crate) const JOB: &str = "job";
pub(crate) const HISTORY: &str = "history";
pub(crate) const INSTANCE: &str = "instance";
/// The payload of an instance.
pub(crate) const PAYLOAD: &str = "payload";
/// The payload of a trigger. If all of them are read, then without their data.
pub(crate) const ARGUMENT: &str = "argument";
pub(crate) const KIND: &str = "kind";
/// The claim of an open run, by the name of an argument; followed by [`FINISHED`] once a transaction of the application
/// has recorded its success. It is no data of the rules.
pub(crate) const CLAIM: &str = "claim";
/// Said of a claim that no transaction of the application has.
pub(crate) const LOCKED: &str = "locked";

/// Follows the id of a claim whose success was recorded.
pub const FINISHED: &str = " finished";

/// The parts that were read: their data, by kind and name.
pub type Parts = BTreeMap<(String, String), String>;

/// A part that has changed.
#[derive(Debug)]
pub struct Change {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its data; `None` if it is to be deleted.
    pub data: Option<String>,
    /// `true` for a job with open runs.
    pub open: bool,
    /// `true` for a job with controls.
    pub controlled: bool,
    /// The time in ms after which the record of a job that has run once is removed.
    pub expires_ms: Option<u64>,
}

impl Change {
    /// Deletes a part.
    pub(crate) fn of(kind: &'static str, name: &str) -> Self {
        Self { kind, name: name.to_owned(), data: None, open: false, controlled: false, expires_ms: None }
    }
}

/// A job, and the time in ms after which its record is removed, if it has run once.
#[derive(Serialize, Deserialize)]
struct StoredJob<J> {
    job: J,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
}

/// The instances that a reader wants.
#[derive(Debug)]
pub(crate) enum WantedInstances {
    /// None: they have not changed.
    Nothing,
    /// Those of these names that exist.
    Named(Vec<LockName>),
    /// The page that follows this name, or the first one.
    Page(Option<LockName>),
}

impl GroupLedger {
    /// Builds a ledger that has these parts. Rules that need others give wrong answers.
    ///
    /// # Errors
    /// Returns an error if a part cannot be understood.
    pub(crate) fn from_parts(parts: &Parts) -> Result<Self, serde_json::Error> {
        let mut ledger = Self::default();
        let mut histories = Vec::new();
        for ((kind, name), data) in parts {
            match kind.as_str() {
                HEAD => ledger.head = serde_json::from_str(data)?,
                NODE => drop(ledger.nodes.insert(parsed_uuid(name)?, serde_json::from_str(data)?)),
                JOB => {
                    let StoredJob::<Job> { job, expires_ms } = serde_json::from_str(data)?;
                    let name = parsed_name(name)?;
                    ledger.expiring.extend(expires_ms.map(|expires| (expires, name.clone())));
                    ledger.jobs.insert(name, job);
                }
                HISTORY => histories.push((parsed_name(name)?, serde_json::from_str(data)?)),
                INSTANCE => drop(ledger.instances.insert(parsed_name(name)?, serde_json::from_str(data)?)),
                PAYLOAD => drop(ledger.instance_payloads.insert(parsed_name(name)?, data.clone())),
                ARGUMENT => drop(ledger.payloads.insert(parsed_argument(name)?, data.clone())),
                KIND => drop(ledger.kinds.insert(parsed_name(name)?, serde_json::from_str(data)?)),
                // Of a later version.
                _ => {}
            }
        }
        for (name, history) in histories {
            if let Some(job) = ledger.jobs.get_mut(&name) {
                job.history = history;
            }
        }
        Ok(ledger)
    }

    /// Returns the parts that differ from those that were read.
    ///
    /// # Errors
    /// Returns an error if a part cannot be written as JSON.
    pub(crate) fn changes(&self, before: &Parts) -> Result<Vec<Change>, serde_json::Error> {
        let mut after: BTreeMap<(&'static str, String), Change> = BTreeMap::new();
        let mut put = |kind, name: &str, data: String, open, controlled| {
            let change = Change { data: Some(data), open, controlled, ..Change::of(kind, name) };
            after.insert((kind, name.to_owned()), change);
        };
        if self.head != Head::default() {
            put(HEAD, "", as_json(&self.head)?, false, false);
        }
        for (id, node) in &self.nodes {
            put(NODE, &id.to_string(), as_json(node)?, false, false);
        }
        let expiring: BTreeMap<_, _> = self.expiring.iter().map(|(expires, name)| (name, *expires)).collect();
        for (name, job) in &self.jobs {
            let controlled = job.controls.revision > 0;
            let stored = as_json(&StoredJob { job, expires_ms: expiring.get(name).copied() })?;
            put(JOB, name.as_str(), stored, !job.open.is_empty(), controlled);
            if !job.history.is_empty() {
                put(HISTORY, name.as_str(), as_json(&job.history)?, false, false);
            }
        }
        for (name, instance) in &self.instances {
            put(INSTANCE, name.as_str(), as_json(instance)?, false, false);
        }
        for (name, payload) in self.instance_payloads.iter().filter(|(_, payload)| !payload.is_empty()) {
            put(PAYLOAD, name.as_str(), payload.clone(), false, false);
        }
        for ((job, run), payload) in &self.payloads {
            put(ARGUMENT, &argument_name(job, *run), payload.clone(), false, false);
        }
        for (name, summary) in &self.kinds {
            put(KIND, name.as_str(), as_json(summary)?, false, false);
        }
        for (name, expires) in expiring {
            if let Some(job) = after.get_mut(&(JOB, name.as_str().to_owned())) {
                job.expires_ms = Some(expires);
            }
        }
        let mut changes = Vec::new();
        for ((kind, name), data) in before {
            match after.remove(&(known_kind(kind), name.clone())) {
                Some(change) if change.data.as_ref() == Some(data) => {}
                Some(change) => changes.push(change),
                None if known_kind(kind).is_empty() => {}
                None => changes.push(Change::of(known_kind(kind), name)),
            }
        }
        changes.extend(after.into_values());
        Ok(changes)
    }

    /// Returns `true` if an attempt of a run is running, or was when its node died.
    pub(crate) fn is_running(&self, job: &LockName, run: RunId) -> bool {
        let open = self.jobs.get(job).and_then(|job| job.open.get(&run));
        open.is_some_and(|open| open.stage == Stage::Running)
    }

    /// Returns the revision of the controls.
    #[must_use]
    pub(crate) fn revision(&self) -> u64 {
        self.head.revision
    }

    /// Returns the names of the records that [`expire`](Self::expire) removes.
    #[must_use]
    pub(crate) fn expired(&self, now: UtcTime) -> Vec<LockName> {
        let expired = self.expiring.iter().take_while(|(expires, _)| now.as_millis() > *expires);
        expired.map(|(_, name)| name.clone()).collect()
    }

    /// Returns the instances that [`instances`](Self::instances) reads.
    #[must_use]
    pub(crate) fn wanted_instances(&self, from: &InstancesFrom) -> WantedInstances {
        match from {
            InstancesFrom::Revision(known) if *known == self.head.instances_revision => {
                WantedInstances::Nothing
            }
            InstancesFrom::Revision(known) => {
                match self.head.changes.iter().position(|(change, _)| change == known) {
                    Some(at) => WantedInstances::Named(
                        self.head.changes.iter().skip(at + 1).map(|(_, name)| name.clone()).collect(),
                    ),
                    None => WantedInstances::Page(None),
                }
            }
            InstancesFrom::Name(name) => WantedInstances::Page(Some(name.clone())),
        }
    }
}

/// Returns the kind; empty for one of a later version.
fn known_kind(kind: &str) -> &'static str {
    let kinds = [HEAD, NODE, JOB, HISTORY, INSTANCE, PAYLOAD, ARGUMENT, KIND];
    kinds.into_iter().find(|known| *known == kind).unwrap_or_default()
}

/// Returns the name of a trigger's payload, and of a claim. A name of a job contains no control characters.
#[must_use]
pub fn argument_name(job: &LockName, run: RunId) -> String {
    format!("{job}\n{run}")
}

pub(crate) fn parsed_argument(name: &str) -> Result<(LockName, RunId), serde_json::Error> {
    let (job, run) = name.split_once('\n').ok_or(ParseIdError).map_err(serde_json::Error::custom)?;
    Ok((parsed_name(job)?, run.parse().map_err(serde_json::Error::custom)?))
}

fn parsed_name(name: &str) -> Result<LockName, serde_json::Error> {
    LockName::new(name).map_err(serde_json::Error::custom)
}

fn parsed_uuid(name: &str) -> Result<Uuid, serde_json::Error> {
    Uuid::try_parse(name).map_err(serde_json::Error::custom)
}

fn as_json(data: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(data)
}

/// Ids and words are stored as text.
macro_rules! stored_as_text {
    ($($id:ty: $parse:expr,)+) => {
        $(
            impl Serialize for $id {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    to.collect_str(self)
                }
            }

            impl<'de> Deserialize<'de> for $id {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    let parse: fn(&str) -> Result<Self, ParseIdError> = $parse;
                    parse(&String::deserialize(from)?).map_err(D::Error::custom)
                }
            }
        )+
    };
}

stored_as_text! {
    RunId: str::parse,
    ClaimId: str::parse,
    RunOutcome: |word| Ok(Self::from_word(word)),
}
