//! The state of the group as of the last read of the store, shared by all viewers. Only instances that changed are read
//! again.

use super::row::{Facts, Flags, Plan};
use crate::{
    description::read_dst,
    error::CronError,
    job::{self, Progress},
    ledger_client::NO_REVISION,
    schedule::Schedule,
    scheduler::Scheduler,
};
use lock_core::{__private::lock, LockName, backend::ProcessId, clock::UtcTime};
use lock_ledger::{
    Backfill, FleetControls, GroupSummary, Instance, Instances, JobControls, JobSummary, LiveNode, OpenRun,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};
use uuid::Uuid;

/// The state of the routes.
#[derive(Clone)]
pub(super) struct Console {
    pub(super) cron: Scheduler,
    pub(super) view: Arc<Mutex<View>>,
    pub(super) access: Access,
}

impl Console {
    pub(super) fn group(&self) -> &str {
        self.cron.shared.node.ledger.group().as_str()
    }
}

/// The requests that a console accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    Actions,
}

/// The minimum time between two reads of the store.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The state of the group.
pub(super) struct View {
    /// A random id. Versions of different views are not comparable.
    id: Uuid,
    /// The version of the latest change to any row.
    version: u64,
    /// The time before which the store is not read again, and the outcome of the last read.
    fresh: Option<(Instant, Result<(), CronError>)>,
    /// The start of the last read, whose request may have been dropped.
    asked: Option<Instant>,
    pub(super) now: UtcTime,
    nodes: Vec<LiveNode>,
    definitions: Definitions,
    pub(super) rows: BTreeMap<LockName, Row>,
}

/// One job.
pub(super) struct Row {
    pub(super) flags: Flags,
    pub(super) json: Value,
    /// The version of the last change to `json` or `terms`.
    pub(super) version: u64,
    pub(super) plan: Plan,
    /// The terms from the description of the job or its kind; empty if there is none.
    pub(super) terms: String,
}

/// The replies to one read of the store.
struct Read {
    now: UtcTime,
    summary: GroupSummary,
    instances: Instances,
    controls: FleetControls,
    open: Vec<OpenRun>,
}

impl Default for View {
    fn default() -> Self {
        Self {
            id: *ProcessId::random().as_uuid(),
            version: 0,
            fresh: None,
            asked: None,
            now: UtcTime::default(),
            nodes: Vec::new(),
            definitions: Definitions::default(),
            rows: BTreeMap::new(),
        }
    }
}

impl View {
    /// Makes the next viewer read the store again.
    pub(super) fn outdate(&mut self) {
        (self.fresh, self.asked) = (None, None);
    }

    /// Reads the store, unless it was read very recently.
    pub(super) async fn refresh(&mut self, cron: &Scheduler) -> Result<(), CronError> {
        if let Some((until, outcome)) = &self.fresh
            && Instant::now() < *until
        {
            return outcome.clone();
        }
        if let Some(asked) = self.asked {
            sleep_until(asked + MIN_INTERVAL).await;
        }
        let began = Instant::now();
        self.asked = Some(began);
        let outcome = read(cron, self.definitions.revision()).await.map(|read| self.update(cron, read));
        // Large groups are read less often: reads take at most a tenth of the time.
        let interval = MIN_INTERVAL.max(began.elapsed() * 10);
        self.fresh = Some((Instant::now() + interval, outcome.clone()));
        outcome
    }

    /// Formats a version for viewers.
    pub(super) fn token(&self, version: u64) -> String {
        format!("{}-{version}", self.id.simple())
    }

    /// Returns the version of the latest change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the version in a viewer's token; 0 if the token belongs to another view.
    pub(super) fn known(&self, token: &str) -> u64 {
        let version =
            token.strip_prefix(&*self.id.simple().to_string()).and_then(|rest| rest.strip_prefix('-'));
        version.and_then(|version| version.parse().ok()).unwrap_or(0)
    }

    /// Returns the live nodes as JSON.
    pub(super) fn nodes(&self) -> Value {
        self.nodes.iter().map(|node| json!({ "name": node.name, "leading": node.leading })).collect()
    }

    fn update(&mut self, cron: &Scheduler, read: Read) {
        let Read { now, summary, instances, controls, open } = read;
        self.definitions.update(instances);
        let (controls, backfills): (BTreeMap<LockName, JobControls>, _) = match controls {
            FleetControls::Changed { jobs, backfills, .. } => (jobs.into_iter().collect(), backfills),
            _ => (BTreeMap::new(), Vec::new()),
        };
        let (local, kinds) = {
            let registry = lock(&cron.shared.registry);
            (registry.jobs.clone(), registry.kinds.clone())
        };
        let summaries: BTreeMap<LockName, JobSummary> =
            summary.jobs.into_iter().map(|job| (job.job.clone(), job)).collect();
        let mut open_of: BTreeMap<&LockName, Vec<&OpenRun>> = BTreeMap::new();
        for run in &open {
            open_of.entry(&run.job).or_default().push(run);
        }
        let mut backfills_of: BTreeMap<&LockName, Vec<&Backfill>> = BTreeMap::new();
        for backfill in &backfills {
            backfills_of.entry(&backfill.job).or_default().push(backfill);
        }
        // An instance is listed if it has a definition or open runs. A kind is not a job.
        let in_code = summaries.keys().filter(|name| job::kind_of(name).is_none());
        let names = in_code.chain(local.keys()).chain(self.definitions.names());
        let names: BTreeSet<_> = names.chain(open_of.keys().copied()).collect();
        self.rows.retain(|name, _| names.contains(&name));
        let version = self.version + 1;
        for name in names {
            let (job, definition) = (local.get(name), self.definitions.get(name));
            let known = summaries.get(name);
            let kind = job::kind_of(name).and_then(job::described_as);
            let described = summaries.get(kind.as_ref().unwrap_or(name));
            let of_kind = || kinds.get(job::kind_of(name)?).map(|kind| kind.terms.alert_after);
            let terms_here = job.map(|job| job.terms.alert_after).or_else(of_kind);
            let since = definition.map(|definition| definition.since);
            let alert_after = terms_here.unwrap_or_else(|| described?.alert_after);
            let progress = Progress::new(alert_after, since, known, controls.get(name));
            let facts = Facts {
                name,
                summary: known,
                progress,
                controls: controls.get(name),
                open: open_of.remove(name).unwrap_or_default(),
                backfills: backfills_of.remove(name).unwrap_or_default(),
                is_instance: definition.is_some(),
                nodes: &summary.nodes,
                now,
            };
            let known = self.rows.remove(name);
            let (plan, known) = match known {
                Some(row) => (Some(row.plan), Some((row.json, row.terms, row.version))),
                None => (None, None),
            };
            let schedule = job.map(|job| &job.schedule);
            let schedule =
                schedule.or_else(|| definition.and_then(|definition| definition.schedule.as_ref()));
            let stored = definition.map(|definition| &*definition.text);
            let plan = planned(plan, &facts, schedule, stored);
            let (json, flags) = (facts.json(&plan), facts.flags());
            let terms = described.map_or_else(String::new, |described| described.terms.clone());
            let version = match known {
                Some((before, of_before, version)) if before == json && of_before == terms => version,
                _ => {
                    self.version = version;
                    version
                }
            };
            self.rows.insert(name.clone(), Row { flags, json, version, plan, terms });
        }
        (self.now, self.nodes) = (now, summary.nodes);
    }
}

/// Reads the store. Instances are read only if they changed after the revision `known`.
async fn read(cron: &Scheduler, known: u64) -> Result<Read, CronError> {
    let ledger = &cron.shared.node.ledger;
    let instances = ledger.instances(known).await?;
    let summary = ledger.summary().await?;
    let controls = ledger.controls(NO_REVISION).await?;
    let open = ledger.open_runs().await?;
    Ok(Read { now: summary.now, summary: summary.outcome, instances, controls, open })
}

/// Returns the plan of the schedule that applies to a job: the replacement; otherwise `schedule`, if this program has
/// or can read it; otherwise the stored text.
fn planned(
    before: Option<Plan>,
    facts: &Facts<'_>,
    schedule: Option<&Schedule>,
    stored: Option<&str>,
) -> Plan {
    let effective = schedule.map(|schedule| job::effective(facts.name, schedule, facts.controls).schedule);
    let replacement = facts.controls.and_then(|controls| controls.schedule.as_deref());
    let described = || facts.summary.map_or("", |summary| &summary.schedule);
    let text = effective
        .as_ref()
        .map_or_else(|| replacement.or(stored).unwrap_or_else(described).to_owned(), ToString::to_string);
    let described = || read_dst(facts.summary.map_or("", |summary| &summary.dst));
    let policy = effective.as_ref().map_or_else(described, Schedule::dst_policy);
    match (before, effective) {
        (Some(mut plan), _) if plan.is_of(&text, policy) => {
            plan.advance(facts.now);
            plan
        }
        (_, Some(schedule)) => Plan::of(&schedule, facts.now),
        (_, None) => Plan::read(facts.name, &text, policy, facts.now),
    }
}

/// The schedules of the instances.
struct Definitions {
    /// The revision up to which the instances have been read.
    revision: u64,
    of: BTreeMap<LockName, Definition>,
}

/// The schedule of an instance.
struct Definition {
    /// The text in the store.
    text: String,
    /// `None` if this version of the program cannot read the text.
    schedule: Option<Schedule>,
    /// The time from which `alert_after` is measured before the first success.
    since: UtcTime,
}

impl Default for Definitions {
    fn default() -> Self {
        Self { revision: NO_REVISION, of: BTreeMap::new() }
    }
}

impl Definitions {
    fn revision(&self) -> u64 {
        self.revision
    }

    fn get(&self, name: &LockName) -> Option<&Definition> {
        self.of.get(name)
    }

    fn names(&self) -> impl Iterator<Item = &LockName> {
        self.of.keys()
    }

    /// Applies the instances that changed after the known revision.
    fn update(&mut self, read: Instances) {
        let (revision, instances) = match read {
            Instances::Changed { revision, instances, removed } => {
                for name in &removed {
                    self.of.remove(name);
                }
                (revision, instances)
            }
            Instances::All { revision, instances, .. } => {
                self.of.clear();
                (revision, instances)
            }
            _ => return,
        };
        self.revision = revision;
        self.of.extend(instances.into_iter().map(|instance| (instance.name.clone(), defined(instance))));
    }
}

fn defined(instance: Instance) -> Definition {
    let (schedule, since) = (job::schedule_of(&instance).ok(), job::counts_from(&instance));
    Definition { text: instance.definition.schedule, schedule, since }
}
