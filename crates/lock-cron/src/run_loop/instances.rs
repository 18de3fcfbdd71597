//! The instances of this node's kinds, as of the last read of the store.

use super::{
    effect::{Effect, panicked},
    state::RunLoop,
};
use crate::{
    kind::{is_on_a_node, kind_of},
    ledger_client::{Answer, NO_REVISION},
    time::UtcTime,
};
use lock_core::{__private::Backoff, LockName};
use lock_ledger::{Instance, Instances, LiveNode, OpenRun, Registration, RunId};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The pauses after failed reads, which can be large.
const READ_WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// The group's instances, as read by this node.
#[derive(Debug)]
pub(super) struct KnownInstances {
    /// The revision up to which they are known.
    revision: u64,
    /// The last time at which the store had that revision.
    current_at: UtcTime,
    /// The instances that this node cannot run.
    foreign: BTreeSet<LockName>,
    /// Set while they are being read.
    pub(super) reading: bool,
    /// The earliest time of the next read, and the waits after failed reads.
    next_read: (Instant, Backoff),
}

impl Default for KnownInstances {
    fn default() -> Self {
        let current_at = UtcTime::default();
        let next_read = (Instant::now(), READ_WAITS);
        Self { revision: NO_REVISION, current_at, foreign: BTreeSet::new(), reading: false, next_read }
    }
}

impl RunLoop {
    pub(super) fn is_instance(&self, name: &LockName) -> bool {
        self.jobs.get(name).is_some_and(|job| job.definition > 0)
    }

    /// Reads the instances if a heartbeat shows another revision. A leader reads them even if it has no
    /// kinds, since it reports those that no node runs.
    pub(super) fn instances_seen(&mut self, revision: u64, nodes: &[LiveNode], at: UtcTime) {
        if self.kinds.is_empty() && self.leadership.is_none() {
            return;
        }
        if revision == self.instances.revision {
            self.instances.current_at = at;
            if self.leadership.is_some() {
                let unowned = self.instances.foreign.iter().filter(|name| !is_on_a_node(name, nodes));
                let unowned = self.unowned.report(unowned.cloned().collect());
                self.report_unowned(&unowned);
            }
        } else if !self.instances.reading && Instant::now() >= self.instances.next_read.0 {
            self.instances.reading = true;
            let (node, known) = (self.shared.node.clone(), self.instances.revision);
            let read = async move { Effect::InstancesRead(node.ledger.instances(known).await) };
            self.spawn(read, Effect::InstancesRead(Err(panicked())));
        }
    }

    /// Makes the next heartbeat read all instances.
    fn read_all_instances(&mut self) {
        (self.instances.revision, self.timers.heartbeat) = (NO_REVISION, Instant::now());
    }

    pub(super) fn instances_read(&mut self, answer: Answer<Instances>) {
        self.instances.reading = false;
        let (revision, instances, removed) = match answer {
            Ok(Instances::Changed { revision, instances, removed }) => (revision, instances, removed),
            Ok(Instances::All { revision, instances, .. }) => {
                let known: BTreeSet<_> = instances.iter().map(|instance| &instance.name).collect();
                let here = self.jobs.values().filter(|job| job.definition > 0).map(|job| &job.name);
                let here = here.chain(&self.instances.foreign);
                let removed = here.filter(|name| !known.contains(name)).cloned().collect();
                (revision, instances, removed)
            }
            Ok(_) => return,
            Err(error) => {
                let (next_read, waits) = &mut self.instances.next_read;
                *next_read = Instant::now() + waits.next_wait();
                return self.shared.node.store_failed(&error);
            }
        };
        self.instances.next_read.1 = READ_WAITS;
        self.instances.revision = revision;
        for name in &removed {
            self.instances.foreign.remove(name);
            self.undefine(name);
        }
        let mut defined = BTreeSet::new();
        for instance in instances {
            if self.define(&instance) {
                defined.insert(instance.name);
            }
        }
        self.register_defined(&defined);
    }

    /// Applies an instance's definition. Returns `true` if it changed and this node can run it.
    fn define(&mut self, instance: &Instance) -> bool {
        let name = &instance.name;
        if self.jobs.get(name).is_some_and(|job| job.definition == instance.revision) {
            return false;
        }
        let kind = kind_of(name).and_then(|kind| self.kinds.get(kind));
        let job = kind.and_then(|kind| match kind.job(instance) {
            Ok(job) => Some(Arc::new(job)),
            Err(error) => {
                // Another version of the program stored it, or its zone is unknown on this machine.
                tracing::error!(cron.job = %name, %error, "failed to parse the instance's schedule; it will not run");
                None
            }
        });
        let Some(job) = job else {
            self.instances.foreign.insert(name.clone());
            self.undefine(name);
            return false;
        };
        self.instances.foreign.remove(name);
        let controls = job.effective(self.controls.get(name));
        self.planner.define(self.now(), name, (job.terms.clone(), job.definition), controls);
        self.plan_backfills(name);
        self.jobs.insert(name.clone(), job);
        true
    }

    fn undefine(&mut self, name: &LockName) {
        if self.is_instance(name) {
            self.jobs.remove(name);
            self.planner.remove(name);
        }
    }

    /// If this node leads, reads the watermarks of new definitions and plans their triggers.
    fn register_defined(&mut self, defined: &BTreeSet<LockName>) {
        if self.leadership.is_none() || defined.is_empty() {
            return;
        }
        self.register(&defined.iter().cloned().collect::<Vec<_>>(), Duration::ZERO);
        for trigger in self.triggers.iter().filter(|trigger| defined.contains(&trigger.job)) {
            self.planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
        }
    }

    /// Reads the watermarks of instances. They are not registered: the request that added them set a watermark, and
    /// nothing may be written for an instance that has been forgotten.
    pub(super) fn read_watermarks(&mut self, jobs: Vec<Registration>, after: Duration) {
        let node = self.shared.node.clone();
        let failed = Effect::WatermarksRead { jobs: jobs.clone(), answer: Err(panicked()) };
        let read = async move {
            sleep(after).await;
            let answer = node.ledger.watermarks(jobs.clone()).await;
            Effect::WatermarksRead { jobs, answer }
        };
        self.spawn(read, failed);
    }

    pub(super) fn watermarks_read(&mut self, jobs: Vec<Registration>, answer: Answer<Vec<Option<UtcTime>>>) {
        match answer {
            Ok(watermarks) if self.leadership.is_some() => {
                let now = self.now();
                for (registration, watermark) in jobs.iter().zip(watermarks) {
                    match watermark {
                        Some(watermark) => self.planner.registered(registration, watermark, now),
                        None => self.read_all_instances(),
                    }
                }
            }
            Ok(_) => {}
            Err(error) => self.registration_failed(&error, jobs),
        }
    }

    /// Returns `true` if an open run belongs to an instance of one of this node's kinds, and the instance was removed
    /// after the run was claimed.
    pub(super) fn is_of_a_removed_instance(&self, run: &OpenRun) -> bool {
        let is_ours = kind_of(&run.job).is_some_and(|kind| self.kinds.contains_key(kind));
        let is_known = self.jobs.contains_key(&run.job) || self.instances.foreign.contains(&run.job);
        is_ours && !is_known && run.started < self.instances.current_at
    }
}
